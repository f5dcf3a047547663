"""``trilemma lab A03``: results as the rows of the lab give them, sweeps, and one sentence for a mistake."""

import json

import pytest

from app.cli import main
from app.text.lab.table import LABS


def test_the_options_are_the_inputs_of_the_item(capsys):
    assert main(["lab", "a04", "--hit-rate", "50%", "--fast", "100GB/s", "--slow", "25GB/s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"]["serial_byte_s"] == pytest.approx(40e9)
    assert found["outputs"]["published_byte_s"] == pytest.approx(62.5e9)
    assert found["provenance"]["published_byte_s"] == "as_published"
    assert found["sources"] == {
        "fast_byte_s": "user",
        "slow_byte_s": "user",
        "hit_rate": "user",
        "middle_byte_s": "assumed",
        "middle_share": "assumed",
    }


def test_a_sweep_has_one_row_a_position(capsys):
    assert main(["lab", "A03", "--latency", "100ns", "--sweep", "open-misses=1..4", "--json"]) == 0
    swept = json.loads(capsys.readouterr().out)["sweep"]
    assert swept["open_misses"] == [1, 2, 3, 4]
    assert swept["core_byte_s"] == pytest.approx([0.64e9, 1.28e9, 1.92e9, 2.56e9])
    assert main(["lab", "A04", "--sweep", "fast=100GB/s..200GB/s"]) == 0
    assert "as published" in capsys.readouterr().out


def test_a_position_of_a_sweep_without_result_names_the_reason(capsys):
    assert main(["lab", "A04", "--hit-rate", "0.5", "--sweep", "middle-share=0..1", "--json"]) == 0
    column = json.loads(capsys.readouterr().out)["sweep"]["serial_byte_s"]
    assert isinstance(column[0], float)
    assert "same bytes" in column[-1]["absent"]


def test_the_list_names_every_item_and_its_inputs(capsys):
    assert main(["lab", "items", "--json"]) == 0
    found = {row["item"]: row["inputs"] for row in json.loads(capsys.readouterr().out)}
    assert set(found) == set(LABS)
    assert found["A03"]["latency_s"]["option"] == "latency"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["A99"], "got 'A99', expected one of A03"),
        (["A03", "--latency", "40"], "Latency: got '40', expected a number and its unit"),
        (["A03", "--latency", ""], "Latency: got nothing"),
        (["A03", "--latency=-4ns"], "Latency: got −4 ns, expected 0.1 ns to 1 ms"),
        (["A03", "--channels", "1e30"], "Channels: got 1.000e30, expected a whole number from 1 to 64"),
        (["A03", "--channels", "2.5"], "expected a whole number"),
        (["A03", "--sweep", "foo"], "input: got 'foo', expected one of channels"),
        (["A03", "--sweep", "latency=5ns"], "expected INPUT=LO..HI"),
        (["A03", "--sweep", "latency=5ns..4ns"], "a lower and a higher Latency"),
        (["B15", "--time", "yesterday"], "expected a UTC time"),
    ],
)
def test_a_mistake_is_one_sentence(words, said, capsys):
    assert main(["lab", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
