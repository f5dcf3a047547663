"""The fastest variant is chosen once, verified, never a trap, and remembered."""

import itertools
import json

import pytest
import torch

from kernels.bench.harness import Case
from kernels.decoder import autotune
from kernels.decoder.dispatch import case, check_product, offered_cases, pack, variants
from kernels.decoder.linear import FORMATS
from kernels.machine import timing


@pytest.fixture(autouse=True)
def tuning(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_AUTOTUNE", "1")
    monkeypatch.setattr(autotune, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(timing, "involuntary_switches", lambda: 0)


def made(variant, spins, trap=False, wrong=False):
    calls = itertools.count()

    def run():
        next(calls)
        sum(range(spins))

    def check():
        if wrong:
            raise ValueError("relative error 1")

    return Case("thing", variant, (2, 2), "fp32", 1.0, run, check, trap=trap)


def choose(*cases, names=None):
    return autotune.choose("thing", "fp32", (2, 2), names or [c.variant for c in cases], iter(cases))


def test_the_fastest_is_chosen_and_remembered(tmp_path):
    assert choose(made("slow", 30000), made("fast", 300)) == "fast"

    def never():
        raise AssertionError("made again although remembered")
        yield

    assert autotune.choose("thing", "fp32", (2, 2), ["slow", "fast"], never()) == "fast"
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text()) == {"thing fp32 2x2": "fast"}


def test_a_trap_and_a_variant_that_fails_its_check_are_never_chosen():
    cases = [made("trap", 1, trap=True), made("wrong", 1, wrong=True), made("sound", 30000)]
    assert choose(*cases) == "sound"


def test_nothing_sound_raises():
    with pytest.raises(ValueError, match=r"thing fp32 2x2: no variant computes .* \(wrong: relative error 1\)"):
        choose(made("wrong", 1, wrong=True))


def test_switched_off_the_first_is_taken(monkeypatch):
    monkeypatch.setenv("TRILEMMA_AUTOTUNE", "0")
    assert choose(made("slow", 30000), made("fast", 300)) == "slow"


def test_a_disturbed_choice_is_not_remembered(tmp_path, monkeypatch):
    switches = itertools.count()
    monkeypatch.setattr(timing, "involuntary_switches", lambda: next(switches))
    choose(made("slow", 3000), made("fast", 300))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "not json", "[1]", '{"thing fp32 2x2": 7}', '{"thing fp32 2x2": "gone"}'])
def test_a_damaged_or_outdated_memory_is_measured_anew(tmp_path, content):
    choose(made("slow", 30000), made("fast", 300))
    (file,) = tmp_path.iterdir()
    file.write_text(content)
    assert choose(made("slow", 30000), made("fast", 300)) == "fast"
    assert json.loads(file.read_text())["thing fp32 2x2"] == "fast"


def test_a_memory_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(autotune, "cache_folder", lambda: blocked)
    assert choose(made("slow", 30000), made("fast", 300)) == "fast"


@pytest.mark.parametrize("weight_format", FORMATS)
def test_every_variant_of_a_format_passes_its_check(weight_format, monkeypatch):
    monkeypatch.setattr("kernels.decoder.dispatch.n_copies", lambda *_: 2)
    cases = list(offered_cases(weight_format, (64, 128), "cpu"))
    assert [c.variant for c in cases] == [v.name for v in variants(weight_format)]
    for found in cases:
        found.check()
        assert found.run().shape == (1, 64)
        assert not found.trap


def test_a_check_notices_a_wrong_product(monkeypatch):
    monkeypatch.setattr("kernels.decoder.dispatch.n_copies", lambda *_: 1)
    x, weight = torch.randn(1, 64), torch.randn(32, 64)
    check_product(x @ weight.T, x, weight, 1e-5)
    with pytest.raises(ValueError, match=r"relative error 0\.\d+, expected at most 0\.001"):
        check_product(1.1 * (x @ weight.T), x, weight, 1e-3)
    assert case(variants("int8")[0], "int8", (32, 64), "cpu").floor_byte == 32 * 64 + 32 * 4


def test_packing_takes_the_variant_that_was_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr("kernels.decoder.dispatch.n_copies", lambda *_: 2)
    weight = torch.randn(96, 160)
    linear = pack(weight, "fp32")
    (file,) = tmp_path.iterdir()
    chosen = json.loads(file.read_text())["linear fp32 96x160"]
    made_by = {v.name: type(v.make(weight)) for v in variants("fp32")}
    assert type(linear) is made_by[chosen]
