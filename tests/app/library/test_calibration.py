"""What is fitted to which measurements, and what each runtime's plan measures."""

from dataclasses import replace

import pytest

from app.library.calibration import candidates, fit, measured_points, plan
from app.library.measurements import Measurement
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
DRIVEN = OperatingPoint(runtime="llamacpp_cpu", weights="q4_1", kv="fp16", alpha=0.5)


def measured(point, decode_s):
    record = {"median": decode_s, "q05": decode_s, "q95": decode_s, "n": 40, "provenance": "measured"}
    return Measurement(point, {"decode_s": record}, "2026-01-01T00:00:00+00:00", "m")


def test_runtimes_are_fitted_apart():
    own = [measured(OperatingPoint(context_tokens=n), 0.01) for n in (256.0, 2048.0)]
    other = [measured(replace(DRIVEN, alpha=0.0, context_tokens=n), 0.02) for n in (256.0, 1024.0, 2048.0)]
    for at, n in ((OperatingPoint(), 2), (DRIVEN, 3)):
        found = fit(own + other, CATALOGUE, at).calibration
        assert len(found.points) == n
        assert found.posterior.runtime == at.runtime
    assert fit(own, CATALOGUE, DRIVEN) is None


def test_a_calibration_of_a_board_says_at_how_many_points_it_was_measured():
    points = [OperatingPoint(board="rk3588", context_tokens=n) for n in (256.0, 2048.0)]
    again = [measured(point, seconds) for point in points for seconds in (0.010, 0.011, 0.0105)]
    found = fit(again, CATALOGUE, points[0]).calibration
    assert len(found.points) == 2
    assert found.posterior.basis.startswith("measurements at 2 points, the last of 2026-01-01")


def test_the_plan_of_a_runtime_varies_what_it_can_vary():
    points = plan(DRIVEN, CATALOGUE)
    assert [p.context_tokens for p in points] == [256, 1024, 2048]
    assert {(p.runtime, p.weights, p.kv, p.alpha) for p in points} == {("llamacpp_cpu", "q4_1", "fp16", 0.0)}
    assert {p.context_tokens for p in candidates(DRIVEN)} > {256, 1024}
    assert {p.weights for p in plan(OperatingPoint(), CATALOGUE)} > {"int4"}


def test_what_a_runtime_measured_predicts_its_other_contexts():
    other = [measured(replace(DRIVEN, alpha=0.0, context_tokens=n), 0.008 + n * 2e-6) for n in (256.0, 1024.0, 2048.0)]
    found = fit(other, CATALOGUE, DRIVEN)
    point, sentence = found.proposal
    assert point.runtime == "llamacpp_cpu"
    assert sentence
    assert found.calibration.check.median_error_frac < 0.05


def test_the_time_of_choosing_anew_is_not_fitted():
    """No parameter explains it: a calibration sees the token without it."""
    point = OperatingPoint(alpha=0.5, reselect_tokens=16.0)
    body = measured(point, 0.012).body | {"conditions": {"choice_s": {"median": 0.064}}}
    (found,) = measured_points([Measurement(point, body, "2026-01-01T00:00:00+00:00", "m")], CATALOGUE)
    assert found.decode_s == pytest.approx(0.012 - 0.064 / 16)
    assert found.point == replace(point, reselect_tokens=0.0)
