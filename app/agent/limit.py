"""The agent's share of a core, and the rate that keeps it small."""

from __future__ import annotations

from typing import Tuple

MAX_CORE_FRAC = 0.03
"""Of one core, which the agent may take from the board that it watches."""

WINDOW_S = 5.0
_EASY_FRAC = 0.7 * MAX_CORE_FRAC


class SelfLimit:
    """Lowers the rate of sampling while the agent takes too much, and raises it again when it does not.

    Attributes
    ----------
    rate_hz
        The rate to sample at, at most the one asked for.
    core_frac
        The agent's share of a core over the last window.
    """

    def __init__(self, wanted_hz: float) -> None:
        self.rate_hz = wanted_hz
        self.core_frac = 0.0
        self._wanted_hz = wanted_hz
        self._since: Tuple[float, float] = (-1.0, 0.0)
        self._n_over = 0

    def want(self, rate_hz: float) -> None:
        """Take another rate."""
        self.rate_hz = self._wanted_hz = rate_hz
        self._n_over = 0
        self._since = (-1.0, 0.0)

    def see(self, now_s: float, cpu_s: float) -> str:
        """Take the time and the processor time used so far; return what to tell people, "" when nothing changed.

        Two windows over the limit lower the rate: one may be a start or a stroke of bad luck.
        """
        since_s, since_cpu_s = self._since
        if since_s < 0:
            self._since = (now_s, cpu_s)
            return ""
        if now_s - since_s < WINDOW_S:
            return ""
        self._since = (now_s, cpu_s)
        self.core_frac = (cpu_s - since_cpu_s) / (now_s - since_s)
        self._n_over = self._n_over + 1 if self.core_frac > MAX_CORE_FRAC else 0
        if self._n_over >= 2:
            self._n_over = 0
            self.rate_hz = max(0.1, min(self.rate_hz, self._wanted_hz * 0.95) * 0.9 * MAX_CORE_FRAC / self.core_frac)
            return (
                f"sampling at {self.rate_hz:.0f} Hz instead of {self._wanted_hz:.0f} Hz: more would take over "
                f"{MAX_CORE_FRAC:.0%} of a core of this board"
            )
        if self.core_frac < _EASY_FRAC and self.rate_hz < self._wanted_hz:
            self.rate_hz = min(self._wanted_hz, 1.2 * self.rate_hz)
            return f"sampling at {self.rate_hz:.0f} Hz again" if self.rate_hz == self._wanted_hz else ""
        return ""
