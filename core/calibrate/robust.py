"""A robust fit with a prior: Student-t residuals of unknown scale, Gaussian prior, Gaussian posterior.

The posterior mode is found by Gauss-Newton on iteratively reweighted residuals. The scale is learned with it, by
expectation maximisation: the parameters' own uncertainty counts as residual, so few points do not make it too small.

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
TOLERANCE = 1e-3  # of the parameters in prior standard deviations, and of the scale relative to itself


@dataclass(frozen=True, slots=True)
class Prior:
    """Gaussian prior of the parameters, and the expected scale of the residuals of each kind of observation."""

    mean: Floats  # (p,)
    cov: Floats  # (p, p), positive definite
    scale: Floats  # (n_kinds,)
    heavy: NDArray[np.bool_] | None = None  # (p,), parameters, independent of the others, whose prior is a Student-t
    n_scale: float = 1.0  # how many points the expected scale counts for


@dataclass(frozen=True, slots=True)
class Observed:
    """What was observed, and how sure each observation is by itself."""

    value: Floats  # (n,)
    noise_sd: Floats  # (n,), 0 allowed
    kind: NDArray[np.intp]  # (n,), index into `Prior.scale`


@dataclass(frozen=True, slots=True)
class Fit:
    """The posterior: Gaussian with this mean and covariance, residual scale by kind, and the state at the mode."""

    mean: Floats
    cov: Floats
    scale: Floats  # (n_kinds,)
    residual: Floats  # (n,), observed minus predicted
    weight: Floats  # (n,), from 0 (disregarded) to (nu + 1) / nu
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
        Where to begin; the prior mean when missing.

    A heavy-tailed prior is a Gaussian one whose precision follows the parameter: the further out, the weaker.

    Returns
    -------
    Fit
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
        precision = _loosened(precision, prior, theta, cov)
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
    precision = np.minimum(precision, np.linalg.inv(prior.cov))  # no more certain than a Gaussian prior leaves it
    cov = np.linalg.inv(precision + jacobian.T @ (jacobian * information[:, None]))
    return Fit(theta, (cov + cov.T) / 2.0, scale, residual, weight, jacobian)


def _loosened(precision: Floats, prior: Prior, theta: Floats, cov: Floats) -> Floats:
    """Return the prior's precision, that of heavy-tailed parameters for where they are; their uncertainty counts."""
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
    """Take as much of a step as lowers the cost; return where that leads, how far it was, and the model there."""
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
