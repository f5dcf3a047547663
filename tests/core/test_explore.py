from dataclasses import replace

import pytest

from core.calibrate import calibrate
from core.explore import explain, next_measurement
from core.load import load_catalogue
from core.measured import MeasuredPoint
from core.scenario import predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
BASE = OperatingPoint(weights="int8")


def measured(*points):
    return [MeasuredPoint(p, predict(p, CATALOGUE).decode_s.median, 0.003) for p in points]


def test_explanation_names_the_largest_part_and_its_share():
    short = predict(replace(BASE, model="llama-3-8b", context_tokens=16.0), CATALOGUE)
    share = 100 * short.parts_s["weights"] / short.decode_s.median
    assert explain(short).startswith(f"Reading the weights limits this point: it takes {share:.0f} %")
    long = predict(replace(BASE, context_tokens=8192.0, kv="fp32"), CATALOGUE)
    assert explain(long).startswith("Reading the KV cache limits this point")


def test_explanation_of_a_point_bound_by_arithmetic():
    fast = predict(replace(BASE, model="llama-3-8b", bandwidth_byte_s=1e15), CATALOGUE)
    assert fast.binding == "compute"
    assert explain(fast).startswith("Arithmetic limits this point")


def test_next_measurement_is_where_least_is_known():
    # Only short contexts were measured, so the cost of the KV cache is what is missing.
    calibration = calibrate(measured(*[replace(BASE, context_tokens=n) for n in (16.0, 32.0, 64.0)]), CATALOGUE)
    candidates = [replace(BASE, context_tokens=n, alpha=a) for n in (64.0, 512.0, 4096.0) for a in (0.0, 0.9)]
    point, sentence = next_measurement(calibration, candidates, CATALOGUE)
    assert (point.context_tokens, point.alpha) == (4096.0, 0.0)
    assert "context 4096 narrows the cost of a KV byte in bf16 by" in sentence


def test_measuring_it_narrows_the_predictions_as_announced():
    candidates = [replace(BASE, context_tokens=n) for n in (64.0, 512.0, 4096.0)]
    before = calibrate(measured(replace(BASE, context_tokens=16.0)), CATALOGUE)
    point, _ = next_measurement(before, candidates, CATALOGUE)
    after = calibrate(measured(replace(BASE, context_tokens=16.0), point), CATALOGUE)
    spread = [predict(point, CATALOGUE, c.posterior).decode_s for c in (before, after)]
    assert spread[1].q95 / spread[1].q05 < 0.8 * spread[0].q95 / spread[0].q05


@pytest.mark.parametrize("candidates", [[], [BASE]])
def test_nothing_is_proposed_where_nothing_is_new(candidates):
    assert next_measurement(calibrate(measured(BASE), CATALOGUE), candidates, CATALOGUE) is None


def test_what_measuring_again_would_not_tell_is_not_proposed():
    many = [replace(BASE, context_tokens=float(n), alpha=a) for n in range(64, 4096, 200) for a in (0.0, 0.5)]
    calibration = calibrate(measured(*many), CATALOGUE)
    assert next_measurement(calibration, [replace(BASE, context_tokens=1000.0)], CATALOGUE) is None
