"""The loop follows a board that drifts, and leaves a steady one alone."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.fit import calibrate, calibration_plan
from core.calibrate.follow import follow, most_telling, without_drift
from core.calibrate.observations import MeasuredPoint, pooled
from core.predict.scenario import predict
from tests.core.calibrate.simulated_board import BASE, CATALOGUE, GRID, Board

PLAN = calibration_plan(CATALOGUE)
HERE = replace(BASE, context_tokens=1024.0)
MINUTE = 60.0


class Watched:
    """A calibrated board, measured again and again at one point while it drifts."""

    def __init__(self, seed=0, scatter=0.01):
        self.board = Board(seed, scatter=scatter, points=[*GRID, *PLAN])
        self.series, self.t = [], 0.0
        for _ in range(3):
            for point in PLAN:
                self.measure(1.0, point, every_s=6.0)

    def measure(self, slow, point=HERE, every_s=MINUTE, **more):
        self.t += every_s
        m = self.board.measure(point)
        measured = replace(m, decode_s=m.decode_s * slow, ttft_s=m.ttft_s * slow, time_s=self.t)
        self.series.append(replace(measured, **more))

    def follow(self, later_s=0.0):
        c = calibrate(pooled(self.series), CATALOGUE, check=False)
        found = follow(c.posterior, self.series, CATALOGUE, self.t + later_s)
        if found.drifting:
            c = calibrate(pooled(without_drift(self.series, found)), CATALOGUE, check=False)
            found = follow(c.posterior, self.series, CATALOGUE, self.t + later_s)
        self.posterior = replace(c.posterior, correction=found.correction)
        return found

    def error(self, slow, point=HERE):
        predicted = predict(point, CATALOGUE, self.posterior).decode_s.median
        return predicted / (self.board.true(point).decode_s.median * slow) - 1.0


def newest_alarm(found):
    return bool(found.alarms[found.owner == found.owner[-1]].any())


def test_a_steady_board_keeps_its_calibration():
    watched = Watched(1)
    for _ in range(30):
        watched.measure(1.0)
    found = watched.follow()
    assert not found.drifting
    assert not found.alarms.any()
    assert np.all(found.drift_log == 0.0)
    assert abs(watched.error(1.0)) < 0.02


def test_the_band_at_a_measured_point_holds_the_next_runs():
    watched = Watched(10, scatter=0.05)
    for _ in range(40):
        watched.measure(1.0)
    watched.follow()
    found = predict(HERE, CATALOGUE, watched.posterior).decode_s
    runs = [watched.board.measure(HERE).decode_s for _ in range(200)]
    assert np.mean([found.q05 <= run <= found.q95 for run in runs]) > 0.8


@pytest.mark.parametrize("slow", [1.2, 0.8])
def test_a_step_is_followed_within_two_points_and_raises_the_alarm_at_once(slow):
    watched = Watched(2)
    for _ in range(5):
        watched.measure(1.0)
    watched.measure(slow)
    assert newest_alarm(watched.follow())
    watched.measure(slow)
    found = watched.follow()
    assert found.drifting
    assert abs(watched.error(slow)) < 0.03
    assert found.moved.key == "clock"  # decode and prompt by the same factor
    for point in PLAN[:4]:  # everything else follows too
        assert abs(watched.error(slow, point)) < 0.1


def test_a_ramp_is_followed_and_the_way_back_too():
    watched = Watched(3)
    for _ in range(3):
        watched.measure(1.0)
    errors = []
    for i in range(1, 11):
        watched.measure(1.0 + 0.02 * i)
        watched.follow()
        errors.append(abs(watched.error(1.0 + 0.02 * i)))
    assert max(errors[3:]) < 0.03
    for _ in range(2):
        watched.measure(1.0)
    watched.follow()
    assert abs(watched.error(1.0)) < 0.04


def test_a_spike_is_forgotten():
    watched = Watched(4)
    for _ in range(5):
        watched.measure(1.0)
    watched.measure(1.5)
    assert watched.follow().spike[-2:].all()
    for _ in range(2):
        watched.measure(1.0)
    found = watched.follow()
    assert not newest_alarm(found)
    assert abs(watched.error(1.0)) < 0.02


def test_a_measurement_known_to_be_disturbed_moves_little():
    watched = Watched(5)
    for _ in range(4):
        watched.measure(1.0)
    for _ in range(2):
        watched.measure(2.0, disturbed=1.0)
    assert not newest_alarm(watched.follow())
    assert abs(watched.error(1.0)) < 0.03


def test_a_clock_that_is_set_back_or_jumps_is_endured():
    watched = Watched(6)
    for jump_s in (86400.0 * 365, -86400.0 * 730, 0.0, 0.0):
        watched.t += jump_s
        watched.measure(1.0)
    found = watched.follow()
    assert np.all(np.diff(found.time_s) >= 0.0)
    assert abs(watched.error(1.0)) < 0.03


def test_the_fast_loop_forgets_in_hours():
    watched = Watched(7)
    for slow in (1.0, 1.0, 1.2, 1.2, 1.2):
        watched.measure(slow)
    watched.follow()
    assert abs(watched.error(1.2)) < 0.03
    before = predict(HERE, CATALOGUE, watched.posterior).decode_s
    watched.follow(later_s=86400.0)
    after = predict(HERE, CATALOGUE, watched.posterior).decode_s
    assert after.median < before.median / 1.05
    assert after.q95 / after.q05 > before.q95 / before.q05


def test_only_prompts_slow_down_when_the_compute_rate_falls():
    watched = Watched(8)
    shares = watched.follow().shares
    assert np.all(shares[3] == 1.0)
    assert np.all((shares >= 0.0) & (shares <= 1.0 + 1e-9))
    for slow in (1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0):
        watched.measure(1.0)
        m = watched.series[-1]
        watched.series[-1] = replace(m, ttft_s=m.ttft_s * slow)
    found = watched.follow()
    assert found.drifting
    assert found.moved.key == "compute"
    assert abs(watched.error(1.0)) < 0.05


def test_the_most_telling_point_is_the_least_certain_one():
    watched = Watched(9)
    for slow in (1.0, 1.2, 1.2):
        watched.measure(slow)
    found = watched.follow()
    point, log_sd = most_telling(found, watched.posterior, [HERE, *PLAN], CATALOGUE)
    assert point in [HERE, *PLAN]
    assert 0.0 < log_sd < 1.0


def test_nothing_timed_is_refused():
    board = Board(0)
    c = calibrate([board.measure(p) for p in PLAN], CATALOGUE, check=False)
    with pytest.raises(ValueError, match="no measured time"):
        follow(c.posterior, [MeasuredPoint(HERE, None)], CATALOGUE, 0.0)
