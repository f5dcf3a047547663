"""Fits of a curve through few points: ridge polynomial, polynomial plus exponential, two straight pieces.

The leave-one-out error comes first in every report and R squared last: with as many coefficients as points R squared is
1 whatever the data.

References
----------
.. [1] docs/articles.md A09, A12
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from core.spec import Absent
from core.units import check_range

Vector = NDArray[np.float64]
MIN_KNEE_POINTS = 6  # two lines and a knee have four parameters; fewer points do not determine them


@dataclass(frozen=True, slots=True)
class PolynomialFit:
    """A ridge polynomial in ``u = (x - x_low) / x_span``, so that the ridge does not depend on the unit of x.

    Attributes
    ----------
    coefficients : ndarray
        Of 1, u, u^2, ... [unit of y].
    x_low, x_span : float
        Least x and width of x [unit of x].
    leave_one_out_rmse : float
        Error of points left out [unit of y].
    n_effective : float
        Parameters that the ridge leaves free, the trace of the hat matrix [1].
    condition : float
        Condition number of the penalised normal matrix [1].
    r_squared : float
        Coefficient of determination [1].
    """

    coefficients: Vector
    x_low: float
    x_span: float
    leave_one_out_rmse: float
    n_effective: float
    condition: float
    r_squared: float

    def __call__(self, x: ArrayLike) -> Vector:
        """Return the fitted value at `x`."""
        u = (np.asarray(x, dtype=float) - self.x_low) / self.x_span
        return np.asarray(np.polynomial.polynomial.polyval(u, self.coefficients))


def fit_polynomial(x: ArrayLike, y: ArrayLike, degree: int = 4, ridge: float = 1.2e-4) -> PolynomialFit:
    """Return a polynomial with a ridge on all coefficients but the constant, fitted to points.

    Minimises ``|y - A c|^2 + ridge |c[1:]|^2`` with A the powers of u, x mapped to 0..1. The leave-one-out error is in
    closed form, ``e_i / (1 - h_ii)``.

    Parameters
    ----------
    x : array_like, shape (n,)
        Abscissas [any unit], at least two different ones.
    y : array_like, shape (n,)
        Ordinates [any unit].
    degree : int
        Degree [1], 1 to 12.
    ridge : float
        Ridge [1], >= 0; towards infinity the fit is the mean of y.

    Returns
    -------
    PolynomialFit
        Coefficients and leave-one-out error [unit of `y`].

    Raises
    ------
    ValueError
        The columns are unequal, or an argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A09

    Examples
    --------
    >>> x = np.linspace(0, 1, 9)
    >>> fit = fit_polynomial(x, 1 + 2 * x - x**2 + 0.5 * np.exp(-3 * x))
    >>> round(fit.leave_one_out_rmse, 11), round(fit.n_effective, 9), round(fit.r_squared, 9)
    (0.01081446797, 4.274948219, 0.999760504)
    """
    xs, ys = _points(x, y)
    check_range("degree", degree, 1, 12)
    check_range("ridge", ridge, 0.0)
    low, span = float(xs.min()), float(np.ptp(xs))
    check_range("span of x", span, 0.0, open_low=True)
    design = np.vander((xs - low) / span, degree + 1, increasing=True)
    penalty = np.diag([0.0] + [ridge] * degree)
    normal = design.T @ design + penalty
    stacked = np.vstack([design, np.sqrt(penalty)])
    coefficients = np.linalg.lstsq(stacked, np.concatenate([ys, np.zeros(degree + 1)]), rcond=None)[0]
    orthogonal = np.linalg.qr(stacked)[0][: xs.size]
    leverage = np.sum(orthogonal**2, axis=1)
    residual = ys - design @ coefficients
    return PolynomialFit(
        coefficients=coefficients,
        x_low=low,
        x_span=span,
        leave_one_out_rmse=_leave_one_out_rmse(residual, leverage),
        n_effective=float(leverage.sum()),
        condition=float(np.linalg.cond(normal)),
        r_squared=_r_squared(ys, residual),
    )


@dataclass(frozen=True, slots=True)
class DecayFit:
    """A polynomial plus one decaying exponential, ``sum c_k u^k + amplitude exp(-rate (x - x_low))``.

    Attributes
    ----------
    coefficients : ndarray
        Of 1, u, u^2, ... [unit of y].
    amplitude : float
        Amplitude of the exponential [unit of y].
    rate : float
        Rate of the exponential [1 / unit of x].
    edge : bool
        Whether the rate is at an end of the searched range, so that the points do not determine it.
    x_low, x_span : float
        Least x and width of x [unit of x].
    leave_one_out_rmse : float
        Error of points left out [unit of y], to the first order of the rate.
    n_effective : float
        Parameters that the ridge leaves free, the rate among them [1].
    r_squared : float
        Coefficient of determination [1].
    """

    coefficients: Vector
    amplitude: float
    rate: float
    edge: bool
    x_low: float
    x_span: float
    leave_one_out_rmse: float
    n_effective: float
    r_squared: float

    def __call__(self, x: ArrayLike) -> Vector:
        """Return the fitted value at `x`."""
        shifted = np.asarray(x, dtype=float) - self.x_low
        smooth = np.polynomial.polynomial.polyval(shifted / self.x_span, self.coefficients)
        return np.asarray(smooth + self.amplitude * np.exp(-self.rate * shifted))


def fit_decay(
    x: ArrayLike, y: ArrayLike, degree: int = 2, rates: tuple[float, float] = (0.1, 100.0), ridge: float = 0.0
) -> DecayFit:
    """Return a polynomial plus an exponential, fitted to points by variable projection.

    Minimises ``|y - A(rate) c|^2 + ridge |c[1:]|^2`` with A the powers of u and ``exp(-rate u)``, x mapped to 0..1 as
    u: the rate is searched, the rest is linear. The ridge depends on no unit and spares the constant. The leave-one-out
    error is in closed form.

    Parameters
    ----------
    x : array_like, shape (n,)
        Abscissas [any unit], at least ``degree + 4``.
    y : array_like, shape (n,)
        Ordinates [any unit].
    degree : int
        Degree of the polynomial [1], 0 to 8.
    rates : tuple of float
        Ends of the searched rates [1 / span of x], > 0, rising.
    ridge : float
        Ridge [1], >= 0.

    Returns
    -------
    DecayFit
        Coefficients, amplitude and leave-one-out error [unit of `y`], and rate [1 / unit of `x`].

    Raises
    ------
    ValueError
        The columns are unequal, or an argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A09
    .. [2] golub1973, docs/references.md

    Examples
    --------
    >>> x = np.linspace(0, 1, 9)
    >>> round(fit_decay(x, 1 + 2 * x - x**2 + 0.5 * np.exp(-3 * x)).rate, 6)
    3.0
    """
    xs, ys = _points(x, y)
    check_range("degree", degree, 0, 8)
    check_range("ridge", ridge, 0.0)
    check_range("number of points", xs.size, degree + 4)
    low, span = float(xs.min()), float(np.ptp(xs))
    check_range("span of x", span, 0.0, open_low=True)
    check_range("rates[0]", rates[0], 0.0, open_low=True)
    check_range("rates[1]", rates[1], rates[0], open_low=True)
    problem = _Projected((xs - low) / span, ys, degree, ridge)
    log_rate, edge = _best_log_rate(problem, (float(np.log(rates[0])), float(np.log(rates[1]))))
    design, solution, residual = problem.at(log_rate)
    # the rate is one more column; an amplitude of 0 leaves it no effect
    tangent = problem.tangent(log_rate, solution[-1])
    moves = not edge and float(tangent @ tangent) > 1e-20 * float(ys @ ys)
    columns = np.column_stack([design, tangent]) if moves else design
    leverage = np.sum(np.linalg.qr(columns)[0][: xs.size] ** 2, axis=1)
    return DecayFit(
        coefficients=solution[:-1],
        amplitude=float(solution[-1]),
        rate=float(np.exp(log_rate)) / span,
        edge=edge,
        x_low=low,
        x_span=span,
        leave_one_out_rmse=_leave_one_out_rmse(residual[: xs.size], leverage),
        n_effective=float(leverage.sum()),
        r_squared=_r_squared(ys, residual[: xs.size]),
    )


class _Projected:
    """Least squares of the linear part at one rate; the ridge is rows of its own below the points."""

    def __init__(self, u: Vector, ys: Vector, degree: int, ridge: float) -> None:
        self.u, self.powers = u, np.vander(u, degree + 1, increasing=True)
        self.penalty = np.sqrt(ridge) * np.eye(degree + 2)[1:]
        self.target = np.concatenate([ys, np.zeros(degree + 1)])

    def at(self, log_rate: float) -> tuple[Vector, Vector, Vector]:
        """Return the design, its solution and the residual."""
        design = np.vstack([np.column_stack([self.powers, np.exp(-np.exp(log_rate) * self.u)]), self.penalty])
        solution = np.linalg.lstsq(design, self.target, rcond=None)[0]
        return design, solution, self.target - design @ solution

    def loss(self, log_rate: float) -> float:
        """Return the squared length of the residual."""
        residual = self.at(log_rate)[2]
        return float(residual @ residual)

    def tangent(self, log_rate: float, amplitude: float) -> Vector:
        """Return the derivative of the fitted values by the logarithm of the rate, the linear part held."""
        slope = -amplitude * np.exp(log_rate) * self.u * np.exp(-np.exp(log_rate) * self.u)
        return np.concatenate([slope, np.zeros(len(self.penalty))])


def _best_log_rate(problem: _Projected, ends: tuple[float, float]) -> tuple[float, bool]:
    """Return the logarithm of the rate of least loss within the ends, and whether it is one of them."""
    grid = np.linspace(*ends, 61)
    at = int(np.argmin([problem.loss(g) for g in grid]))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)])
    found: Any = minimize_scalar(problem.loss, bounds=bounds, method="bounded")
    best = min((float(found.x), *ends), key=problem.loss)
    for _ in range(6):  # Gauss-Newton on the projected residual, to the last digits
        design, solution, residual = problem.at(best)
        slope = problem.tangent(best, solution[-1])
        slope = slope - design @ np.linalg.lstsq(design, slope, rcond=None)[0]
        step = best + float(slope @ residual) / max(float(slope @ slope), 1e-300)
        if not (ends[0] <= step <= ends[1] and problem.loss(step) < problem.loss(best)):
            break
        best = step
    return best, best in ends


@dataclass(frozen=True, slots=True)
class Knee:
    """Meeting point of two straight pieces, with its 90 % interval by a likelihood ratio that a bootstrap calibrates.

    Attributes
    ----------
    x : float
        Abscissa of the knee [unit of x].
    q05, q95 : float
        Ends of the interval [unit of x].
    edge : bool
        Whether the knee is at an end of the search, the second or last but one x, so that it may lie beyond.
    slope_before, slope_after : float
        Slopes of the pieces [unit of y / unit of x].
    rmse : float
        Residual error [unit of y].
    """

    x: float
    q05: float
    q95: float
    edge: bool
    slope_before: float
    slope_after: float
    rmse: float


def fit_knee(x: ArrayLike, y: ArrayLike, n_bootstrap: int = 400, seed: int = 0) -> Knee | Absent:
    """Return two straight pieces that meet at a knee, fitted to points.

    A knee needs six different x, and must help more than it does on a straight line with the same scatter (5 % level,
    simulated, because the knee itself was searched for).

    Parameters
    ----------
    x : array_like, shape (n,)
        Abscissas [any unit].
    y : array_like, shape (n,)
        Ordinates [any unit].
    n_bootstrap : int
        Draws of the bootstrap [1].
    seed : int
        Seed of the bootstrap [1].

    Returns
    -------
    Knee or Absent
        Knee and interval [unit of `x`]; absent with the reason where the points do not show one.

    Raises
    ------
    ValueError
        The columns are unequal, shorter than 2, or hold NaN.

    References
    ----------
    .. [1] docs/articles.md A12

    Examples
    --------
    >>> fit_knee([60.0, 62.3, 65.0], [12.39, 12.41, 13.23])
    Absent(reason='3 points cannot show a knee; at least 6 are needed')
    >>> x = np.arange(9.0)
    >>> round(fit_knee(x, np.maximum(x - 4, 0) + 0.01 * (-1) ** x).x, 1)
    4.0
    """
    xs, ys = _points(x, y)
    n_different = np.unique(xs).size
    if n_different < MIN_KNEE_POINTS:
        return Absent(f"{n_different} points cannot show a knee; at least {MIN_KNEE_POINTS} are needed")
    rng = np.random.default_rng(seed)
    pieces = _Pieces(xs)
    line = np.polyval(np.polyfit(xs, ys, 1), xs)
    if np.max(np.abs(ys - line)) <= 1e-9 * np.ptp(ys) + 1e-12 * np.max(np.abs(ys)):
        return Absent("these points lie on a straight line")
    if pieces.gain(ys[None])[0] <= np.quantile(pieces.gain(rng.normal(size=(n_bootstrap, xs.size))), 0.95):
        return Absent("a straight line explains these points as well as a knee does")
    lost = pieces.lost(ys[None])[0]
    at = int(np.argmin(lost))
    best = float(pieces.grid[at])
    design = np.column_stack([np.ones_like(xs), xs, np.maximum(xs - best, 0.0)])
    solution = np.linalg.lstsq(design, ys, rcond=None)[0]
    residual = ys - design @ solution
    scatter = residual * np.sqrt(xs.size / (xs.size - 4))
    resampled = pieces.lost(design @ solution + rng.choice(scatter, (n_bootstrap, xs.size)))
    furthest = np.quantile(resampled[:, at] / resampled.min(axis=1), 0.9)
    inside = np.flatnonzero(lost <= furthest * lost[at])
    q05, q95 = pieces.grid[max(inside[0] - 1, 0)], pieces.grid[min(inside[-1] + 1, pieces.grid.size - 1)]
    return Knee(
        x=best,
        q05=float(q05),
        q95=float(q95),
        edge=at in (0, pieces.grid.size - 1),
        slope_before=float(solution[1]),
        slope_after=float(solution[1] + solution[2]),
        rmse=float(np.sqrt(np.mean(residual**2))),
    )


class _Pieces:
    """Least squares of two straight pieces for every knee on a grid between the inner points, for many y at once."""

    def __init__(self, xs: Vector, n_grid: int = 401) -> None:
        inner = np.unique(xs)[1:-1]
        self.grid = np.linspace(inner[0], inner[-1], n_grid)
        self.line = np.linalg.qr(np.column_stack([np.ones_like(xs), xs]))[0]
        bent = np.maximum(xs - self.grid[:, None], 0.0)
        bent -= bent @ self.line @ self.line.T
        self.bend = bent / np.linalg.norm(bent, axis=1, keepdims=True)

    def gain(self, ys: Vector) -> Vector:
        """Return the share of a straight line's squared error that the best knee removes, shape (n_y,)."""
        return np.asarray(1.0 - self.lost(ys).min(axis=1) / self._of_line(ys))

    def lost(self, ys: Vector) -> Vector:
        """Return the squared error that each knee leaves of each y, shape (n_y, n_grid), above rounding."""
        whole = self._of_line(ys)[:, None]
        return np.asarray(np.maximum(whole - (ys @ self.bend.T) ** 2, 1e-24 * whole))

    def _of_line(self, ys: Vector) -> Vector:
        return np.asarray(np.maximum(np.sum((ys - ys @ self.line @ self.line.T) ** 2, axis=1), 1e-300))


def _points(x: ArrayLike, y: ArrayLike) -> tuple[Vector, Vector]:
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if xs.shape != ys.shape or xs.ndim != 1 or xs.size < 2:
        raise ValueError(f"x {xs.shape} and y {ys.shape} are not two equal columns of 2 or more points")
    check_range("x", xs, -np.inf)
    check_range("y", ys, -np.inf)
    return xs, ys


def _leave_one_out_rmse(residual: Vector, leverage: Vector) -> float:
    free = 1.0 - leverage
    if np.any(free < 1e-10):
        return float("inf")  # a point that the fit passes through whatever its value
    return float(np.sqrt(np.mean((residual / free) ** 2)))


def _r_squared(ys: Vector, residual: Vector) -> float:
    spread = float(np.sum((ys - ys.mean()) ** 2))
    return 1.0 - float(residual @ residual) / spread if spread > 0.0 else float("nan")
