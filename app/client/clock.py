"""The agent's clock against ours, from pings: offset and drift with bounds that no delay of the link can break.

A ping leaves here at t1, arrives there at t2, leaves there at t3 and is back at t4. Whatever its ways took, the true
offset lies in ``((t2 - t1) + (t3 - t4)) / 2 +- ((t4 - t1) - (t3 - t2)) / 2``. Of each 10 seconds the quickest ping is
kept, for two minutes. The clocks that pass through all these intervals are lines ``a + b t``: the range of b follows
from all pairs of intervals, and with it the least and the greatest offset of now. Their middle is published, half
their distance is the bound.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

WINDOW_NS = 10_000_000_000
N_WINDOWS = 12
MAX_DRIFT = 200e-6
"""Crystals stay within 100 ppm, so two of them within this of each other."""
WANDER = 0.2e-6
"""How far a crystal leaves its own line with age: its temperature changes."""


@dataclass(frozen=True)
class Reading:
    """Reading of the agent's clock: `offset_s` ahead of ours, within `bound_s`, with a `drift` in seconds a
    second (1e-6 is 1 ppm).
    """

    offset_s: float
    bound_s: float
    drift: float


@dataclass(frozen=True)
class _Ping:
    t_ns: int  # middle of the ping, our clock
    offset_ns: float  # against the first ping's
    half_ns: float  # half the round trip


class Clock:
    """Follows the offset of the agent's clock. Before the first ping the offset is NaN and the bound infinite."""

    def __init__(self) -> None:
        self._windows: deque[_Ping] = deque()  # quickest of each, the one of now last
        self._window = -1
        self._first_ns = 0.0
        self._drift = (-MAX_DRIFT, MAX_DRIFT)

    def add(self, t1_ns: int, t2_ns: int, t3_ns: int, t4_ns: int) -> float | None:
        """Take one ping: sent (ours), arrived and answered (the agent's clock), back (ours).

        Returns
        -------
        float or None
            By how many seconds the agent's clock has jumped, where this ping contradicts all before it.
        """
        half_ns = ((t4_ns - t1_ns) - (t3_ns - t2_ns)) / 2
        if half_ns < 0 or t4_ns < t1_ns or t3_ns < t2_ns:  # no clock can say so
            return None
        twice_ns = (t2_ns - t1_ns) + (t3_ns - t4_ns)  # whole numbers: exact however far apart the clocks are
        if not self._windows:
            self._first_ns = twice_ns // 2
        ping = _Ping((t1_ns + t4_ns) // 2, twice_ns / 2 - self._first_ns, half_ns)
        jump_ns = self._jump(ping)
        if jump_ns is not None:
            self._windows.clear()
        self._keep(ping)
        return None if jump_ns is None else jump_ns * 1e-9

    def at(self, t_ns: int) -> Reading:
        """Return the reading at a time of our clock, not before the last ping."""
        if not self._windows:
            return Reading(math.nan, math.inf, 0.0)
        low, high = self._range(t_ns)
        drift = sum(self._drift) / 2
        return Reading((self._first_ns + (low + high) / 2) * 1e-9, (high - low) / 2 * 1e-9, drift)

    def _jump(self, ping: _Ping) -> float | None:
        """Return the distance of a ping from the range that all others allow [s]; None when it fits."""
        if not self._windows:
            return None
        low, high = self._range(ping.t_ns)
        if ping.offset_ns - ping.half_ns <= high and ping.offset_ns + ping.half_ns >= low:
            return None
        return ping.offset_ns - (low + high) / 2

    def _range(self, t_ns: int) -> tuple[float, float]:
        """Return the least and the greatest offset at a time, over all clocks that pass through the intervals."""
        low, high = -math.inf, math.inf
        for ping in self._windows:
            age_ns = max(t_ns - ping.t_ns, 0)
            half_ns = ping.half_ns + WANDER * age_ns
            low = max(low, ping.offset_ns - half_ns + self._drift[0] * age_ns)
            high = min(high, ping.offset_ns + half_ns + self._drift[1] * age_ns)
        return (low, high) if low <= high else (high, low)

    def _keep(self, ping: _Ping) -> None:
        window = ping.t_ns // WINDOW_NS
        if self._windows and window == self._window:
            last = self._windows[-1]
            age_ns = ping.t_ns - last.t_ns
            if ping.half_ns > last.half_ns + (WANDER + self._drift[1] - self._drift[0]) * age_ns:
                return
            self._windows.pop()
        self._windows.append(ping)
        self._window = window
        while len(self._windows) > N_WINDOWS:
            self._windows.popleft()
        self._drift = self._drift_range()
        while self._drift[0] > self._drift[1]:  # the crystal has changed: the oldest interval no longer fits
            self._windows.popleft()
            self._drift = self._drift_range()

    def _drift_range(self) -> tuple[float, float]:
        """Return the least and the greatest drift of a line through all intervals."""
        low, high = -MAX_DRIFT, MAX_DRIFT
        pings = list(self._windows)
        newest_ns = pings[-1].t_ns
        for i, old in enumerate(pings):
            for new in pings[i + 1 :]:
                span_ns = new.t_ns - old.t_ns
                room_ns = old.half_ns + new.half_ns + WANDER * (newest_ns - old.t_ns)
                step_ns = new.offset_ns - old.offset_ns
                if span_ns > 0:
                    low = max(low, (step_ns - room_ns) / span_ns)
                    high = min(high, (step_ns + room_ns) / span_ns)
        return low, high
