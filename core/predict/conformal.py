"""Conformal prediction: the interval scale, from scores of held-out predictions.

A score is ``|ln predicted - ln measured|`` over the log-sd of the prediction. For a model with correct log-sds, 90 % of
the scores are below 1.645. The interval scale is the 90 % quantile of the actual scores over 1.645; it multiplies the
width of intervals (split conformal prediction with a locally weighted score). Scores have two origins: boards of
published tables, each predicted without its own rows, and points of the board itself, each predicted from the others.
The former count as a fixed number of points, so that they dominate while the board has few points of its own.

References
----------
Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), Distribution-free predictive inference for regression, JASA 113,
1094-1111, section 5.2; Barber, Candes, Ramdas and Tibshirani (2021), Predictive inference with the jackknife+,
Annals of Statistics 49, 486-507. The weighting of the two origins is Trilemma's own: it shrinks one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.spec import OWN_RUNTIME
from core.spec.interval_scale import HeldOut, IntervalScale
from core.units import Z90

Floats = NDArray[np.float64]

LEVEL = 0.90
LEVELS = tuple(0.02 + 0.04 * i for i in range(25))  # of the quantiles that represent a population; 90 % is one of them
NOMINAL = tuple(NormalDist().inv_cdf((1.0 + level) / 2.0) for level in LEVELS)
"""Quantiles of the scores of a model with correct log-sds."""

N_NOMINAL = 2.0  # [prior] weight of nominal scores against narrowing, in published boards
N_HELD_OUT = 20.0  # weight of all published boards, in points of the board itself
BUCKETS = (0, 1, 3, 5, 8)
"""Numbers of measured models; scores of predicted models that are not among them are kept by these numbers."""

FEWEST_NARROWING = 9

SEEN = "seen"
"""Bucket of other formats and contexts of a measured model."""

REPORTED_SCALE = 1.15  # interval scales within this factor of 1 are not reported
FEWEST_REPORTED = 3  # points of the board that a reported interval scale needs


def bucket(n_models: int) -> str:
    """Return the bucket of unmeasured models on a board with `n_models` measured ones: the largest not above."""
    return str(max(n for n in BUCKETS if n <= n_models))


def population(held_out: HeldOut | None, runtime: str, quantity: str, of: str) -> Floats:
    """Return the scores of published boards in a bucket; nominal ones for Trilemma's own runtime, which has no rows.

    Parameters
    ----------
    held_out : HeldOut or None
    runtime : str
        Key of the runtime of the prediction.
    quantity : str
        "decode_s" or "ttft_s".
    of : str
        The bucket.
    """
    if held_out is None or runtime == OWN_RUNTIME:
        return np.array(NOMINAL)
    return np.array(held_out.scores.get(quantity, {}).get(of, NOMINAL))


def quantiles(scores: Floats, weights: Floats) -> tuple[float, ...]:
    """Return the quantiles at `LEVELS` of weighted scores; nominal ones if there are no scores.

    Few well-predicted boards are weak evidence for narrow intervals. Each quantile is therefore the larger one of that
    of the scores and that of the scores with `N_NOMINAL` boards of nominal scores added.
    """
    if not scores.size:
        return NOMINAL
    levels, even = np.array(LEVELS), np.full(len(NOMINAL), N_NOMINAL / len(NOMINAL))
    mixed = _quantile(np.concatenate([scores, NOMINAL]), np.concatenate([weights, even]), levels)
    return tuple(float(x) for x in np.maximum(_quantile(scores, weights, levels), mixed))


def factor(board_scores: Floats, own: Floats) -> float:
    """Return the interval scale.

    Parameters
    ----------
    board_scores : array (m,)
        Scores of held-out published boards, >= 0.
    own : array (n,)
        Scores of the board's own points, each predicted from the others, >= 0; n may be 0. Fewer than nine cannot
        resolve the 90 % quantile, so they can only widen intervals.
    """
    level, even = np.array([LEVEL]), np.full(len(board_scores), N_HELD_OUT / len(board_scores))
    alone = float(_quantile(board_scores, even, level)[0]) / Z90
    together = np.concatenate([board_scores, own]), np.concatenate([even, np.ones(len(own))])
    mixed = float(_quantile(*together, level)[0]) / Z90
    return round(mixed if len(own) >= FEWEST_NARROWING else max(alone, mixed), 9)


def _quantile(values: Floats, weights: Floats, levels: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weights[order])
    found: Floats = np.interp(levels, (upto - weights[order] / 2.0) / upto[-1], values[order])
    return found


def inside_others(board_scores: Floats, own: Floats) -> NDArray[np.bool_]:
    """Return the points of a board that are inside their interval, scaled by the other points and boards."""
    return np.array([score <= Z90 * factor(board_scores, np.delete(own, i)) for i, score in enumerate(own)], dtype=bool)


def sentence(interval_scale: IntervalScale, own: Sequence[float], what: str = "points") -> str:
    """Return the interval scale of a calibration and its evidence as a sentence; "" where there is nothing to report.

    Parameters
    ----------
    interval_scale : IntervalScale
    own : sequence of float
        Scores of the points of the board, each predicted from the others.
    what : str
        Noun for the points.
    """
    times = interval_scale.decode
    if len(own) < FEWEST_REPORTED or 1.0 / REPORTED_SCALE < times < REPORTED_SCALE:
        return ""
    inside = sum(score <= Z90 for score in own)
    found = f"{inside} of {len(own)} {what} predicted from the others lie inside the model's own 90 % interval"
    if times > 1.0 and inside >= 0.9 * len(own):
        return f"The band is {times:.1f} times as wide as the model's own: {found}, but they are too few to narrow it."
    if times > 1.0:
        return f"The band is {times:.1f} times as wide as the model's own, since only {found}: was the board busy?"
    return f"The band is {times:.2f} times as wide as the model's own, since {found}."
