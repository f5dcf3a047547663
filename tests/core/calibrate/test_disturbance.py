"""Measurements disturbed by other work: they are one-sided, and quiet ones win at once."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibrate import disturbance
from core.calibrate.fit import calibrate, calibration_plan, next_measurement
from core.calibrate.observations import MeasuredPoint, pooled
from core.predict.scenario import predict
from tests.core.calibrate.simulated_board import BASE, CATALOGUE, GRID, Board

PLAN = calibration_plan(CATALOGUE)


@pytest.mark.parametrize(
    ("conditions", "degree"),
    [
        ({}, 0.0),
        ({"quiet_share": 1.0}, 0.0),
        ({"quiet_share": 0.5}, 0.125),
        ({"quiet_share": 0.0}, 1.0),
        ({"others_frac": 0.1}, 0.2),
        ({"others_frac": 0.9, "quiet_share": 1.0}, 1.0),
        ({"psi_memory_frac": 0.5}, 0.125),
        ({"psi_cpu_frac": 0.5}, 0.125),
        ({"psi_cpu_frac": 1.0, "others_frac": 0.0}, 0.0),  # its own threads waited for each other
        ({"quiet_share": float("nan")}, 0.0),
        ({"quiet_share": -3}, 1.0),
        ({"others_frac": "much"}, 0.0),
        ({"others_frac": True}, 0.0),
    ],
)
def test_the_degree_follows_from_what_is_recorded(conditions, degree):
    assert disturbance.degree(conditions) == pytest.approx(degree)


def test_a_gap_begins_another_session():
    assert disturbance.sessions([None, 0.0, 100.0, 800.0, 1300.0, 5000.0]) == [0, 0, 0, 1, 1, 2]


def test_a_disturbed_point_does_not_move_the_parameters():
    board = Board(3)
    points = [board.measure(p) for p in PLAN]
    plain = calibrate(points, CATALOGUE, check=False)
    for factor in (2.0, 5.0):
        disturbed = replace(PLAN[0], context_tokens=512.0)
        slow = MeasuredPoint(disturbed, board.true(disturbed).decode_s.median * factor, 0.1, disturbed=1.0)
        moved = calibrate([*points, slow], CATALOGUE, check=False)
        for point in PLAN:
            before, after = (predict(point, CATALOGUE, c.posterior).decode_s for c in (plain, moved))
            assert after.median == pytest.approx(before.median, rel=0.005)
            assert after.q95 / after.q05 < 1.02 * before.q95 / before.q05


def test_a_fast_disturbed_time_bounds_the_quiet_one():
    """Excess is positive: the quiet board is at most as slow as its disturbed measurement."""
    slow_prior = predict(BASE, CATALOGUE).decode_s.median
    measured = calibrate([MeasuredPoint(BASE, slow_prior / 2.0, 0.01, disturbed=1.0)], CATALOGUE, check=False)
    assert predict(BASE, CATALOGUE, measured.posterior).decode_s.median < slow_prior / 1.7


@pytest.mark.parametrize("seed", range(4))
def test_three_quiet_points_win_over_a_calibration_under_full_load(seed):
    board, rng = Board(seed, scatter=0.01, points=[*GRID, *PLAN]), np.random.default_rng(seed)
    points = []
    for time_s in (0.0, 60.0, 120.0, 180.0):
        for point in PLAN:
            m, slow = board.measure(point), 2.0 * np.exp(rng.normal(0.0, 0.05))
            points.append(replace(m, decode_s=m.decode_s * slow, log_sd=0.1, disturbed=1.0, time_s=time_s))
    busy = calibrate(pooled(points), CATALOGUE)
    assert busy.busy.startswith("Calibrated while busy: other programs disturbed 10 of 10 points")
    wide = predict(PLAN[0], CATALOGUE, busy.posterior).decode_s
    assert wide.q95 / wide.q05 > 1.8
    assert next_measurement(busy, PLAN, CATALOGUE) is not None  # disturbed points are measured again
    quiet = calibrate(pooled([*points, *(replace(board.measure(p), time_s=9999.0) for p in PLAN[:3])]), CATALOGUE)
    assert quiet.busy == ""
    errors = []
    for point in PLAN:
        found, true_s = predict(point, CATALOGUE, quiet.posterior).decode_s, board.true(point).decode_s.median
        errors.append(found.median / true_s - 1.0)
        assert found.q95 / found.q05 <= 1.5
    assert np.median(np.abs(errors)) < 0.05
    assert np.max(np.abs(errors[:3])) < 0.05


def test_the_quietest_repeats_count():
    repeats = [MeasuredPoint(BASE, t, disturbed=d) for t, d in ((0.009, 0.9), (0.011, 0.05), (0.010, 0.0))]
    (one,) = pooled(repeats)
    assert (one.decode_s, one.disturbed) == (0.010, 0.0)


def test_bandwidths_of_disturbed_runs_do_not_set_the_usual_one():
    disturbed = [MeasuredPoint(BASE, 0.02, read_byte_s=20e9, disturbed=1.0) for _ in range(9)]
    (one,) = pooled([*disturbed, MeasuredPoint(BASE, 0.01, read_byte_s=40e9)])
    assert one.decode_s == pytest.approx(0.01)
