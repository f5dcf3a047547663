import numpy as np
import pytest

from core.articles.curve_fit import Knee, fit_decay, fit_knee, fit_polynomial
from core.spec import Absent

RNG = np.random.default_rng(8)
X = np.linspace(0, 1, 9)
Y = 1 + 2 * X - X**2 + 0.5 * np.exp(-3 * X)


def test_the_ridge_does_not_depend_on_the_unit_or_origin_of_x():
    base = fit_polynomial(X, Y)
    for unit, origin in ((1000, 0), (1e-3, 5), (9.81, -400)):
        moved = fit_polynomial(unit * X + origin, Y)
        np.testing.assert_allclose(moved(unit * X + origin), base(X), rtol=1e-10)
        assert moved.leave_one_out_rmse == pytest.approx(base.leave_one_out_rmse, rel=1e-6)


def test_closed_form_leave_one_out_equals_leaving_out():
    x, y = np.sort(RNG.uniform(0, 1, 14)), RNG.normal(size=14)
    x[0], x[-1] = 0.0, 1.0
    y[[0, -1]] = 0.0
    ridge = 0.01
    design = np.vander(x, 4, increasing=True)
    penalty = np.diag([0.0, ridge, ridge, ridge])
    errors = []
    for i in range(14):
        a, b = np.delete(design, i, 0), np.delete(y, i)
        errors.append(y[i] - design[i] @ np.linalg.solve(a.T @ a + penalty, a.T @ b))
    assert fit_polynomial(x, y, 3, ridge).leave_one_out_rmse == pytest.approx(
        np.sqrt(np.mean(np.square(errors))), rel=1e-9
    )


def test_limits_of_the_ridge():
    exact = fit_polynomial(X, 1 + X - 3 * X**2, degree=4, ridge=0.0)
    np.testing.assert_allclose(exact.coefficients, [1, 1, -3, 0, 0], atol=1e-9)
    assert exact.n_effective == pytest.approx(5)
    flat = fit_polynomial(X, Y, ridge=1e12)
    assert flat.n_effective == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(flat(X), Y.mean(), rtol=1e-6)
    free = [fit_polynomial(X, Y, ridge=r).n_effective for r in (0, 1e-4, 1e-2, 1, 100)]
    assert np.all(np.diff(free) < 0)


def test_as_many_coefficients_as_points_are_no_evidence():
    fitted = fit_polynomial(X[::2], RNG.normal(size=5), ridge=0.0)
    assert fitted.r_squared == pytest.approx(1.0)
    assert fitted.leave_one_out_rmse == np.inf


@pytest.mark.parametrize(("rate", "unit"), [(3.0, 1.0), (0.7, 1.0), (12.0, 250.0)])
def test_the_decay_rate_is_recovered(rate: float, unit: float):
    x = np.linspace(0, 1, 15) * unit
    y = 2 - x / unit + 0.8 * np.exp(-rate * x / unit)
    fitted = fit_decay(x, y, degree=1)
    assert fitted.rate * unit == pytest.approx(rate, rel=1e-9)
    assert fitted.amplitude == pytest.approx(0.8, rel=1e-8)
    np.testing.assert_allclose(fitted(x), y, atol=1e-10)
    assert fitted.leave_one_out_rmse < 1e-9


def test_the_ridge_of_a_decay_depends_on_no_unit_and_spares_the_constant():
    y = Y + 0.02 * RNG.normal(size=9)
    base = fit_decay(X, y, ridge=1e-3)
    for unit, origin, factor in ((1000, 0, 1.0), (1e-3, 5, 40.0)):
        moved = fit_decay(unit * X + origin, factor * y, ridge=1e-3)
        np.testing.assert_allclose(moved(unit * X + origin), factor * base(X), rtol=1e-6)
        assert moved.leave_one_out_rmse == pytest.approx(factor * base.leave_one_out_rmse, rel=1e-5)
    flat = fit_decay(X, y, ridge=1e12)
    np.testing.assert_allclose(flat(X), y.mean(), rtol=1e-6)
    assert flat.n_effective == pytest.approx(1.0, abs=1e-6)
    assert fit_decay(X, y + 100, ridge=1e-3)(X) == pytest.approx(base(X) + 100, abs=1e-6)


def test_leaving_a_point_of_a_decay_out_refits_its_rate():
    x = np.linspace(0, 2, 40)
    y = 1 + 0.5 * np.exp(-3 * x) + np.random.default_rng(0).normal(0, 0.01, 40)
    errors = [y[i] - float(fit_decay(np.delete(x, i), np.delete(y, i), degree=0)(x[i])) for i in range(40)]
    fitted = fit_decay(x, y, degree=0)
    assert fitted.leave_one_out_rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.02)
    assert fitted.n_effective == pytest.approx(3.0)
    assert not fitted.edge


def test_a_rate_that_no_point_tells_stays_where_it_was_searched():
    for seed in range(30):
        y = np.random.default_rng(seed).normal(size=9) if seed else 1 + 2 * X
        fitted = fit_decay(X, y)
        assert 0.1 <= fitted.rate <= 100.0 * (1 + 1e-12)
        assert np.all(np.isfinite(fitted(X)))
    slow = fit_decay(X, np.exp(-0.01 * X) - 1, degree=0)
    assert slow.edge
    assert slow.rate == pytest.approx(0.1)


def test_a_clear_knee_is_found_with_an_interval_that_covers_it():
    inside = []
    for n, noise, at in ((8, 0.1, 0.4), (12, 0.2, 0.5), (20, 0.1, 0.6)):
        x = np.linspace(0, 1, n)
        for seed in range(40):
            y = 0.2 * x + 5 * np.maximum(x - at, 0) + np.random.default_rng(seed).normal(0, noise, n)
            knee = fit_knee(x, y, n_bootstrap=100, seed=seed)
            assert isinstance(knee, Knee)
            assert knee.q05 <= knee.x <= knee.q95
            assert knee.slope_after > knee.slope_before
            inside.append(knee.q05 <= at <= knee.q95)
    assert 0.85 <= np.mean(inside) <= 0.95


@pytest.mark.parametrize("slope", [0.0, 0.7, -2.1, 1e6])
@pytest.mark.parametrize("level", [0.0, 0.1, 3.3])
def test_points_on_a_line_have_no_knee_whatever_their_rounding(slope, level):
    for n in (6, 9, 20):
        x = np.linspace(0, 1, n)
        assert fit_knee(x, level + slope * x) == Absent("these points lie on a straight line")


def test_a_knee_without_noise_is_exact_and_one_at_the_end_is_marked():
    x = np.linspace(0, 1, 11)
    knee = fit_knee(x, np.maximum(x - 0.5, 0))
    assert (knee.x, knee.edge) == (pytest.approx(0.5), False)
    assert knee.q95 - knee.q05 < 0.01
    assert fit_knee(x, np.maximum(x - 0.9, 0)).edge
    assert fit_knee(x, np.maximum(0.1 - x, 0)).edge


def test_a_straight_line_has_no_knee():
    x = np.linspace(0, 1, 20)
    found = [
        fit_knee(x, 2 * x + np.random.default_rng(seed).normal(0, 0.1, 20), n_bootstrap=200, seed=seed)
        for seed in range(40)
    ]
    assert sum(isinstance(knee, Knee) for knee in found) <= 6


def test_three_points_are_refused():
    knee = fit_knee([60.0, 62.3, 65.0], [12.39, 12.41, 13.23])
    assert knee == Absent("3 points cannot show a knee; at least 6 are needed")


def test_refusals():
    with pytest.raises(ValueError, match="not two equal columns"):
        fit_polynomial([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="span of x = 0"):
        fit_polynomial([1.0, 1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="ridge = -1"):
        fit_polynomial(X, Y, ridge=-1)
    with pytest.raises(ValueError, match="y = nan"):
        fit_polynomial(X, np.where(X > 0.5, np.nan, Y))
    for rates, message in (((0.0, 1.0), r"rates\[0\] = 0"), ((2.0, 1.0), r"rates\[1\] = 1 ")):
        with pytest.raises(ValueError, match=message):
            fit_decay(X, Y, rates=rates)
    with pytest.raises(ValueError, match="number of points = 5"):
        fit_decay(X[:5], Y[:5])
