"""Two clocks and many: offset and its hard bound, drift, a network of clocks, and a time stamp in six bits.

An exchange of messages leaves here at t1, arrives there at t2, leaves there at t3, arrives here at t4. The offset it
shows is wrong by half the asymmetry of the two ways, which no exchange can see; half the delay bounds it.

References
----------
docs/physics.md, M11; quantities, B14 and B15. Hull: Moon, Skelly, Towsley, INFOCOM 1999. Mills, RFC 5905.
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
    """Reading of the far clock minus ours, ``((t2 - t1) + (t3 - t4)) / 2`` [s]; true within `delay_s` / 2."""
    return np.asarray((np.subtract(t2_s, t1_s) + np.subtract(t3_s, t4_s)) / 2)


def delay_s(t1_s: Array, t2_s: Array, t3_s: Array, t4_s: Array) -> Array:
    """Mean one-way time, ``((t4 - t1) - (t3 - t2)) / 2`` [s]: the hard bound of the offset's error is this long."""
    return np.asarray((np.subtract(t4_s, t1_s) - np.subtract(t3_s, t2_s)) / 2)


def asymmetry_error_s(forward_s: Array, back_s: Array) -> Array:
    """Error that unequal ways leave in the offset, ``(d_f - d_r) / 2`` [s]; unobservable."""
    check_range("forward_s", forward_s, 0.0)
    check_range("back_s", back_s, 0.0)
    return np.asarray(np.subtract(forward_s, back_s) / 2)


def quickest(delay: ArrayLike, share: float = 0.1) -> NDArray[np.bool_]:
    """Which exchanges are among the `share` of lowest delay (at least one): the least disturbed by queues."""
    d = np.asarray(delay, float)
    check_range("share", share, 0.0, 1.0, open_low=True)
    check_range("number of exchanges", d.size, 1)
    keep = np.zeros(d.size, bool)
    keep[np.argsort(d, kind="stable")[: max(1, int(np.ceil(share * d.size)))]] = True
    return keep


@dataclass(frozen=True, slots=True)
class Line:
    """A clock against ours: ``offset_s + drift t``; `drift` is dimensionless (1e-6 is 1 ppm)."""

    offset_s: float
    drift: float

    def at(self, t_s: Array) -> Array:
        """Offset at a time of ours [s]."""
        return self.offset_s + self.drift * np.asarray(t_s)


def fit_line(t_s: ArrayLike, offset: ArrayLike, weight: ArrayLike = 1.0) -> Line:
    """Least-squares offset and drift; (m,) times [s] and offsets [s], m >= 2 at two times or more."""
    t, y, w = np.broadcast_arrays(np.asarray(t_s, float), np.asarray(offset, float), np.asarray(weight, float))
    if t.ndim != 1 or np.unique(t).size < 2:
        raise ValueError(f"t_s holds {np.unique(t).size} different times, expected at least 2 to tell a drift")
    check_range("weight", w, 0.0, open_low=True)
    mean_t, mean_y = np.average(t, weights=w), np.average(y, weights=w)
    drift = float(np.sum(w * (t - mean_t) * (y - mean_y)) / np.sum(w * (t - mean_t) ** 2))
    return Line(float(mean_y - drift * mean_t), drift)


def hull_line(t_s: ArrayLike, offset: ArrayLike) -> Line:
    """Offset and drift from the lower convex hull: queues only ever add to a one-way delay.

    The hull edge over the middle of the record is the line below all points that is closest to them on average. Points
    pushed up, however far, do not move it.

    Parameters
    ----------
    t_s, offset : (m,) send times [s] and one-way readings ``t2 - t1`` [s], at two times or more.
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
    """Whether b lies on or above the chord from a to c."""
    return bool((y[b] - y[a]) * (t[c] - t[a]) >= (y[c] - y[a]) * (t[b] - t[a]))


@dataclass(frozen=True, slots=True)
class Track:
    """Offset and drift followed by a Kalman filter, after each exchange: (m,) values and standard errors."""

    offset_s: Floats
    drift: Floats
    offset_sd_s: Floats
    drift_sd: Floats


def track(
    t_s: ArrayLike, offset: ArrayLike, sd_s: ArrayLike, *, wander_s: float = 1e-9, drift_sd: float = 100e-6
) -> Track:
    """Follow offset and drift through exchanges with a two-state Kalman filter.

    Parameters
    ----------
    t_s, offset, sd_s : (m,) rising times [s], offsets [s] and their standard errors, > 0 [s] (half the delay is safe).
    wander_s : Random walk of the drift: its standard deviation after a second, >= 0 [1/s^0.5].
    drift_sd : What the drift may be at the start; crystals stay within 100 ppm.
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
    """Offsets of all clocks from pairwise readings, least squares with the reference held at 0 [s].

    Without that row pairwise readings leave a common constant open: their rank is ``n_clocks - 1`` at most.

    Parameters
    ----------
    pairs : (m, 2) clocks (i, j) of each reading.
    offset : (m,) clock j minus clock i [s].

    Raises
    ------
    ValueError
        The readings do not connect all clocks.
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
"""1099.5 s a step: such a stamp cannot order anything faster, and it wraps after 64 of them (19.5 h)."""
DSCP_WRAP_S = 64 * DSCP_TICK_S


def dscp_of_time(time_ns: int) -> int:
    """The six bits that the article writes, ``(t >> 40) & 63``; `time_ns` >= 0. For decoding only, never sent."""
    check_range("time_ns", time_ns, 0)
    return (int(time_ns) >> DSCP_SHIFT_BIT) & 63


def times_of_dscp(dscp: int, around_ns: int) -> tuple[int, int]:
    """First and last nanosecond that carry a stamp, in the wrap that is nearest to `around_ns`."""
    check_range("dscp", dscp, 0, 63)
    check_range("around_ns", around_ns, 0)
    tick, wrap = 1 << DSCP_SHIFT_BIT, 64 << DSCP_SHIFT_BIT
    middle = dscp * tick + tick // 2
    turn = max(0, round((around_ns - middle) / wrap))
    first = turn * wrap + dscp * tick
    return first, first + tick - 1


def tos_byte(dscp: int) -> int:
    """The IPv4 type-of-service byte of a DSCP, whose upper six bits it is; writing a stamp there loses the class."""
    check_range("dscp", dscp, 0, 63)
    return int(dscp) << 2


def time_for_distance_s(distance_m: Array, speed_m_s: Array = LIGHT_M_S) -> Array:
    """Time in which something covers a distance [s]: what a clock must hold to locate it that well."""
    check_range("speed_m_s", speed_m_s, 0.0, open_low=True)
    return np.asarray(distance_m) / speed_m_s
