"""The process of residuals in time, its errors one step ahead, and the detector of shifts."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from core.physics import drift


def test_the_correlation_falls_from_one_to_nothing():
    t = np.array([0.0, 10.0, 1000.0])
    found = drift.ornstein_uhlenbeck(t, t, 10.0)
    assert np.diag(found).tolist() == [1.0, 1.0, 1.0]
    assert found[0, 1] == pytest.approx(np.exp(-1.0))
    assert found[0, 2] < 1e-40
    assert np.array_equal(found, found.T)


def test_the_evidence_is_the_product_of_the_densities_one_step_ahead():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 100.0, 12))
    cov = drift.ornstein_uhlenbeck(t, t, 30.0) + 0.1 * np.eye(12)
    r = rng.multivariate_normal(np.zeros(12), cov)
    error, sd, evidence = drift.one_step_ahead(r, cov)
    assert evidence == pytest.approx(multivariate_normal(np.zeros(12), cov).logpdf(r))
    k = np.linalg.solve(cov[:5, :5], cov[:5, 5])
    assert error[5] == pytest.approx(r[5] - k @ r[:5])
    assert sd[5] ** 2 == pytest.approx(cov[5, 5] - k @ cov[:5, 5])


def test_a_shift_is_found_where_it_began():
    z = np.concatenate([np.zeros(30), np.full(10, 2.0)])
    statistic, start = drift.shift_statistic(z, 20)
    assert statistic[29] == 0.0
    assert statistic[39] == pytest.approx(2.0 * np.sqrt(10.0))
    assert start[39] == 30
    assert drift.shift_statistic(-z, 20)[0].tolist() == statistic.tolist()
    assert np.all(np.diff(statistic[30:]) > 0.0)


def test_steady_noise_exceeds_the_threshold_as_rarely_as_documented():
    z = np.random.default_rng(1).standard_normal(200_000)
    above = drift.shift_statistic(z, 20)[0] > 4.5
    n_alarms = np.sum(above[1:] & ~above[:-1])
    assert n_alarms <= 25  # 11 expected


def test_a_step_and_a_ramp_are_no_spikes():
    def spikes(*residual, point=(0,) * 8):
        return drift.isolated(np.array(residual), np.array(point)[: len(residual)], 0.05, 0.15).tolist()

    assert not any(spikes(0.0, 0.0, 0.0, 0.2, 0.2, 0.2, 0.2, 0.2))
    assert not any(spikes(*(0.04 * i for i in range(8))))
    assert spikes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.2) == [False] * 7 + [True]
    assert spikes(0.0, 0.1, 0.0, 0.1, point=(0, 1, 2, 3)) == [False] * 4  # points differ by more than repeats
    assert spikes(0.3) == [False]


def test_repeats_are_told_from_a_drift():
    rng = np.random.default_rng(2)
    point = np.repeat(np.arange(4), 50)
    r = 0.02 * rng.standard_normal(200) + np.tile(np.linspace(0.0, 1.0, 50), 4)
    r[::25] += 1.0  # spikes
    assert drift.repeat_log_sd(r, point, 0.01, 1.0) == pytest.approx(0.02, rel=0.25)
    assert drift.repeat_log_sd(r[:2], point[:2], 0.01, 1.0) == 0.01
    assert drift.repeat_log_sd(np.zeros(3), np.arange(3), 0.01, 1.0) == 0.01
