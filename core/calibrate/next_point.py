"""Experimental design: the next measurement is the one that narrows the predictions of a set of points most.

The criterion is the reduction of the mean variance of ln(decode time) over these points. With Gaussian parameters it
follows from the gradients alone, before the measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.calibrate.observations import MeasuredPoint, Rows
from core.predict.parameters import extended, ratio_names
from core.spec import Catalogue, OperatingPoint, Posterior

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NextPoint:
    """A point to measure, with the posterior before and after."""

    point: OperatingPoint
    before: Posterior
    after: Posterior
    narrowing_frac: float  # reduction of the mean log-sd of a new measurement over the points that matter


def choose(
    posterior: Posterior,
    candidates: Sequence[OperatingPoint],
    catalogue: Catalogue,
    *,
    n: int,
    matters: Sequence[OperatingPoint] | None = None,
) -> list[NextPoint]:
    """Choose up to `n` different points greedily, each the best one given those before it.

    Parameters
    ----------
    posterior : Posterior
        The current posterior.
    candidates : sequence of OperatingPoint
        Points that can be measured (scalars only).
    catalogue : Catalogue
    n : int
        Number of points to choose.
    matters : sequence of OperatingPoint, optional
        Points whose predictions should be narrowed; the candidates by default.
    """
    every = [*candidates, *(matters or ())]
    for point in every:
        posterior = extended(posterior, ratio_names(catalogue.resolve(point)))
    gradient = _decode_gradient(posterior, every, catalogue)
    mine = gradient[: len(candidates)]
    aims = gradient[len(candidates) :] if matters else gradient
    left = list(range(len(candidates)))
    chosen: list[NextPoint] = []
    while left and len(chosen) < n:
        best, cov = most_informative(mine[left], aims, posterior.log_cov, posterior.decode_log_sd)
        after = replace(posterior, log_cov=cov)
        narrowing = 1.0 - _mean_sd(aims, after) / _mean_sd(aims, posterior)
        chosen.append(NextPoint(candidates[left[best]], posterior, after, narrowing))
        posterior = after
        del left[best]
    return chosen


def most_informative(
    candidates: Floats, aims: Floats, cov: Floats, scatter_log_sd: float | Floats
) -> tuple[int, Floats]:
    """Return the index of the candidate that lowers the mean variance of the aims most, and the covariance after it.

    Parameters
    ----------
    candidates : array (n, p)
        Gradients of ln(time) of the candidates with respect to the parameters.
    aims : array (m, p)
        Gradients of the predictions that should be narrowed.
    cov : array (p, p)
        Current covariance of the parameters.
    scatter_log_sd : float or array (n,)
        Standard deviation of a measurement about its prediction.
    """
    along = candidates @ cov  # (n, p)
    spread = np.sum(along * candidates, axis=1) + np.square(scatter_log_sd)
    gain = np.mean(np.square(along @ aims.T), axis=1) / spread
    best = int(np.argmax(gain))
    after = cov - np.outer(along[best], along[best]) / spread[best]
    return best, (after + after.T) / 2.0


def _decode_gradient(posterior: Posterior, points: Sequence[OperatingPoint], catalogue: Catalogue) -> Floats:
    rows = Rows.of([MeasuredPoint(point, 1.0) for point in points], catalogue, posterior)
    return rows.model(posterior.log_mean)[1]


def _mean_sd(gradient: Floats, posterior: Posterior) -> float:
    variance = np.sum(gradient @ posterior.log_cov * gradient, axis=1)
    return float(np.mean(np.sqrt(np.maximum(variance, 0.0) + posterior.decode_log_sd**2)))
