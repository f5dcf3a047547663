"""The offset of the agent's clock, from pings: of the last ones, the fastest is the truest."""

from __future__ import annotations

import math
from collections import deque

WINDOW_NS = 10_000_000_000


class ClockFilter:
    """Keeps the pings of the last 10 seconds and believes the one with the shortest round trip.

    A mean would take in every delay of the link; the shortest round trip is wrong by half of itself at most.
    """

    def __init__(self) -> None:
        self._pings: deque[tuple[int, float, float]] = deque()  # time of arrival, round trip and offset in ns

    def add(self, t1_ns: int, t2_ns: int, t3_ns: int, t4_ns: int) -> None:
        """Take one ping: sent (ours), arrived and answered (the agent's clock), back (ours)."""
        round_trip = (t4_ns - t1_ns) - (t3_ns - t2_ns)
        if round_trip < 0:  # no clock can say so
            return
        self._pings.append((t4_ns, round_trip, ((t2_ns - t1_ns) + (t3_ns - t4_ns)) / 2))
        while t4_ns - self._pings[0][0] > WINDOW_NS:
            self._pings.popleft()

    @property
    def offset_s(self) -> float:
        """Agent's clock minus ours; NaN before the first ping."""
        return min(self._pings, key=lambda ping: ping[1])[2] * 1e-9 if self._pings else math.nan

    @property
    def bound_s(self) -> float:
        """Largest error the offset can have: half the round trip."""
        return min(ping[1] for ping in self._pings) * 0.5e-9 if self._pings else math.inf
