"""Leave-one-out errors of a calibration: the model is refitted without each operating point and predicts it.

The article's formula is checked on the same points for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.calibrate import robust
from core.calibrate.observations import DECODE, TTFT, Rows
from core.predict import conformal
from core.spec import Posterior
from core.units import Z90

Floats = NDArray[np.float64]
FEWEST = 3  # measurements that a check needs

LEAST_LOG_SD = 1e-6
"""Lower bound of a log-sd, for equal measurements."""


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """Errors of predicting each point from a fit to the others. Repeats of a point are left out together."""

    n: int
    error_frac: Floats  # predicted over measured minus one
    median_error_frac: float
    p90_error_frac: float
    coverage_frac: float  # share of the points inside their 90 % interval, with the interval scale of the other points
    r2: float  # coefficient of determination; the weakest figure, reported last
    score: Floats  # error in logarithms over the log-sd of the prediction, see `core.predict.conformal`
    measured_s: Floats
    inside: NDArray[np.bool_]  # by point: whether it is inside its interval


def leave_one_out(
    rows: Rows,
    before: Posterior,
    start: Floats,
    group: NDArray[Any] | None = None,
    board_scores: Mapping[int, Floats] | None = None,
) -> dict[int, CrossCheck]:
    """Refit without each operating point and predict it.

    Parameters
    ----------
    rows : Rows
    before : Posterior
        The prior of every refit.
    start : array (p,)
        Starting value of the refits: the fit to all rows.
    group : array (n,), optional
        Group of each row; rows of a group, such as those of a model, are left out together. By default a group is an
        operating point.
    board_scores : mapping, optional
        Scores of published boards by kind of observation. With the scores of the other points they give the interval
        scale. Nominal scores by default.

    Returns
    -------
    dict
        By kind of observation, without kinds of fewer than three rows.
    """
    group = rows.group if group is None else group
    predicted, log_sd = np.full((2, len(rows.owner)), np.nan)
    for one in np.unique(group):
        out = group == one
        refit = rows.without(out).fit(before, start)
        there, jacobian = rows.model(refit.mean)
        variance = np.sum(jacobian @ refit.cov * jacobian, axis=1) + np.square(rows.observed.noise_sd)
        variance += np.square(refit.scale * robust.NORMAL_SD_PER_SCALE)[rows.observed.kind]
        predicted[out], log_sd[out] = there[out], np.sqrt(variance[out])
    measured, kind = rows.observed.value, rows.observed.kind
    return {
        k: _cross_check(measured[kind == k], predicted[kind == k], log_sd[kind == k], (board_scores or {}).get(k))
        for k in (DECODE, TTFT)
        if np.sum(kind == k) >= FEWEST
    }


def merged(checks: Sequence[CrossCheck]) -> CrossCheck | None:
    """Return one check for separate fits, such as those of the power modes of a board; None for no checks."""
    if len(checks) < 2:
        return checks[0] if checks else None
    measured, error, score, inside = (
        np.concatenate([getattr(check, name) for check in checks])
        for name in ("measured_s", "error_frac", "score", "inside")
    )
    return _of(measured, error, score, inside)


def article_shape(rows: Rows) -> CrossCheck | None:
    """Check the article's formula ``C / BW (1 - alpha) beta``, its constant C refitted without each point.

    The constant minimises the mean absolute error in logarithms, which favours the formula.
    """
    decode = rows.observed.kind == DECODE
    measured, group = rows.observed.value[decode], rows.group[decode]
    if len(np.unique(group)) < FEWEST:
        return None
    shape = np.log((1.0 - rows.alpha[decode]) * np.asarray(rows.decode.beta)[decode])
    shape -= np.log(np.asarray(rows.decode.bandwidth_byte_s)[decode])
    predicted, log_sd = np.full((2, len(measured)), np.nan)
    for left_out in np.unique(group):
        out = group == left_out
        residual = (measured - shape)[~out]
        constant = np.median(residual)
        predicted[out] = constant + shape[out]
        log_sd[out] = max(np.quantile(np.abs(residual - constant), 0.9) / Z90, LEAST_LOG_SD)
    return _cross_check(measured, predicted, log_sd)


def cross_check(measured: Floats, predicted: Floats, log_sd: Floats) -> CrossCheck:
    """Compare predictions of left-out measurements with them, with nominal board scores; all in logarithms."""
    return _cross_check(measured, predicted, log_sd)


def _cross_check(measured: Floats, predicted: Floats, log_sd: Floats, board_scores: Floats | None = None) -> CrossCheck:
    """Compare predictions of left-out measurements with them; all in logarithms."""
    score = np.abs(predicted - measured) / log_sd
    inside = conformal.inside_others(np.array(conformal.NOMINAL) if board_scores is None else board_scores, score)
    return _of(np.exp(measured), np.expm1(predicted - measured), score, inside)


def _of(measured_s: Floats, error: Floats, score: Floats, inside: NDArray[np.bool_]) -> CrossCheck:
    lost = np.sum(np.square(error * measured_s))
    spread = np.sum(np.square(measured_s - measured_s.mean()))
    return CrossCheck(
        len(measured_s),
        error,
        float(np.median(np.abs(error))),
        float(np.quantile(np.abs(error), 0.9)),
        float(np.mean(inside)),
        float(1.0 - lost / spread) if spread > 0 else float("nan"),
        score,
        measured_s,
        np.asarray(inside, dtype=bool),
    )
