"""Times moved to the usual bandwidth: the elasticity of their format is found, their level is left alone."""

import numpy as np
import pytest

from core.calibrate.bandwidth_drift import ELASTICITY, elasticity, usual_log_time
from core.calibrate.observations import MeasuredPoint, pooled
from core.spec import OperatingPoint


def made(slope, n_points=16, n_repeats=3, noise=0.01, seed=0):
    g = np.random.default_rng(seed)
    point = np.repeat(np.arange(n_points), n_repeats)
    log_bandwidth = np.log(38e9) + g.normal(0.0, 0.1, len(point))
    level = g.normal(-4.5, 0.5, n_points)[point]
    off = log_bandwidth - np.median(log_bandwidth)
    return level - slope * off + g.normal(0.0, noise, len(point)), log_bandwidth, point, level


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.7, 1.0])
def test_the_elasticity_is_found(slope):
    log_time, log_bandwidth, point, _ = made(slope)
    assert elasticity(log_time, log_bandwidth, point) == pytest.approx(slope, abs=0.06)


def test_without_repeats_the_prior_counts():
    log_time, log_bandwidth, _, _ = made(1.0)
    assert elasticity(log_time, log_bandwidth, np.arange(len(log_time))) == ELASTICITY


def test_times_come_near_their_level_and_each_format_has_its_own_slope():
    fast, slow = made(0.1, seed=1), made(0.9, seed=2)
    log_time, log_bandwidth, level = (np.concatenate([fast[i], slow[i]]) for i in (0, 1, 3))
    point = np.concatenate([fast[2], 100 + slow[2]])
    kind = np.repeat([0, 1], len(fast[0]))
    before, after = (np.std(x - level) for x in (log_time, usual_log_time(log_time, log_bandwidth, point, kind)))
    assert after < 0.5 * before
    assert after < 0.015


def test_the_level_of_a_point_does_not_matter():
    log_time, log_bandwidth, point, _ = made(0.6)
    shifted = log_time + np.where(point == 3, 2.0, 0.0)
    kind = np.zeros(len(point), dtype=int)
    moved = usual_log_time(shifted, log_bandwidth, point, kind) - usual_log_time(log_time, log_bandwidth, point, kind)
    assert moved == pytest.approx(np.where(point == 3, 2.0, 0.0))


def test_nothing_measured_is_nothing():
    none = np.zeros(0)
    assert len(usual_log_time(none, none, none.astype(int), none.astype(int))) == 0


def test_repeats_are_compared_at_the_usual_bandwidth_and_those_without_a_probe_left_aside():
    point, other = OperatingPoint(), OperatingPoint(alpha=0.5)
    probed = [
        MeasuredPoint(p, t / b**0.8, read_byte_s=40e9 * b)
        for p, t in ((point, 0.01), (other, 0.006))
        for b in (0.7, 1.0, 1.1)
    ]
    usual = pooled(probed)
    assert [m.decode_s for m in usual] == pytest.approx([0.01, 0.006], rel=0.03)
    again = pooled([MeasuredPoint(point, 0.002), *probed])
    assert again[0].decode_s == pytest.approx(usual[0].decode_s)
    assert pooled([MeasuredPoint(point, 0.002)])[0].decode_s == 0.002
