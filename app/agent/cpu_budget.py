"""The agent's share of a core, and how far its turns must lie apart to keep it small."""

from __future__ import annotations

from typing import Tuple

MAX_CORE_FRAC = 0.03
"""Of one core, which the agent may take from the board that it watches."""

WINDOW_S = 5.0
_EASY_FRAC = 0.6 * MAX_CORE_FRAC
_MOST_S = 1.0


class SelfLimit:
    """Spreads the turns in which sensors are read while the agent takes too much, and closes up when it does not.

    The rate of the records stays: between two turns they hold the values that are known, which costs next to nothing.

    Attributes
    ----------
    pause_s
        The least time between two turns; 0 while there is no need for one.
    core_frac
        The agent's share of a core over the last window.
    """

    def __init__(self) -> None:
        self.pause_s = 0.0
        self.core_frac = 0.0
        self._since: Tuple[float, float, int] = (-1.0, 0.0, 0)
        self._n_over = 0

    def start_anew(self) -> None:
        """Forget what was seen, as when another rate is asked for."""
        self.pause_s = 0.0
        self._n_over = 0
        self._since = (-1.0, 0.0, 0)

    def see(self, now_s: float, cpu_s: float, n_turns: int) -> str:
        """Take the time, the processor time used and the turns so far; return a sentence for the log, or "".

        Two windows over the limit spread the turns: one may be a start or a stroke of bad luck.
        """
        since_s, since_cpu_s, since_turns = self._since
        if since_s >= 0 and now_s - since_s < WINDOW_S:
            return ""
        self._since = (now_s, cpu_s, n_turns)
        if since_s < 0:
            return ""
        self.core_frac = (cpu_s - since_cpu_s) / (now_s - since_s)
        apart_s = (now_s - since_s) / max(n_turns - since_turns, 1)
        self._n_over = self._n_over + 1 if self.core_frac > MAX_CORE_FRAC else 0
        if self._n_over >= 2:
            first, self._n_over = self.pause_s == 0, 1
            self.pause_s = min(_MOST_S, 1.1 * apart_s * self.core_frac / MAX_CORE_FRAC)
            if first:
                slower, faster = 1e3 * self.pause_s, 1e3 * apart_s
                return (
                    f"reading the sensors every {slower:.0f} ms, not every {faster:.0f} ms: more would take over "
                    f"{MAX_CORE_FRAC:.0%} of a core of this board"
                )
        elif self.pause_s and self.core_frac < _EASY_FRAC:
            self.pause_s = self.pause_s / 1.3 if self.pause_s > 1e-3 else 0.0
        return ""
