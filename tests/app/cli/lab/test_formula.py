"""``trilemma lab formula``: every formula with a user's own numbers."""

import json

import pytest

from app.cli import main
from app.cli.lab.formula import _evaluated
from app.cli.shared.output import UserError
from app.text.formulas import formulas

GIVEN = ("1", "0", "-1", "0.5", "nan", "1e308", "", "1,2,3", "1,2;3", "llama-3.1-8b", "fp16", "true", "5 GB/s")


def document(capsys, *words):
    assert main(["lab", "formula", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "words", "value"),
    [
        ("hierarchy.bytes_in_flight", ["bandwidth_byte_s=51.2GB/s", "latency_s=100ns"], 5120.0),
        ("bytes_in_flight", ["latency_s=100ns", "bandwidth_byte_s=51.2GB/s"], 5120.0),
        ("traffic.kv_byte_per_token", ["shape=llama3.1:8b", "kv=fp16"], 131072.0),
        ("consensus.byzantine_faults", ["n_nodes=10"], 3),
        ("clock.offset_s", ["t1_s=100s", "t2_s=160s", "t3_s=165s", "t4_s=125s"], 50.0),
        ("pruning.entropy", ["mass=0.5,0.5"], pytest.approx(0.69314718056)),
        ("realtime.liu_layland_bound", ["n_tasks=3"], pytest.approx(0.7797631497)),
        ("compression.adapter_reduction", ["in_size=1024", "out_size=1024", "rank=4"], 0.9921875),
    ],
)
def test_a_formula_gives_its_golden_value(capsys, name, words, value):
    assert document(capsys, name, *words)["value"] == value


def test_every_formula_is_listed_and_described(capsys):
    rows = document(capsys)
    assert len(rows) == len(formulas()) > 200
    assert all(row["meaning"] and row["source"] for row in rows)
    for formula in formulas().values():
        assert formula.summary.startswith("Return "), formula.name
        assert formula.parameters or "(" not in formula.summary, formula.name
        assert formula.returns, formula.name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "formula: got 'nope'; expected one of"),
        (["hierarchy.bytes_in_flight", "latency_s=1s"], "got no bandwidth_byte_s, expected bandwidth_byte_s=..."),
        (["hierarchy.bytes_in_flight", "latency_s=1s", "latency_s=2s"], "got latency_s twice"),
        (["hierarchy.bytes_in_flight", "speed=1"], "got 'speed=1', expected PARAMETER=VALUE with bandwidth_byte_s"),
        (["hierarchy.bytes_in_flight", "latency_s=-1s", "bandwidth_byte_s=1GB/s"], "latency_s"),
        (["hierarchy.bytes_in_flight", "latency_s=1", "bandwidth_byte_s=1Gbps"], "bandwidth_byte_s"),
        (["consensus.byzantine_faults", "n_nodes=2.5"], "n_nodes: got '2.5', expected a whole number"),
        (["pruning.entropy", "mass=1,2;3"], "got rows of 2, 1 values, expected rows of equal length"),
        (["traffic.kv_byte_per_token", "shape=foo", "kv=fp16"], "shape: got 'foo'; expected one of"),
        (["realtime.utilisation", "tasks=1"], "cannot build a sequence of Task; call the function from Python"),
    ],
)
def test_bad_input_is_one_sentence(capsys, words, said):
    assert main(["lab", "formula", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


@pytest.mark.parametrize("name", formulas())
def test_any_text_gives_a_value_or_a_sentence(name):
    formula, said = formulas()[name], []
    for text in GIVEN:
        words = [f"{one.name}={text}" for one in formula.parameters if one.required]
        try:
            json.dumps(_evaluated(formula, words)["value"])
        except UserError as refused:
            said.append(str(refused))
    assert not [text for text in said if "\n" in text]
