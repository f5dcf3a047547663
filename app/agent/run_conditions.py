"""Conditions of a measured run that decide how fast the board was: other work, heat, clock, power mode, throttling."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Optional

from app.agent.load import Snapshot, conditions, snapshot
from app.agent.state import BoardState


class RunConditions:
    """Adds to the result of a run what the board was like during it.

    Parameters
    ----------
    root
        Root of the board's file system.
    state
        The state of the board.
    hottest_c
        Gives the highest temperature [deg C]; None without a sensor.
    """

    def __init__(self, root: Path, state: BoardState, hottest_c: Callable[[], Optional[float]]) -> None:
        self._root, self._state, self._hottest_c = root, state, hottest_c
        self._before: Optional[Snapshot] = None

    def begun(self) -> None:
        """Take note that a run begins."""
        self._before = snapshot(self._root)

    def complete(self, body: Dict[str, Any]) -> Dict[str, Any]:
        """Return a result with ``others_frac`` and the shares of `app.agent.load.between`, ``temp_c``, ``clock_hz``
        (highest clock that the processors may run at), ``mode`` and ``throttle`` in words, as far as they are known.
        """
        known = dict(body.get("conditions", {}))
        added: Dict[str, Any] = {}
        if self._before is not None:
            added.update(conditions(self._root, self._before, snapshot(self._root), known))
        temp_c = self._hottest_c()
        if temp_c is not None:
            added["temp_c"] = round(temp_c, 2)
        clocks = self._state.cpu_clock().get("value") or {}
        most = [clock["max_hz"] for clock in clocks.values() if clock.get("max_hz")]
        if most:
            added["clock_hz"] = max(most)
        for name, entry in (("mode", self._state.power_mode()), ("throttle", self._state.throttle())):
            if isinstance(entry.get("value"), str):
                added[name] = entry["value"]
        return {**body, "conditions": {**added, **known}}
