import numpy as np
import pytest

from core.calibrate.robust import NORMAL_SD_PER_SCALE, NU, Observed, Prior, fit
from core.units import Z90


def line(x):
    """The straight line a + b x as a model of the parameters (a, b)."""
    jacobian = np.column_stack([np.ones_like(x), x])
    return lambda theta: (jacobian @ theta, jacobian)


def observed(y, noise_sd=0.0, kind=None):
    y = np.asarray(y, dtype=float)
    return Observed(y, np.full(y.shape, noise_sd), np.zeros(y.shape, dtype=np.intp) if kind is None else kind)


WIDE = Prior(np.zeros(2), np.diag([100.0, 100.0]), np.array([0.1]))
X = np.linspace(0.0, 1.0, 60)


def test_recovers_a_line_and_its_scatter():
    y = 1.0 + 2.0 * X + np.random.default_rng(0).normal(0.0, 0.05, X.size)
    found = fit(line(X), observed(y), WIDE)
    np.testing.assert_allclose(found.mean, [1.0, 2.0], atol=0.05)
    assert found.scale[0] * NORMAL_SD_PER_SCALE == pytest.approx(0.05, rel=0.35)
    np.testing.assert_allclose(found.residual, y - line(X)(found.mean)[0], atol=1e-12)


def test_outliers_pull_nothing():
    y = 1.0 + 2.0 * X + np.random.default_rng(0).normal(0.0, 0.05, X.size)
    spoiled = y.copy()
    spoiled[[5, 40]] += 8.0
    clean, found = (fit(line(X), observed(values), WIDE) for values in (y, spoiled))
    np.testing.assert_allclose(found.mean, clean.mean, atol=0.03)
    assert np.all(found.weight[[5, 40]] < 0.01)


def test_without_observations_the_prior_remains():
    prior = Prior(np.array([1.0, -1.0]), np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([0.1]))
    found = fit(line(np.empty(0)), observed([]), prior)
    np.testing.assert_allclose(found.mean, prior.mean)
    np.testing.assert_allclose(found.cov, prior.cov)
    np.testing.assert_allclose(found.scale, prior.scale)


def test_mode_is_where_the_posterior_is_highest():
    """Against a minimisation that shares nothing with it: the mode of the same density, its scale given."""
    optimize = pytest.importorskip("scipy.optimize")
    y = np.exp(0.3 - 1.2 * X) + np.random.default_rng(1).standard_t(4, X.size) * 0.05
    prior = Prior(np.zeros(2), np.diag([0.3, 0.3]), np.array([0.05]))

    def model(theta):
        there = np.exp(theta[0] + theta[1] * X)
        return there, np.column_stack([there, there * X])

    found = fit(model, observed(y), prior)

    def cost(theta):
        tails = np.log1p(np.square(y - model(theta)[0]) / (NU * found.scale[0] ** 2))
        return 0.5 * np.sum(np.square(theta) / 0.3) + 0.5 * (NU + 1) * tails.sum()

    best = optimize.minimize(cost, [0.1, -1.0], method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(found.mean, best.x, atol=2e-3)


def test_a_noisy_observation_counts_as_its_noise_says():
    y = np.concatenate([np.ones(20), 3.0 * np.ones(20)])
    noise = np.concatenate([np.full(20, 0.01), np.full(20, 5.0)])
    ones = np.ones((40, 1))
    prior = Prior(np.zeros(1), np.eye(1) * 100.0, np.array([0.05]))
    found = fit(lambda theta: (ones @ theta, ones), Observed(y, noise, np.zeros(40, dtype=np.intp)), prior)
    assert found.mean[0] == pytest.approx(1.0, abs=0.01)


def test_each_kind_has_its_own_scatter():
    rng = np.random.default_rng(2)
    kind = np.repeat([0, 1], 200)
    y = rng.normal(0.0, np.where(kind == 0, 0.02, 0.5))
    ones = np.ones((400, 1))
    prior = Prior(np.zeros(1), np.eye(1), np.array([0.1, 0.1]))
    found = fit(lambda theta: (ones @ theta, ones), Observed(y, np.zeros(400), kind), prior)
    assert found.scale * NORMAL_SD_PER_SCALE == pytest.approx([0.02, 0.5], rel=0.4)


def test_quantile_of_the_residuals_is_that_of_student_s_t():
    stats = pytest.importorskip("scipy.stats")
    assert stats.t(NU).ppf(0.95) / Z90 == pytest.approx(NORMAL_SD_PER_SCALE, rel=1e-3)


def test_a_step_too_long_is_shortened():
    """A curve that Gauss-Newton from the prior mean overshoots by far."""
    x = np.linspace(0.1, 5.0, 30)

    def model(theta):
        there = np.exp(-x * np.exp(theta[0]))
        return there, (-x * np.exp(theta[0]) * there)[:, None]

    found = fit(
        model, observed(model(np.array([-3.0]))[0], 0.01), Prior(np.array([2.0]), np.eye(1) * 25, np.array([0.01]))
    )
    assert found.mean[0] == pytest.approx(-3.0, abs=0.05)


def test_one_deviant_model_bends_a_heavy_tailed_fit_less():
    jacobian = np.repeat(np.column_stack([np.ones(6), np.eye(6)]), 4, axis=0)  # a common level and a factor a model
    factors = np.repeat([0.01, -0.02, 0.0, 0.02, -0.01, 0.6], 4)
    seen = observed(factors + np.random.default_rng(3).normal(0.0, 0.01, 24))
    levels = []
    for heavy in (None, np.array([False, *[True] * 6])):
        prior = Prior(np.zeros(7), np.diag([1.0, *[0.1**2] * 6]), np.array([0.03]), heavy)
        levels.append(abs(float(fit(lambda theta: (jacobian @ theta, jacobian), seen, prior).mean[0])))
    assert levels[1] < 0.4 * levels[0]


def test_heavy_tailed_parameter_that_nothing_observed_keeps_its_prior():
    prior = Prior(np.zeros(2), np.diag([1.0, 0.04]), np.array([0.1]), np.array([False, True]))
    seen = observed([0.3])
    found = fit(lambda theta: (theta[:1], np.array([[1.0, 0.0]])), seen, prior)
    assert found.mean[1] == 0.0
    assert found.cov[1, 1] == pytest.approx(0.04)


def test_an_expected_scale_that_counts_for_many_points_is_not_blurred_by_one_odd_point():
    """Five values of scatter 0.02 and one far off: the mean stays with the five, the surer the scale."""
    rng = np.random.default_rng(5)
    value = np.array([*rng.normal(0.0, 0.02, 5), 1.0])
    seen = observed(value)
    ones = np.ones((6, 1))

    def found(n_scale):
        prior = Prior(np.zeros(1) - 0.3, np.eye(1) * 0.15**2, np.array([0.02]), None, n_scale)
        return fit(lambda theta: (ones @ theta, ones), seen, prior)

    sure, unsure = found(10.0), found(1.0)
    assert sure.scale[0] < unsure.scale[0]
    assert abs(sure.mean[0] - value[:5].mean()) < abs(unsure.mean[0] - value[:5].mean()) < 0.1
