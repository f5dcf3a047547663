"""Statistics of a channel: mean, range, and the integral over time, which is the energy of a power."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Tally:
    """Statistics of one channel, accumulated piece by piece; times in seconds, values in the channel's unit."""

    n: int = 0
    least: float = math.inf
    most: float = -math.inf
    total: float = 0.0
    integral: float = 0.0  # over time, by trapezoids between neighbours that are both there
    covered_s: float = 0.0  # the time that it covers

    def add(self, t_s: Floats, y: Floats) -> None:
        """Add consecutive samples, NaN for failed readings."""
        fine = np.isfinite(y)
        if not fine.any():
            return
        self.n += int(fine.sum())
        self.least, self.most = min(self.least, float(y[fine].min())), max(self.most, float(y[fine].max()))
        self.total += float(y[fine].sum())
        both = fine[1:] & fine[:-1]
        step_s = np.diff(t_s)[both]
        self.integral += float((step_s * (y[1:] + y[:-1])[both] / 2).sum())
        self.covered_s += float(step_s.sum())

    def bridge(self, before: tuple[float, float], after: tuple[float, float]) -> None:
        """Add the time between two neighbours (time, value) of different pieces."""
        if math.isfinite(before[1]) and math.isfinite(after[1]):
            self.integral += (after[0] - before[0]) * (before[1] + after[1]) / 2
            self.covered_s += after[0] - before[0]

    @property
    def mean(self) -> float:
        """Mean over time, or the value of a single sample."""
        return self.integral / self.covered_s if self.covered_s > 0 else self.total / self.n


def between(t_s: Floats, y: Floats, low_s: float, high_s: float) -> Tally:
    """Return the statistics between two times, with interpolated ends if there are samples on both sides of them.

    Parameters
    ----------
    t_s, y : (n,)
        Rising times [s] and values, NaN for a failed reading and once in each gap.
    low_s, high_s : float
        In either order.
    """
    low_s, high_s = min(low_s, high_s), max(low_s, high_s)
    first, last = np.searchsorted(t_s, low_s, "left"), np.searchsorted(t_s, high_s, "right")
    times, values = t_s[first:last], y[first:last]
    for edge_s, k, front in ((low_s, first, True), (high_s, last, False)):
        at_edge = times.size and times[0 if front else -1] == edge_s
        if 0 < k < t_s.size and not at_edge and np.isfinite(y[k - 1 : k + 1]).all():
            value = float(np.interp(edge_s, t_s[k - 1 : k + 1], y[k - 1 : k + 1]))
            times = np.r_[edge_s, times] if front else np.r_[times, edge_s]
            values = np.r_[value, values] if front else np.r_[values, value]
    tally = Tally()
    tally.add(times, values)
    return tally
