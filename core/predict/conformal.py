"""A guard on intervals: how much wider or narrower they must be, from predictions of data that was held out.

A score is ``|ln predicted - ln measured|`` over the prediction's log-sd. If the model knew itself, 90 % of the scores
would lie under 1.645; the guard is the 90 % quantile of the scores that were found over that number, and intervals are
that many times as wide (split conformal prediction with a locally weighted score). The scores are of two origins:
boards published elsewhere, each predicted without its own rows, and the points of the board itself, each predicted
without itself. The first count as a fixed number of points, so that they decide while the board has few of its own.

References
----------
Lei, G'Sell, Rinaldo, Tibshirani and Wasserman (2018), Distribution-free predictive inference for regression, JASA 113,
1094-1111, section 5.2; Barber, Candes, Ramdas and Tibshirani (2021), Predictive inference with the jackknife+,
Annals of Statistics 49, 486-507. The weighting of the two origins is ours: it shrinks one to the other.
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
LEVELS = tuple(0.02 + 0.04 * i for i in range(25))  # of the quantiles that stand for a population; 90 % is one
NOMINAL = tuple(NormalDist().inv_cdf((1.0 + level) / 2.0) for level in LEVELS)
"""The scores of a model that knows itself."""

N_NOMINAL = 2.0  # [prior] published boards that the model's own word counts for against their narrowing of intervals
N_HELD_OUT = 20.0  # how many points of a board's own the published boards count for
BUCKETS = (0, 1, 3, 5, 8)
"""Numbers of measured models that scores of models not among them are kept for; any number is of the last not above."""

FEWEST_NARROWING = 9

SEEN = "seen"
"""The bucket of other formats and contexts of a model that was measured."""

REPORTED_SCALE = 1.15  # a guard beyond this factor is worth a sentence
FEWEST_REPORTED = 3  # with fewer points of its own a board says nothing of itself


def bucket(n_models: int) -> str:
    """Return the bucket of models not measured where so many were."""
    return str(max(n for n in BUCKETS if n <= n_models))


def population(held_out: HeldOut | None, runtime: str, quantity: str, of: str) -> Floats:
    """Return the scores of published boards in a bucket; nominal ones for Trilemma's own runtime, not in any table."""
    if held_out is None or runtime == OWN_RUNTIME:
        return np.array(NOMINAL)
    return np.array(held_out.scores.get(quantity, {}).get(of, NOMINAL))


def quantiles(scores: Floats, weights: Floats) -> tuple[float, ...]:
    """Return the quantiles at `LEVELS` of scores weighted by boards; nominal ones if there are none.

    A handful of boards that were predicted well do not show that the next one will be: where `N_NOMINAL` boards of
    nominal scores among them make a quantile larger, it is taken.
    """
    if not scores.size:
        return NOMINAL
    levels, even = np.array(LEVELS), np.full(len(NOMINAL), N_NOMINAL / len(NOMINAL))
    mixed = _quantile(np.concatenate([scores, NOMINAL]), np.concatenate([weights, even]), levels)
    return tuple(float(x) for x in np.maximum(_quantile(scores, weights, levels), mixed))


def factor(board_scores: Floats, own: Floats) -> float:
    """Return how many times as wide intervals must be.

    Parameters
    ----------
    published : array (m,)
        Scores of held-out published boards, >= 0.
    own : array (n,)
        Scores of the board's own points, each predicted without itself, >= 0; n may be 0. Fewer than nine do not
        reach the 90 % quantile by themselves, so they can only widen.
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
    """Return which of a board's points lie inside an interval whose guard the other points and boards give."""
    return np.array([score <= Z90 * factor(board_scores, np.delete(own, i)) for i, score in enumerate(own)], dtype=bool)


def sentence(interval_scale: IntervalScale, own: Sequence[float], what: str = "points") -> str:
    """Return in a sentence what the guard of a calibration does and what tells so; "" where it does nothing.

    Parameters
    ----------
    guard : Guard
    own : sequence of float
        The scores of its points, each predicted from the others.
    what : str
        What the points are called.
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
