"""Robust regression: Student-t residuals of unknown scale, Gaussian prior, Gaussian approximation of the posterior.

The posterior mode is found by Gauss-Newton on iteratively reweighted residuals. The scale is estimated with it, by
expectation maximisation: the uncertainty of the parameters is part of the residual, so that few points do not make the
scale too small.

References
----------
Lange, Little and Taylor (1989), Robust statistical modeling using the t distribution, JASA 84, 881-896.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Model = Callable[[Floats], tuple[Floats, Floats]]
"""Parameters (p,) to predictions (n,) and their Jacobian (n, p)."""

NU = 4.0  # degrees of freedom of the residuals
NORMAL_SD_PER_SCALE = 1.2961  # 95 % quantile of Student's t with NU degrees of freedom over that of the normal
MAX_ROUNDS = 60
TOLERANCE = 1e-3  # of the parameters in prior standard deviations, and relative of the scale


@dataclass(frozen=True, slots=True)
class Prior:
    """Gaussian prior of the parameters, and expected scale of the residuals by kind of observation."""

    mean: Floats  # (p,)
    cov: Floats  # (p, p), positive definite
    scale: Floats  # (n_kinds,)
    heavy: NDArray[np.bool_] | None = None  # (p,), independent parameters with a Student-t prior
    n_scale: float = 1.0  # weight of the expected scale in points


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations with the uncertainty of each."""

    value: Floats  # (n,)
    noise_sd: Floats  # (n,), 0 allowed
    kind: NDArray[np.intp]  # (n,), index into `Prior.scale`


@dataclass(frozen=True, slots=True)
class Fit:
    """The posterior: mean and covariance of the Gaussian, residual scale by kind, and residuals at the mode."""

    mean: Floats
    cov: Floats
    scale: Floats  # (n_kinds,)
    residual: Floats  # (n,), observed minus predicted
    weight: Floats  # (n,), from 0 (ignored) to (nu + 1) / nu
    jacobian: Floats  # (n, p)


def fit(model: Model, observed: Observed, prior: Prior, start: Floats | None = None) -> Fit:
    """Find the posterior of the parameters of `model`.

    Parameters
    ----------
    model : callable
        See `Model`; smooth enough for Gauss-Newton.
    observed : Observed
        n may be 0: the posterior is the prior.
    prior : Prior
    start : array (p,), optional
        Starting value; the prior mean by default.

    Returns
    -------
    Fit

    Notes
    -----
    A heavy-tailed prior is a Gaussian whose precision is re-estimated in each round: it falls with the distance of the
    parameter from the prior mean.
    """
    precision: Floats = np.asarray(np.linalg.inv(prior.cov), dtype=float)
    cov = prior.cov
    prior_sd = np.sqrt(np.diag(prior.cov))
    theta = prior.mean.copy() if start is None else start.copy()
    scale = prior.scale.copy()
    predicted, jacobian = model(theta)
    for _ in range(MAX_ROUNDS):
        spread = np.square(scale[observed.kind]) + np.square(observed.noise_sd)
        weight = _weight(observed.value - predicted, spread)
        precision = _prior_precision(precision, prior, theta, cov)
        cov = np.linalg.inv(precision + jacobian.T @ (jacobian * (weight / spread)[:, None]))
        pull = jacobian.T @ (weight / spread * (observed.value - predicted)) - precision @ (theta - prior.mean)

        def objective(at: Floats, there: Floats, spread: Floats = spread, precision: Floats = precision) -> float:
            off = at - prior.mean
            tails = np.log1p(np.square(observed.value - there) / (NU * spread))
            return float(0.5 * off @ precision @ off + 0.5 * (NU + 1.0) * tails.sum())

        theta, moved, predicted, jacobian = _step(model, objective, theta, cov @ pull, predicted, jacobian)
        new_scale = _scale(observed, prior, scale, observed.value - predicted, jacobian, cov)
        settled = np.all(np.abs(moved) < TOLERANCE * prior_sd) and np.all(np.abs(new_scale / scale - 1.0) < TOLERANCE)
        scale = new_scale
        if settled:
            break
    residual = observed.value - predicted
    spread = np.square(scale[observed.kind]) + np.square(observed.noise_sd)
    weight = _weight(residual, spread)
    information = weight / spread * (NU + 1.0) / (NU + 3.0)  # expected information of a Student-t location
    precision = np.minimum(precision, np.linalg.inv(prior.cov))  # at most that of the Gaussian prior
    cov = np.linalg.inv(precision + jacobian.T @ (jacobian * information[:, None]))
    return Fit(theta, (cov + cov.T) / 2.0, scale, residual, weight, jacobian)


def _prior_precision(precision: Floats, prior: Prior, theta: Floats, cov: Floats) -> Floats:
    """Return the precision of the prior, with that of heavy-tailed parameters at their current values."""
    if prior.heavy is None or not prior.heavy.any():
        return precision
    index = np.flatnonzero(prior.heavy)
    scale_2 = np.diag(prior.cov)[index] / NORMAL_SD_PER_SCALE**2
    off_2 = np.square(theta - prior.mean)[index] + np.minimum(np.diag(cov)[index], np.diag(prior.cov)[index])
    loosened = precision.copy()
    loosened[index, index] = (NU + 1.0) / (NU + off_2 / scale_2) / scale_2
    return loosened


def _weight(residual: Floats, spread: Floats) -> Floats:
    weight: Floats = (NU + 1.0) / (NU + np.square(residual) / spread)
    return weight


def _step(
    model: Model,
    cost: Callable[[Floats, Floats], float],
    theta: Floats,
    step: Floats,
    predicted: Floats,
    jacobian: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Halve the step until it lowers the cost; return the new parameters, the step, and the model's values there."""
    before = cost(theta, predicted)
    for _ in range(12):
        there = model(theta + step)
        if cost(theta + step, there[0]) <= before + 1e-12:
            return theta + step, step, *there
        step = step / 2.0
    return theta, 0.0 * step, predicted, jacobian


def _scale(observed: Observed, prior: Prior, scale: Floats, residual: Floats, jacobian: Floats, cov: Floats) -> Floats:
    """Return the expectation-maximisation update of the residual scale of each kind."""
    own = np.square(scale[observed.kind])
    noise = np.square(observed.noise_sd)
    spread = own + noise
    uncertain = np.sum(jacobian @ cov * jacobian, axis=1)
    moment = np.square(own / spread) * _weight(residual, spread) * (np.square(residual) + uncertain)
    moment = moment + own * noise / spread
    n_kinds = len(prior.scale)
    total = np.bincount(observed.kind, moment, n_kinds)
    count = np.bincount(observed.kind, minlength=n_kinds)
    updated: Floats = np.sqrt((prior.n_scale * np.square(prior.scale) + total) / (prior.n_scale + count))
    return updated
