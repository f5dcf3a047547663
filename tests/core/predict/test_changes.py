from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.predict.changes import CHEAP_AGREEMENT, WORTH_FRAC, Change, Kind, Step, changes, proposed, steps
from core.predict.scenario import predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
BASE = OperatingPoint(weights="bf16", context_tokens=1024.0)


def tried(point, alpha_max=0.6):
    taken = steps(point, CATALOGUE, point.bandwidth_byte_s or 3e10, alpha_max)
    return changes(predict(point, CATALOGUE), taken, lambda one: predict(one, CATALOGUE))


@pytest.mark.parametrize("weights", ["int4", "bf16"])
@pytest.mark.parametrize("bandwidth", [1e10, 1e12, 1e18])
@pytest.mark.parametrize("context", [1.0, 3.0, 8192.0])
def test_what_is_said_to_help_helps_by_that_much(weights, bandwidth, context):
    point = OperatingPoint(weights=weights, bandwidth_byte_s=bandwidth, context_tokens=context, beta=600.0)
    here, found = predict(point, CATALOGUE), tried(point)
    for change in found:
        there = predict(change.step.point, CATALOGUE).decode_s.median
        assert there / here.decode_s.median - 1.0 == pytest.approx(change.decode_frac)
        assert change.decode_frac <= -WORTH_FRAC
    assert found == sorted(found, key=lambda change: change.decode_frac)
    assert all(change.step.kind is Kind.SETTING for change in proposed(found, here))


@pytest.mark.parametrize(
    ("runtime", "weights", "kv", "expected"),
    [
        ("builtin", "bf16", "bf16", {"halving the kept cache (α 0.50)", "int8 weights", "an int8 KV cache"}),
        ("builtin", "int4", "int4", {"halving the kept cache (α 0.50)"}),
        ("llamacpp_gpu", "q8_0", "fp16", {"q4_k_m weights", "a q8_0 KV cache"}),
        ("rkllm_npu", "w8a8", "fp16", {"w4a16 weights"}),
        ("rkllm_npu", "w4a16", "fp16", set()),
    ],
)
def test_only_what_the_runtime_can_be_set_to_is_a_setting(runtime, weights, kv, expected):
    point = replace(BASE, runtime=runtime, weights=weights, kv=kv)
    found = steps(point, CATALOGUE, 3e10, 0.6)
    assert {step.text for step in found if step.kind is Kind.SETTING} == expected
    assert {step.kind for step in found} >= {Kind.TASK, Kind.BOARD}


@pytest.mark.parametrize(
    ("alpha", "alpha_max", "pruned"),
    [(0.0, 0.5, 0.5), (0.0, 0.4999, 0.49), (0.4, 0.9, 0.7), (0.4, 0.405, None), (0.8, 0.3, None), (0.0, None, None)],
)
def test_pruning_goes_as_far_as_the_budget_holds(alpha, alpha_max, pruned):
    found = [step.point.alpha for step in steps(replace(BASE, alpha=alpha), CATALOGUE, 3e10, alpha_max)]
    assert [other for other in found if other != alpha] == ([] if pruned is None else [pruned])


def test_masked_tokens_may_be_compacted():
    found = {step.text: step.point for step in steps(replace(BASE, alpha=0.3, layout="masked"), CATALOGUE, 3e10, 0.3)}
    assert found["compacting the kept tokens"].layout == "compacted"


def test_what_costs_agreement_is_proposed_only_for_time():
    def change(text, decode, top1, kind=Kind.SETTING):
        return Change(Step(text, BASE, kind), decode, None, top1)

    found = [
        change("half the context", -0.5, 0.0, Kind.TASK),
        change("dear", -0.4, -2 * CHEAP_AGREEMENT),
        change("cheap", -0.3, -0.5 * CHEAP_AGREEMENT),
        change("unknown", -0.2, None),
        change("more", -0.1, 0.0),
    ]
    here = predict(BASE, CATALOGUE)
    now = here.decode_s.median

    def named(changes, *limit):
        return [one.step.text for one in proposed(changes, here, *limit)]

    assert named(found) == named(found, 1.1 * now) == ["cheap", "unknown"]
    assert named(found, 0.9 * now) == ["dear", "cheap"]
    assert named(found[:2]) == ["dear"]
