from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.predict.explain import explain, margins, roofline_s
from core.predict.scenario import decode_costs, predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
BASE = OperatingPoint(weights="int8")


def test_explanation_names_the_largest_part_and_its_share():
    short = predict(replace(BASE, model="llama-3-8b", context_tokens=16.0), CATALOGUE)
    share = 100 * short.parts_s["weights"] / short.decode_s.median
    assert explain(short, []).startswith(f"Reading the weights limits this point: it takes {share:.0f} %")
    long = predict(replace(BASE, context_tokens=8192.0, kv="fp32"), CATALOGUE)
    assert explain(long, []).startswith("Reading the KV cache limits this point")


def test_explanation_of_a_point_bound_by_arithmetic():
    fast = predict(replace(BASE, model="llama-3-8b", bandwidth_byte_s=1e15), CATALOGUE)
    assert fast.binding == "compute"
    assert explain(fast, []).startswith("Arithmetic limits this point")


def fitting(rate_op_s):
    """A catalogue whose machine computes at a rate."""
    board = CATALOGUE.boards["this"]
    mode = replace(next(iter(board.power_modes.values())), compute_op_s=rate_op_s)
    board = replace(board, power_modes={mode.key: mode})
    return replace(CATALOGUE, boards={**CATALOGUE.boards, "this": board})


def test_what_arithmetic_hides_does_not_limit_a_point():
    """Arithmetic takes a tenth longer than reading, which it overlaps: a faster memory saves nothing."""
    point = replace(BASE, model="llama-3-8b", weights="int4", context_tokens=64.0)
    parts = decode_costs(point, CATALOGUE.resolve(point), 1e10)
    memory_s, _ = roofline_s(replace(point, bandwidth_byte_s=1e10), fitting(1e15))
    near = fitting(float(parts.flop) / (1.1 * memory_s))
    point = replace(point, bandwidth_byte_s=1e10)
    found = predict(point, near)
    assert found.binding == "compute"
    assert found.parts_s["weights"] > found.parts_s["compute"]
    assert explain(found, []).startswith("Arithmetic limits this point: it takes 100 %")
    assert predict(replace(point, bandwidth_byte_s=2e10), near).decode_s.median == pytest.approx(found.decode_s.median)
    assert predict(replace(point, beta=1.05), near).decode_s.median < 0.97 * found.decode_s.median


def test_roofline_terms_are_the_two_sides_of_the_maximum():
    point = replace(BASE, context_tokens=64.0, bandwidth_byte_s=2e10)
    for rate in (1e9, 1e13):
        catalogue = fitting(rate)
        memory_s, compute_s = roofline_s(point, catalogue)
        found = predict(point, catalogue)
        assert (memory_s >= compute_s) == (found.binding == "memory")
        rest = sum(float(found.parts_s[name]) for name in ("layers", "token", "reselection"))
        assert max(memory_s, compute_s) + rest == pytest.approx(found.decode_s.median, rel=1e-9)
    assert roofline_s(point, fitting(None)).reason.startswith("no source states the compute rate")


@pytest.mark.parametrize("limit", [{"latency_s": 0.0}, {"power_w": -1.0}, {"accuracy_frac": 1.0}])
def test_limits_out_of_range_are_refused(limit):
    with pytest.raises(ValueError, match=f"{next(iter(limit))} = "):
        margins(predict(BASE, CATALOGUE), **limit)


def test_margins_are_the_shares_left_of_each_limit():
    found = predict(BASE, CATALOGUE)
    top1 = found.top1_agreement
    made = margins(found, latency_s=2 * found.decode_s.median, accuracy_frac=0.5)
    assert made["latency"].median == pytest.approx(0.5)
    assert made["latency"].low == pytest.approx(1 - found.decode_s.q95 / (2 * found.decode_s.median))
    assert made["accuracy"].median == pytest.approx(2 * top1.median - 1)
    assert made["accuracy"].low < made["accuracy"].median < made["accuracy"].high
