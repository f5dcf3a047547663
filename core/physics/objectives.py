"""Several objectives: margins to limits, score and verdict of a scenario, non-dominated points, hypervolume.

Objectives here are minimised; turn accuracy into ``1 - accuracy`` or negate it.

References
----------
.. [1] docs/physics.md M13
.. [2] docs/articles.md B13: limits of three scenarios and a weight on energy, no formula; the score is Trilemma's own
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Limits of an application and the weight that it puts on energy.

    Attributes
    ----------
    key : str
        Name in the catalogue.
    name : str
        Name for people.
    min_accuracy_frac : float
        Least accuracy [1], 0 to below 1.
    max_latency_s : float
        Longest latency [s], > 0.
    max_energy_j : float
        Largest energy of one inference [J], > 0.
    energy_weight : float
        Exponent of the energy margin in the score [1], > 0.
    source : str
        Origin of the limits.
    """

    key: str
    name: str
    min_accuracy_frac: float
    max_latency_s: float
    max_energy_j: float
    energy_weight: float
    source: str = ""

    def __post_init__(self) -> None:
        check_range("min_accuracy_frac", self.min_accuracy_frac, 0.0, 1.0, open_high=True)
        for name in ("max_latency_s", "max_energy_j", "energy_weight"):
            check_range(name, getattr(self, name), 0.0, open_low=True)

    @property
    def power_at_limits_w(self) -> float:
        """Return the mean power that spends the energy limit in the latency limit [W]."""
        return self.max_energy_j / self.max_latency_s


@dataclass(frozen=True, slots=True)
class Verdict:
    """Margins, feasibility and score of a point, or of each point of an array.

    Attributes
    ----------
    accuracy_margin, latency_margin, energy_margin : ndarray
        Margins [1], 1 at the ideal and 0 at the limit.
    feasible : ndarray of bool
        Whether all margins are at least 0.
    score : ndarray
        Score [1], 0 for an infeasible point.
    tightest : ndarray of str
        Name of the smallest margin: accuracy, latency or energy.
    """

    accuracy_margin: Floats
    latency_margin: Floats
    energy_margin: Floats
    feasible: NDArray[np.bool_]
    score: Floats
    tightest: NDArray[np.str_]


MARGINS = ("accuracy", "latency", "energy")
MOST = 1e12
"""Largest latency [s] and energy [J] that `judge` takes."""


def judge(scenario: Scenario, accuracy_frac: Array, latency_s: Array, energy_j: Array) -> Verdict:
    """Return margins, feasibility and score of points in a scenario.

    ``m_a = (a - a_min) / (1 - a_min)``, ``m_t = 1 - t / t_max``, ``m_e = 1 - e / e_max``,
    ``score = (m_a m_t m_e^w)^(1 / (2 + w))``: a weighted geometric mean, 0 where a margin is negative.

    Parameters
    ----------
    scenario : Scenario
        Limits and weight.
    accuracy_frac : float or ndarray
        Accuracy a [1], 0 to 1.
    latency_s : float or ndarray
        Latency t [s], 0 to `MOST`.
    energy_j : float or ndarray
        Energy e of one inference [J], 0 to `MOST`.

    Returns
    -------
    Verdict
        Margins [1], feasibility, score [1] and tightest limit.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M13
    .. [2] docs/articles.md B13

    Examples
    --------
    >>> verdict = judge(Scenario("industrial", "Industrial", 0.923, 0.120, 85e-3, 0.8), 0.95, 0.100, 60e-3)
    >>> round(float(verdict.score), 10), str(verdict.tightest)
    (0.2556774209, 'latency')
    """
    check_range("accuracy_frac", accuracy_frac, 0.0, 1.0)
    check_range("latency_s", latency_s, 0.0, MOST)
    check_range("energy_j", energy_j, 0.0, MOST)
    margins = np.stack(
        np.broadcast_arrays(
            (np.asarray(accuracy_frac) - scenario.min_accuracy_frac) / (1 - scenario.min_accuracy_frac),
            1 - np.asarray(latency_s) / scenario.max_latency_s,
            1 - np.asarray(energy_j) / scenario.max_energy_j,
        )
    )
    a, t, e = np.maximum(margins, 0.0)
    w, feasible = scenario.energy_weight, np.asarray((margins >= 0).all(axis=0))
    score = np.where(feasible, (a * t * e**w) ** (1 / (2 + w)), 0.0)
    tightest = np.asarray(MARGINS)[margins.argmin(axis=0)]
    return Verdict(margins[0], margins[1], margins[2], feasible, score, np.asarray(tightest))


def beyond(name: str, margin: float) -> str:
    """Return in words by how much a limit is missed.

    A margin is a share of the limit; that of accuracy is a share of the loss that its limit allows.

    Parameters
    ----------
    name : str
        Name of the limit, one of `MARGINS`.
    margin : float
        Margin [1], below 0.

    Returns
    -------
    str
        Name and excess [%].

    References
    ----------
    .. [1] docs/articles.md B13

    Examples
    --------
    >>> beyond("latency", -0.25)
    'latency by 25 %'
    """
    share = -100 * margin
    words = f"{name} by {share:.0f} %" if share >= 10 else f"{name} by {share:.2g} %"
    return f"{words} of the loss allowed" if name == "accuracy" else words


def sentence(scenario: Scenario, verdict: Verdict) -> str:
    """Return the verdict on a single point as one sentence.

    Parameters
    ----------
    scenario : Scenario
        Limits and weight.
    verdict : Verdict
        Verdict of `judge` on one point.

    Returns
    -------
    str
        Whether the point meets the scenario, and the tightest or the missed limits [%].

    References
    ----------
    .. [1] docs/articles.md B13

    Examples
    --------
    >>> scenario = Scenario("industrial", "Industrial", 0.923, 0.120, 85e-3, 0.8)
    >>> sentence(scenario, judge(scenario, 0.95, 0.100, 60e-3))
    'Meets Industrial: the tightest limit is latency, with 17 % left.'
    """
    margins = dict(zip(MARGINS, (verdict.accuracy_margin, verdict.latency_margin, verdict.energy_margin), strict=True))
    tightest = str(verdict.tightest)
    if bool(verdict.feasible):
        left = 100 * float(margins[tightest])
        return f"Meets {scenario.name}: the tightest limit is {tightest}, with {left:.0f} % left."
    broken = ", ".join(beyond(name, float(m)) for name, m in margins.items() if m < 0)
    return f"Does not meet {scenario.name}: beyond the limit in {broken}."


def nondominated(points: ArrayLike) -> NDArray[np.bool_]:
    """Return the points that no other point dominates.

    A point dominates another if it is at least as good in every objective and better in one. A sorted sweep in two and
    three dimensions, O(n log n); otherwise one pass over all points for each point of the front.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Objectives [any unit], finite and minimised, d >= 1.

    Returns
    -------
    ndarray of bool, shape (n,)
        True for the points of the front.

    Raises
    ------
    ValueError
        `points` is not such an array.

    References
    ----------
    .. [1] docs/physics.md M13
    .. [2] docs/articles.md B13

    Examples
    --------
    >>> nondominated([(1, 3), (2, 2), (3, 1), (3, 3)]).tolist()
    [True, True, True, False]
    """
    p = _checked(points)
    if not len(p):
        return np.zeros(0, bool)
    order = np.lexsort(p.T[::-1])
    ranked, keep = p[order], np.empty(len(p), bool)
    if p.shape[1] == 3:
        left = _unbeaten_by_few(ranked)
        left[left] = _sweep(ranked[left].tolist())
        keep[order] = left
    else:
        keep[order] = _staircase(ranked) if p.shape[1] == 2 else _filter(ranked)
    return keep


def _staircase(ranked: Floats) -> NDArray[np.bool_]:
    """Return which of the points (x, y), sorted, have the least y of their x and a lower one than every smaller x."""
    x, y = ranked.T
    first = np.r_[True, x[1:] != x[:-1]][: len(x)]
    group = np.cumsum(first) - 1
    least_before = np.r_[np.inf, np.minimum.accumulate(y)[:-1]][: len(y)]
    return np.asarray((y == y[first][group]) & (y < least_before[first][group]))


def _unbeaten_by_few(ranked: Floats, n_few: int = 8) -> NDArray[np.bool_]:
    """Return which points the few best by sum do not dominate: a cheap first cut, exact in what it drops."""
    left = np.ones(len(ranked), bool)
    for i in np.argsort((ranked / (np.abs(ranked).max(axis=0) + 1e-300)).sum(axis=1))[:n_few]:
        left &= ~(np.all(ranked[i] <= ranked, axis=1) & np.any(ranked[i] < ranked, axis=1))
    return left


def _sweep(ranked: list[list[float]]) -> list[bool]:
    """Return which of the sorted points (x, y, z) no earlier one dominates.

    All that came before have a smaller or equal x, so only y and z matter: along the staircase of the points kept `ys`
    rises and `zs` falls, and a point is dominated if the last step at or before its y is no higher than its z. Equal
    points are neighbours and get the same answer.
    """
    ys, zs, keep = list[float](), list[float](), list[bool]()
    for i, (x, y, z) in enumerate(ranked):
        if i and ranked[i - 1] == [x, y, z]:
            keep.append(keep[-1])
            continue
        at = bisect_right(ys, y)
        keep.append(at == 0 or zs[at - 1] > z)
        if keep[-1]:
            first = at - 1 if at and ys[at - 1] == y else at
            last = first
            while last < len(zs) and zs[last] >= z:
                last += 1
            ys[first:last], zs[first:last] = [y], [z]
    return keep


def _filter(ranked: Floats) -> NDArray[np.bool_]:
    """Return the same for any number of objectives: each point of the front strikes out what it dominates."""
    keep = np.ones(len(ranked), bool)
    for i, point in enumerate(ranked):
        if keep[i]:
            keep &= ~(np.all(point <= ranked, axis=1) & np.any(point < ranked, axis=1))
    return keep


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """Return the volume that a set of points dominates below a reference point, in two or three dimensions.

    Exact. Points that are not below the reference in every objective add nothing. In three dimensions the volume is
    summed over slices of the last objective.

    Parameters
    ----------
    points : array_like, shape (n, d)
        Objectives [any unit], finite and minimised, d of 2 or 3.
    reference : array_like, shape (d,)
        Worst values that still count [units of `points`].

    Returns
    -------
    float
        Volume [product of the units].

    Raises
    ------
    ValueError
        The arrays do not fit each other, or a value is not finite.

    References
    ----------
    .. [1] docs/physics.md M13
    .. [2] docs/articles.md B13

    Examples
    --------
    >>> hypervolume([(1, 3), (2, 2), (3, 1)], (4, 4))
    6.0
    """
    p, r = _checked(points), np.asarray(reference, float)
    if not np.isfinite(r).all():
        raise ValueError("reference holds a value that is not finite, expected finite objectives")
    if p.shape[1] not in (2, 3) or r.shape != (p.shape[1],):
        raise ValueError(f"points {p.shape} and reference {r.shape}: expected (n, 2) or (n, 3) and as many coordinates")
    p = p[(p < r).all(axis=1)]
    if p.shape[1] == 2:
        return _area(p, r)
    p = p[np.argsort(p[:, 2], kind="stable")]
    depth = np.diff(np.append(p[:, 2], r[2]))
    return float(sum(d * _area(p[: i + 1, :2], r[:2]) for i, d in enumerate(depth)))


def _area(p: Floats, r: Floats) -> float:
    if not len(p):
        return 0.0
    x, y = p[np.lexsort((p[:, 1], p[:, 0]))].T
    height = np.minimum.accumulate(y)
    return float(np.sum(np.diff(np.append(x, r[0])) * (r[1] - height)))


def _checked(points: ArrayLike) -> Floats:
    p = np.asarray(points, float)
    if p.ndim != 2 or p.shape[1] < 1:
        raise ValueError(f"points has shape {p.shape}, expected (n, d)")
    if not np.isfinite(p).all():
        raise ValueError("points holds a value that is not finite, expected finite objectives")
    return p
