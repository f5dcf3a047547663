"""Clock synchronisation: offset with a hard bound, drift, networks of clocks, and a time stamp in six bits.

A message leaves at t1 by our clock, arrives at t2 and is answered at t3 by the far clock, and the answer arrives at t4.
The error of the offset is half the difference of the two one-way times. It is unobservable; its bound is the delay, the
mean of the two.

References
----------
.. [1] docs/physics.md M11
.. [2] docs/articles.md B14, B15
.. [3] rfc5905 and moon1999, docs/references.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

Floats = NDArray[np.float64]
LIGHT_M_S = 299_792_458.0


def offset_s(t1_s: Array, t2_s: Array, t3_s: Array, t4_s: Array) -> Array:
    """Return the offset of the far clock against ours from one exchange.

    ``offset = ((t2 - t1) + (t3 - t4)) / 2``; its error is at most `delay_s`.

    Parameters
    ----------
    t1_s, t4_s : float or ndarray
        Departure of the message and arrival of the answer by our clock [s].
    t2_s, t3_s : float or ndarray
        Arrival of the message and departure of the answer by the far clock [s].

    Returns
    -------
    float or ndarray
        Far clock minus ours [s].

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] docs/articles.md B14
    .. [3] rfc5905, docs/references.md

    Examples
    --------
    >>> float(offset_s(100.0, 160.0, 165.0, 125.0))
    50.0
    """
    return np.asarray((np.subtract(t2_s, t1_s) + np.subtract(t3_s, t4_s)) / 2)


def delay_s(t1_s: Array, t2_s: Array, t3_s: Array, t4_s: Array) -> Array:
    """Return the mean one-way time of one exchange, the bound of the error of `offset_s`.

    ``delay = ((t4 - t1) - (t3 - t2)) / 2``

    Parameters
    ----------
    t1_s, t4_s : float or ndarray
        Departure of the message and arrival of the answer by our clock [s].
    t2_s, t3_s : float or ndarray
        Arrival of the message and departure of the answer by the far clock [s].

    Returns
    -------
    float or ndarray
        Mean one-way time [s].

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] docs/articles.md B14
    .. [3] rfc5905, docs/references.md

    Examples
    --------
    >>> float(delay_s(100.0, 160.0, 165.0, 125.0))
    10.0
    """
    return np.asarray((np.subtract(t4_s, t1_s) - np.subtract(t3_s, t2_s)) / 2)


def asymmetry_error_s(forward_s: Array, back_s: Array) -> Array:
    """Return the error that unequal ways leave in the offset, ``(d_forward - d_back) / 2``.

    No exchange can show it.

    Parameters
    ----------
    forward_s, back_s : float or ndarray
        One-way times to the far clock and back [s], >= 0.

    Returns
    -------
    float or ndarray
        Error of the offset [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] docs/articles.md B14

    Examples
    --------
    >>> float(asymmetry_error_s(12.0, 8.0))
    2.0
    """
    check_range("forward_s", forward_s, 0.0)
    check_range("back_s", back_s, 0.0)
    return np.asarray(np.subtract(forward_s, back_s) / 2)


def quickest(delay: ArrayLike, share: float = 0.1) -> NDArray[np.bool_]:
    """Return the exchanges of lowest delay, which queues disturbed least.

    Parameters
    ----------
    delay : array_like, shape (m,)
        Delay of each exchange [s].
    share : float
        Share of the exchanges to choose [1], above 0 to 1; at least one is chosen.

    Returns
    -------
    ndarray of bool, shape (m,)
        True for the chosen exchanges.

    Raises
    ------
    ValueError
        `share` is outside its range, or there is no exchange.

    References
    ----------
    .. [1] docs/physics.md M11

    Examples
    --------
    >>> quickest([3.0, 1.0, 2.0, 9.0], 0.5).tolist()
    [False, True, True, False]
    """
    d = np.asarray(delay, float)
    check_range("share", share, 0.0, 1.0, open_low=True)
    check_range("number of exchanges", d.size, 1)
    keep = np.zeros(d.size, bool)
    keep[np.argsort(d, kind="stable")[: max(1, int(np.ceil(share * d.size)))]] = True
    return keep


@dataclass(frozen=True, slots=True)
class Line:
    """A clock against ours, ``offset_s + drift t``.

    Attributes
    ----------
    offset_s : float
        Offset at time 0 of our clock [s].
    drift : float
        Rate difference [1]; 1e-6 is 1 ppm.
    """

    offset_s: float
    drift: float

    def at(self, t_s: Array) -> Array:
        """Return the offset at a time of our clock [s]."""
        return self.offset_s + self.drift * np.asarray(t_s)


def fit_line(t_s: ArrayLike, offset: ArrayLike, weight: ArrayLike = 1.0) -> Line:
    """Return offset and drift of a clock by weighted least squares.

    Parameters
    ----------
    t_s : array_like, shape (m,)
        Times of the readings by our clock [s], at least two different ones.
    offset : array_like, shape (m,)
        Offset at each time [s].
    weight : float or array_like, shape (m,)
        Weight of each reading [1], > 0.

    Returns
    -------
    Line
        Offset [s] and drift [1].

    Raises
    ------
    ValueError
        A weight is not above 0, or there are fewer than two different times.

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] docs/articles.md B14

    Examples
    --------
    >>> line = fit_line([0.0, 10.0, 20.0], [5e-3, 5.2e-3, 5.4e-3])
    >>> round(line.offset_s, 6), round(line.drift, 9)
    (0.005, 2e-05)
    """
    t, y, w = np.broadcast_arrays(np.asarray(t_s, float), np.asarray(offset, float), np.asarray(weight, float))
    if t.ndim != 1 or np.unique(t).size < 2:
        raise ValueError(f"t_s holds {np.unique(t).size} different times, expected at least 2 to tell a drift")
    check_range("weight", w, 0.0, open_low=True)
    mean_t, mean_y = np.average(t, weights=w), np.average(y, weights=w)
    drift = float(np.sum(w * (t - mean_t) * (y - mean_y)) / np.sum(w * (t - mean_t) ** 2))
    return Line(float(mean_y - drift * mean_t), drift)


def hull_line(t_s: ArrayLike, offset: ArrayLike) -> Line:
    """Return offset and drift of a clock by the lower convex hull of one-way readings.

    Queues only add to a one-way time. The edge of the hull over the middle of the record is the line below all points
    that is closest to them on average; a point that a queue pushed up does not move it.

    Parameters
    ----------
    t_s : array_like, shape (m,)
        Send times [s], at least two different ones.
    offset : array_like, shape (m,)
        One-way readings ``t2 - t1`` [s].

    Returns
    -------
    Line
        Offset plus least one-way time [s], and drift [1].

    Raises
    ------
    ValueError
        The columns are unequal, or there are fewer than two different times.

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] moon1999, docs/references.md

    Examples
    --------
    >>> line = hull_line([0.0, 1.0, 2.0, 3.0], [1.0, 5.0, 1.2, 1.3])
    >>> round(line.offset_s, 6), round(line.drift, 6)
    (1.0, 0.1)
    """
    t, y = np.asarray(t_s, float), np.asarray(offset, float)
    if t.ndim != 1 or t.shape != y.shape or np.unique(t).size < 2:
        raise ValueError(f"t_s {t.shape} and offset {y.shape}: expected two equal columns at two times or more")
    hull: list[int] = []
    for i in map(int, np.lexsort((-y, t))):  # of equal times the lowest comes last and stays
        while hull and (t[hull[-1]] == t[i] or (len(hull) > 1 and _above(t, y, hull[-2], hull[-1], i))):
            hull.pop()
        hull.append(i)
    right = int(np.clip(np.searchsorted(t[hull], t.mean()), 1, len(hull) - 1))
    a, b = hull[right - 1], hull[right]
    drift = float((y[b] - y[a]) / (t[b] - t[a]))
    return Line(float(y[a] - drift * t[a]), drift)


def _above(t: Floats, y: Floats, a: int, b: int, c: int) -> bool:
    """Return whether b lies on or above the chord from a to c."""
    return bool((y[b] - y[a]) * (t[c] - t[a]) >= (y[c] - y[a]) * (t[b] - t[a]))


@dataclass(frozen=True, slots=True)
class Track:
    """Offset and drift after each exchange, as a Kalman filter follows them.

    Attributes
    ----------
    offset_s : ndarray, shape (m,)
        Offset [s].
    drift : ndarray, shape (m,)
        Rate difference [1].
    offset_sd_s : ndarray, shape (m,)
        Standard error of the offset [s].
    drift_sd : ndarray, shape (m,)
        Standard error of the drift [1].
    """

    offset_s: Floats
    drift: Floats
    offset_sd_s: Floats
    drift_sd: Floats


def track(
    t_s: ArrayLike, offset: ArrayLike, sd_s: ArrayLike, *, wander_s: float = 1e-9, drift_sd: float = 100e-6
) -> Track:
    """Return offset and drift after each exchange by a two-state Kalman filter.

    Parameters
    ----------
    t_s : array_like, shape (m,)
        Times of the exchanges [s], not falling.
    offset : array_like, shape (m,)
        Offset of each [s].
    sd_s : float or array_like, shape (m,)
        Standard error of each offset [s], > 0; the delay, which bounds the error, is on the safe side.
    wander_s : float
        Random walk of the drift, its standard deviation after one second [1/s^0.5], >= 0.
    drift_sd : float
        Standard deviation of the drift at the start [1]; crystals stay within 100 ppm.

    Returns
    -------
    Track
        Offset [s] and drift [1] with their standard errors.

    Raises
    ------
    ValueError
        An argument is outside its range, or the times fall.

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] kalman1960, docs/references.md

    Examples
    --------
    >>> t = np.arange(10.0)
    >>> followed = track(t, 5e-3 + 20e-6 * t, 1e-6)
    >>> round(float(followed.drift[-1]), 7)
    2e-05
    """
    t, y = np.asarray(t_s, float), np.asarray(offset, float)
    sd = np.broadcast_to(np.asarray(sd_s, float), y.shape)
    check_range("t_s steps", np.diff(t), 0.0)
    check_range("sd_s", sd, 0.0, open_low=True)
    check_range("wander_s", wander_s, 0.0)
    state, cov = np.array([y[0], 0.0]), np.diag([sd[0] ** 2, drift_sd**2])
    rows = [np.r_[state, np.sqrt(np.diag(cov))]]
    for k in range(1, t.size):
        h = t[k] - t[k - 1]
        move = np.array([[1.0, h], [0.0, 1.0]])
        state = move @ state
        cov = move @ cov @ move.T + wander_s**2 * np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]])
        gain = cov[:, 0] / (cov[0, 0] + sd[k] ** 2)
        state = state + gain * (y[k] - state[0])
        cov = cov - np.outer(gain, cov[0])
        rows.append(np.r_[state, np.sqrt(np.maximum(np.diag(cov), 0))])
    return Track(*np.array(rows).T)


def network_offsets_s(n_clocks: int, pairs: ArrayLike, offset: ArrayLike, reference: int = 0) -> Floats:
    """Return the offsets of all clocks of a network from pairwise readings.

    Least squares with the reference held at 0. Without that row pairwise readings have at most the rank ``n_clocks -
    1``: a constant common to all clocks stays open.

    Parameters
    ----------
    n_clocks : int
        Number of clocks [1], >= 1.
    pairs : array_like of int, shape (m, 2)
        Clocks (i, j) of each reading [1], 0 to ``n_clocks - 1``.
    offset : array_like, shape (m,)
        Clock j minus clock i of each reading [s].
    reference : int
        Number of the clock that is held at 0 [1].

    Returns
    -------
    ndarray, shape (n_clocks,)
        Offset of each clock [s].

    Raises
    ------
    ValueError
        A clock does not exist, or the readings do not connect all clocks.

    References
    ----------
    .. [1] docs/physics.md M11
    .. [2] docs/articles.md B14

    Examples
    --------
    >>> np.round(network_offsets_s(3, [(0, 1), (1, 2), (0, 2)], [3.0, -5.0, -2.0]), 9).tolist()
    [0.0, 3.0, -2.0]
    """
    edges, y = np.asarray(pairs, int), np.asarray(offset, float)
    check_range("pairs", edges, 0, n_clocks - 1)
    rows = np.zeros((len(edges) + 1, n_clocks))
    rows[np.arange(len(edges)), edges[:, 1]] = 1.0
    rows[np.arange(len(edges)), edges[:, 0]] -= 1.0
    rows[-1, reference] = 1.0
    if np.linalg.matrix_rank(rows) < n_clocks:
        raise ValueError(
            f"pairs connect only part of the {n_clocks} clocks, expected a chain of readings to each of them"
        )
    return np.asarray(np.linalg.lstsq(rows, np.append(y, 0.0), rcond=None)[0])


# --- a time stamp in the six bits of a DSCP field ---------------------------------------------------------------------

DSCP_SHIFT_BIT = 40
DSCP_TICK_S = 2**DSCP_SHIFT_BIT / 1e9
"""Step of the stamp [s], 1099.5: it orders nothing faster, and wraps after 64 steps (19.5 h)."""
DSCP_WRAP_S = 64 * DSCP_TICK_S


def dscp_of_time(time_ns: int) -> int:
    """Return the six bits that item B15 prints, ``(t >> 40) & 63``.

    For decoding only; Trilemma sends no such stamp.

    Parameters
    ----------
    time_ns : int
        Time stamp t [ns], >= 0.

    Returns
    -------
    int
        Value of the DSCP field [1], 0 to 63.

    Raises
    ------
    ValueError
        `time_ns` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B15

    Examples
    --------
    >>> [dscp_of_time(t) for t in (0, 2**40, 63 * 2**40, 64 * 2**40, 1767225600 * 10**9)]
    [0, 1, 63, 0, 50]
    """
    check_range("time_ns", time_ns, 0)
    return (int(time_ns) >> DSCP_SHIFT_BIT) & 63


def times_of_dscp(dscp: int, around_ns: int) -> tuple[int, int]:
    """Return the first and the last nanosecond that carry a stamp, in the wrap nearest to a time.

    Parameters
    ----------
    dscp : int
        Value of the DSCP field [1], 0 to 63.
    around_ns : int
        Time that selects the wrap [ns], >= 0.

    Returns
    -------
    tuple of int
        First and last time [ns].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B15

    Examples
    --------
    >>> times_of_dscp(1, 0)
    (1099511627776, 2199023255551)
    """
    check_range("dscp", dscp, 0, 63)
    check_range("around_ns", around_ns, 0)
    tick, wrap = 1 << DSCP_SHIFT_BIT, 64 << DSCP_SHIFT_BIT
    middle = dscp * tick + tick // 2
    turn = max(0, round((around_ns - middle) / wrap))
    first = turn * wrap + dscp * tick
    return first, first + tick - 1


def tos_byte(dscp: int) -> int:
    """Return the IPv4 type-of-service byte of a DSCP, its upper six bits.

    A time stamp in this field replaces the class of service.

    Parameters
    ----------
    dscp : int
        Value of the DSCP field [1], 0 to 63.

    Returns
    -------
    int
        Type-of-service byte [1], 0 to 252.

    Raises
    ------
    ValueError
        `dscp` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B15
    .. [2] rfc2474, docs/references.md

    Examples
    --------
    >>> tos_byte(46)
    184
    """
    check_range("dscp", dscp, 0, 63)
    return int(dscp) << 2


def time_for_distance_s(distance_m: Array, speed_m_s: Array = LIGHT_M_S) -> Array:
    """Return the time in which something covers a distance, ``d / v``.

    A clock must be this good to locate it that well.

    Parameters
    ----------
    distance_m : float or ndarray
        Distance d [m].
    speed_m_s : float or ndarray
        Speed v [m/s], > 0; that of light unless given.

    Returns
    -------
    float or ndarray
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B14

    Examples
    --------
    >>> round(float(time_for_distance_s(0.1)) * 1e9, 3)
    0.334
    """
    check_range("speed_m_s", speed_m_s, 0.0, open_low=True)
    return np.asarray(distance_m) / speed_m_s
