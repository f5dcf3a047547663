"""Fits of a curve through few points: ridge polynomial, polynomial plus exponential, two straight pieces.

The error of leaving each point out comes first in every report and R squared last: with as many coefficients as points
R squared is 1 whatever the data.
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
MIN_KNEE_POINTS = 6  # two lines and a knee have four parameters; fewer points than this cannot tell them apart


@dataclass(frozen=True, slots=True)
class PolynomialFit:
    """A ridge polynomial in ``u = (x - x_low) / x_span``, so that the ridge does not depend on the unit of x."""

    coefficients: Vector  # of 1, u, u**2, ...
    x_low: float
    x_span: float
    leave_one_out_rmse: float  # in the unit of y: the honest error
    n_effective: float  # trace of the hat matrix: parameters that the ridge leaves free
    condition: float  # of the penalised normal matrix
    r_squared: float

    def __call__(self, x: ArrayLike) -> Vector:
        """Return the fitted value at `x`."""
        u = (np.asarray(x, dtype=float) - self.x_low) / self.x_span
        return np.asarray(np.polynomial.polynomial.polyval(u, self.coefficients))


def fit_polynomial(x: ArrayLike, y: ArrayLike, degree: int = 4, ridge: float = 1.2e-4) -> PolynomialFit:
    """Fit a polynomial with a ridge on all coefficients but the constant.

    Minimises ``|y - A c|**2 + ridge * |c[1:]|**2`` with A the powers of u, x mapped to 0..1. The leave-one-out error is
    in closed form, ``e_i / (1 - h_ii)``.

    Parameters
    ----------
    x, y : array, shape (n,)
        Points with at least two different x.
    degree : int
        1 to 12.
    ridge : float
        >= 0; towards infinity the fit is the mean of y.

    References
    ----------
    Trilemma quantities, A09.
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
    """A polynomial plus one decaying exponential, ``sum c_k u**k + amplitude * exp(-rate * (x - x_low))``."""

    coefficients: Vector
    amplitude: float
    rate: float  # per unit of x
    x_low: float
    x_span: float
    leave_one_out_rmse: float  # at the fitted rate
    r_squared: float

    def __call__(self, x: ArrayLike) -> Vector:
        """Return the fitted value at `x`."""
        shifted = np.asarray(x, dtype=float) - self.x_low
        smooth = np.polynomial.polynomial.polyval(shifted / self.x_span, self.coefficients)
        return np.asarray(smooth + self.amplitude * np.exp(-self.rate * shifted))


def fit_decay(x: ArrayLike, y: ArrayLike, degree: int = 2, rates: tuple[float, float] = (0.1, 100.0)) -> DecayFit:
    """Fit a polynomial plus an exponential by variable projection: only the rate is searched, the rest is linear.

    Parameters
    ----------
    x, y : array, shape (n,)
        At least ``degree + 4`` points.
    degree : int
        0 to 8.
    rates : pair of float
        Where the rate is searched, in units of 1 / span of x.

    References
    ----------
    Trilemma quantities, A09: a rate of 3 is recovered from 9 points. Golub and Pereyra, variable projection.
    """
    xs, ys = _points(x, y)
    check_range("degree", degree, 0, 8)
    check_range("number of points", xs.size, degree + 4)
    low, span = float(xs.min()), float(np.ptp(xs))
    check_range("span of x", span, 0.0, open_low=True)
    u = (xs - low) / span
    powers = np.vander(u, degree + 1, increasing=True)

    def projected(log_rate: float) -> tuple[Vector, Vector, Vector]:
        design = np.column_stack([powers, np.exp(-np.exp(log_rate) * u)])
        solution = np.linalg.lstsq(design, ys, rcond=None)[0]
        return design, solution, ys - design @ solution

    grid = np.linspace(np.log(rates[0]), np.log(rates[1]), 61)
    losses = [float(np.sum(projected(g)[2] ** 2)) for g in grid]
    at = int(np.argmin(losses))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, grid.size - 1)])
    found: Any = minimize_scalar(lambda g: np.sum(projected(g)[2] ** 2), bounds=bounds, method="bounded")
    log_rate = float(found.x)
    for _ in range(6):  # Gauss-Newton on the projected residual, to the last digits
        design, solution, residual = projected(log_rate)
        slope = solution[-1] * np.exp(log_rate) * u * design[:, -1]  # d residual / d log_rate before projection
        slope = slope - design @ np.linalg.lstsq(design, slope, rcond=None)[0]
        log_rate -= float(slope @ residual) / max(float(slope @ slope), 1e-300)
    design, solution, residual = projected(log_rate)
    leverage = np.sum(np.linalg.qr(design)[0] ** 2, axis=1)
    return DecayFit(
        coefficients=solution[:-1],
        amplitude=float(solution[-1]),
        rate=float(np.exp(log_rate)) / span,
        x_low=low,
        x_span=span,
        leave_one_out_rmse=_leave_one_out_rmse(residual, leverage),
        r_squared=_r_squared(ys, residual),
    )


@dataclass(frozen=True, slots=True)
class Knee:
    """Where two straight pieces meet, with the 90 % interval of a residual bootstrap."""

    x: float
    q05: float
    q95: float
    slope_before: float
    slope_after: float
    rmse: float


def fit_knee(x: ArrayLike, y: ArrayLike, n_bootstrap: int = 400, seed: int = 0) -> Knee | Absent:
    """Fit two straight pieces that meet at a knee.

    Returns
    -------
    Knee or Absent
        Absent with the reason where the points cannot tell: fewer than 6, or a knee that helps no more than it does on
        a straight line with the same scatter (5 % level, simulated, because the knee itself was searched for).

    References
    ----------
    Trilemma quantities, A12: three points do not show a knee.
    """
    xs, ys = _points(x, y)
    n_different = np.unique(xs).size
    if n_different < MIN_KNEE_POINTS:
        return Absent(f"{n_different} points cannot show a knee; at least {MIN_KNEE_POINTS} are needed")
    rng = np.random.default_rng(seed)
    pieces = _Pieces(xs)
    line = np.polyval(np.polyfit(xs, ys, 1), xs)
    null = line + rng.choice(ys - line, (n_bootstrap, xs.size))
    if pieces.gain(ys[None])[0] <= np.quantile(pieces.gain(null), 0.95):
        return Absent("a straight line explains these points as well as a knee does")
    best = float(pieces.knees(ys[None])[0])
    design = np.column_stack([np.ones_like(xs), xs, np.maximum(xs - best, 0.0)])
    solution = np.linalg.lstsq(design, ys, rcond=None)[0]
    residual = ys - design @ solution
    scatter = residual * np.sqrt(xs.size / (xs.size - 4))
    resampled = design @ solution + rng.choice(scatter, (n_bootstrap, xs.size))
    q05, q95 = np.quantile(pieces.knees(resampled), [0.05, 0.95])
    return Knee(
        x=best,
        q05=float(q05),
        q95=float(q95),
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
        residual = ys - ys @ self.line @ self.line.T
        return np.asarray(np.max((ys @ self.bend.T) ** 2, axis=1) / np.maximum(np.sum(residual**2, axis=1), 1e-300))

    def knees(self, ys: Vector) -> Vector:
        """Return the best knee of each y, shape (n_y,)."""
        return np.asarray(self.grid[np.argmax((ys @ self.bend.T) ** 2, axis=1)])


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
