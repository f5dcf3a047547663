"""Errors of predicting points that were left out."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.fit import calibrate
from core.calibrate.leave_one_out import _of, article_shape, cross_check, merged
from core.calibrate.observations import MeasuredPoint, Rows
from tests.core.calibrate.simulated_board import BASE, CATALOGUE, grid, prior_of


def test_leave_one_out_finds_the_scatter_and_the_formula_fails():
    _, points = grid(scatter=0.02)
    calibration = calibrate(points, CATALOGUE)
    check = calibration.check
    assert check.n == len(points)
    assert 0.008 < check.median_error_frac < 0.02
    assert check.p90_error_frac < 0.05
    assert 0.80 <= check.coverage_frac <= 0.97
    assert check.r2 > 0.99
    assert calibration.ttft_check.n == len(points)
    assert calibration.article_check.n == len(points)
    assert calibration.article_check.median_error_frac > 0.3


def test_leave_one_out_leaves_out_all_repeats_of_a_point():
    # One point ten times, at odds with the others: its repeats must not vouch for each other.
    _, points = grid(scatter=0.005)
    few = points[::5]
    odd = replace(points[2], decode_s=points[2].decode_s * 1.5)
    calibration = calibrate([*few, *[odd] * 10], CATALOGUE)
    assert np.all(np.abs(calibration.check.error_frac[-10:]) > 0.1)


def test_checks_of_separate_fits_are_put_together_point_by_point():
    fast, slow = (
        _of(np.array(seconds), np.array(error), np.abs(error), np.array(inside))
        for seconds, error, inside in (
            ([0.010, 0.012, 0.014], [0.01, -0.02, 0.03], [True, True, False]),
            ([0.10, 0.12], [0.0, 0.05], [True, True]),
        )
    )
    both = merged([fast, slow])
    assert both is not None
    assert both.n == 5
    assert both.median_error_frac == pytest.approx(0.02)
    assert both.coverage_frac == pytest.approx(0.8)
    assert both.r2 > max(fast.r2, slow.r2)  # a wider range of times
    assert merged([fast]) is fast
    assert merged([]) is None


def test_an_exact_formula_of_the_published_shape_has_no_error():
    points = [replace(BASE, context_tokens=n, alpha=a) for n in (256.0, 1024.0) for a in (0.0, 0.3, 0.6)]
    measured = [MeasuredPoint(p, 2e-2 * (1 - p.alpha)) for p in points]
    rows = Rows.of(measured, CATALOGUE, prior_of(tuple(points)))
    check = article_shape(rows)
    assert check.n == 6
    assert check.median_error_frac == pytest.approx(0.0, abs=1e-12)
    assert check.coverage_frac == 1.0
    assert article_shape(rows.without(rows.group > 1)) is None  # two points are too few


def test_errors_of_predictions_are_those_of_the_logarithms():
    measured = np.log([1.0, 2.0, 4.0])
    check = cross_check(measured, measured + np.log([1.1, 1.0, 0.9]), np.full(3, 0.1))
    np.testing.assert_allclose(check.error_frac, [0.1, 0.0, -0.1], atol=1e-12)
    np.testing.assert_allclose(check.measured_s, [1.0, 2.0, 4.0])
    np.testing.assert_allclose(check.score, np.abs(np.log([1.1, 1.0, 0.9])) / 0.1)
    assert check.median_error_frac == pytest.approx(0.1)
    lost, spread = 0.1**2 + 0.4**2, np.sum(np.square([1.0, 2.0, 4.0] - np.mean([1.0, 2.0, 4.0])))
    assert check.r2 == pytest.approx(1 - lost / spread)
