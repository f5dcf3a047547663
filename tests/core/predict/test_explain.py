from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.predict.explain import Bound, explain, margins, roofline_s
from core.predict.scenario import decode_costs, initial_posterior, predict
from core.spec import Absent, Estimate, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
BASE = OperatingPoint(weights="int8")


def explained(point, catalogue=CATALOGUE, **more):
    return explain(point, catalogue, initial_posterior(catalogue.resolve(point), catalogue), **more)


def test_shares_are_of_the_decode_time_and_the_largest_dominates():
    point = replace(BASE, model="llama-3-8b", context_tokens=16.0)
    short, prediction = explained(point), predict(point, CATALOGUE)
    assert short.shares["weights"] == pytest.approx(prediction.parts_s["weights"] / prediction.decode_s.median)
    assert sum(short.shares.values()) == pytest.approx(1.0)
    assert short.dominant == "weights"
    assert short.bound is Bound.MEMORY
    assert explained(replace(BASE, context_tokens=8192.0, kv="fp32")).dominant == "kv"


@pytest.mark.parametrize(
    ("parts", "bound", "dominant"),
    [
        ({"weights": 3.1, "kv": 5.8, "layers": 1.1}, Bound.MEMORY, "kv"),
        ({"weights": 2.7, "kv": 2.5, "layers": 4.8}, Bound.MEMORY, None),
        ({"compute": 7.0, "weights": 1.0, "layers": 2.0}, Bound.COMPUTE, "compute"),
        ({"unpack": 5.1, "weights": 4.9}, Bound.COMPUTE, "unpack"),
        ({"token": 6.0, "weights": 4.0}, Bound.OVERHEAD, "token"),
        ({"weights": 5.0, "layers": 5.0}, None, None),
        ({"layers": 3.9, "token": 0.2, "weights": 2.9, "kv": 1.8, "unpack": 1.2}, None, None),
    ],
)
def test_a_bound_takes_more_than_half_of_the_time(parts, bound, dominant):
    here = replace(predict(BASE, CATALOGUE), parts_s=parts, binding="memory")
    found = explained(BASE, predicted=lambda _: here)
    assert (found.bound, found.dominant) == (bound, dominant)


def test_a_point_bound_by_arithmetic():
    fast = explained(replace(BASE, model="llama-3-8b", bandwidth_byte_s=1e15))
    assert (fast.binding, fast.bound, fast.dominant) == ("compute", Bound.COMPUTE, "compute")


def test_memory_is_told_with_its_bytes():
    point = replace(BASE, board="jetson_orin_nano_8gb_super", runtime="llamacpp_gpu", model="llama-3.1-8b")
    board = CATALOGUE.boards[point.board]
    small, large = (explained(replace(point, weights=weights)).memory for weights in ("q4_k_m", "q8_0"))
    assert small.fits
    assert not large.fits
    assert large.available_byte == 0.93 * board.memory_byte - 0.8e9
    assert (large.memory_byte, large.of_largest_version) == (board.memory_byte, False)
    assert large.needed_byte > large.available_byte > small.needed_byte
    pruned = explained(replace(point, weights="q8_0", runtime="builtin", alpha=0.5))
    assert pruned.memory.needed_byte == large.needed_byte  # the whole prompt has left its cache there
    assert "does not fit" in pruned.outside[0]
    unknown = {**CATALOGUE.boards, point.board: replace(board, memory_byte=None, most_memory_byte=None)}
    assert "no source states the memory" in explained(point, replace(CATALOGUE, boards=unknown)).memory.reason


def test_missed_limits_are_those_that_the_median_breaks():
    here = predict(BASE, CATALOGUE)
    assert explained(BASE).missed == ()
    kept = explained(BASE, latency_s=here.decode_s.median, accuracy_frac=here.top1_agreement.median)
    assert kept.missed == ()
    broken = explained(BASE, latency_s=0.9 * here.decode_s.median, power_w=1e3, accuracy_frac=0.999)
    assert [(one.output, one.value) for one in broken.missed] == [
        ("decode_s", pytest.approx(here.decode_s.median)),
        ("top1_agreement", pytest.approx(here.top1_agreement.median)),
    ]


def test_a_measured_value_goes_before_the_predicted():
    slow = Estimate(1.0, 0.9, 1.1, Provenance.MEASURED)
    found = explained(BASE, latency_s=0.5, measured=lambda name: slow if name == "decode_s" else Absent("none"))
    assert [(one.output, one.value) for one in found.missed] == [("decode_s", 1.0)]


def test_remedies_of_a_missed_accuracy_limit():
    pruned = replace(BASE, alpha=0.9)
    kept = explained(pruned, accuracy_frac=0.9, alpha_max=0.3)
    assert (kept.feasible_alpha, kept.needs_bits) == (0.3, False)
    assert explained(replace(BASE, weights="int4"), accuracy_frac=0.999, alpha_max=0.0).needs_bits
    assert explained(BASE, accuracy_frac=0.9, alpha_max=0.3).feasible_alpha is None


def test_no_change_prunes_beyond_r_max():
    for alpha in (0.0, 0.2, 0.6):
        found = explained(replace(BASE, alpha=alpha), alpha_max=0.3)
        assert all(change.step.point.alpha <= max(alpha, 0.3) for change in found.changes)
        assert set(found.proposed) <= set(found.changes)


def test_without_a_decode_time_there_are_no_shares():
    key = next(key for key, form in CATALOGUE.weight_formats.items() if form.accuracy_only)
    found = explained(replace(BASE, weights=key))
    assert (found.parts_s, found.shares, found.bound, found.dominant, found.changes) == ({}, {}, None, None, ())


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
    assert explained(point, near).shares["compute"] == pytest.approx(1.0, abs=0.01)
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
