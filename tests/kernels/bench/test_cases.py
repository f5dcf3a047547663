"""The cases of the bench on small shapes: each agrees with its reference and can be called again and again."""

import pytest
import torch

from kernels.bench import attention, dispatch, harness, linear, passes, prefill
from kernels.decoder.dispatch import variants
from kernels.decoder.linear import PREFILL_ROWS
from kernels.eviction.policies import n_kept
from kernels.machine.timing import Timing


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(attention, "SHAPES", ((2, 2, 64, 400), (1, 3, 16, 150)))
    monkeypatch.setattr(attention, "QUICK_SHAPES", ((2, 2, 64, 400),))
    monkeypatch.setattr(passes, "CACHE", (2, 256, 128))
    monkeypatch.setattr(passes, "N_ACTIVATIONS", 1 << 16)
    monkeypatch.setattr(linear, "QUICK_SHAPES", ((64, 128),))
    monkeypatch.setattr(prefill, "QUICK_SHAPES", ((2, 2, 64, 70, 80),))
    monkeypatch.setattr(prefill, "QUICK_PRODUCTS", ((PREFILL_ROWS, 64, 128),))
    monkeypatch.setattr("kernels.decoder.dispatch.n_copies", lambda *_: 2)
    for module in (attention, passes):
        monkeypatch.setattr(module, "n_copies", lambda *_: 2)
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("subject", [attention, passes])
@pytest.mark.parametrize("quick", [True, False])
def test_cases_check_themselves_and_run(subject, quick):
    found = list(subject.cases(quick, "cpu"))
    for case in found:
        case.check()
        for _ in range(3):
            case.run()
            if case.baseline:
                case.baseline()
        case.check()  # what runs in place has not changed what is compared
        assert case.floor_byte > 0
    keys = [(case.name, case.variant, case.shape, case.dtype) for case in found]
    assert len(set(keys)) == len(keys)
    assert any(case.trap for case in found)


def test_goals_are_speedups_over_what_is_really_read():
    found = {case.name: case for case in attention.cases(True, "cpu")}
    kept = n_kept(400, 0.6)
    assert found["pruned attention, compacted"].goal_speedup == pytest.approx(0.95 * 400 / kept)
    pages = 2 * 64 + 16  # of 6 full ones, and the one being filled
    assert found["pruned attention, pages in place"].goal_speedup == pytest.approx(0.75 * 400 / pages)
    assert found["pruned attention, mask"].trap


def test_a_wrong_kernel_is_found_out(monkeypatch):
    case = next(attention.cases(True, "cpu"))
    monkeypatch.setattr(attention, "_attend", lambda held: torch.zeros(4, 64))
    with pytest.raises(ValueError, match="largest error"):
        case.check()


def test_the_dispatcher_is_held_against_every_variant_it_did_not_choose():
    found = list(dispatch.cases(True, "cpu"))
    for weight_format in linear.FORMATS:
        chosen, *others = (
            variant.name for variant in variants(weight_format)
        )  # the first, since nothing is timed here
        held = [c for c in found if c.dtype == weight_format]
        assert {c.name.partition(", not ")[2] for c in held} == set(others)
        assert {c.variant for c in held} == {chosen}
    assert sum(c.name.startswith("dispatch of prefill attention") for c in found) == 2
    for case in found:
        case.check()
        assert case.baseline().shape == case.run().shape


@pytest.mark.parametrize(("chosen_s", "holds"), [(1.04e-3, True), (1.06e-3, False)])
def test_a_choice_more_than_a_twentieth_slower_does_not_hold(monkeypatch, chosen_s, holds):
    timings = [Timing(duration_s, 1.0, 1e9, "") for duration_s in (chosen_s, 1e-3)]
    monkeypatch.setattr(harness, "timed", lambda *_: timings)
    monkeypatch.setattr(harness, "ReadProbe", lambda _: lambda: 1e9)
    rows = harness.run(["dispatch/linear int4"], quick=True)
    assert [row["holds"] for row in rows] == [holds] * 3


def test_products_of_a_prompt_agree_with_their_reference():
    found = [c for c in prefill.cases(True, "cpu") if c.name.startswith("product")]
    for case in found:
        case.check()
        assert case.run().shape == case.baseline().shape == (PREFILL_ROWS, 64)
    assert {case.variant for case in found} == {"native, then torch mm"}
