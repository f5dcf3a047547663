"""Other programs on the board and their share of the processor."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from app.agent.files import text

N_SHOWN = 5
BUSY_CORES = 0.2
"""Of other programs together, from which on they disturb a measurement."""

_STAT = re.compile(r"^(\d+) \((.*)\) \S (\d+)(?: \S+){9} (\d+) (\d+) ", re.S)


class Processes:
    """The other programs that took the most processor time between two looks, without the agent and its children.

    Attributes
    ----------
    entry
        The entry of the board's state.
    """

    def __init__(self, root: Path) -> None:
        self.entry: Dict[str, Any] = {"absent": "not known yet: it takes two looks"}
        self._root = root
        self._last: Optional[Tuple[float, Dict[int, Tuple[str, float]]]] = None

    def look(self) -> None:
        """Sample now; the entry covers the time since the last call."""
        now_s, times = time.monotonic(), self._times()
        last, self._last = self._last, (now_s, times)
        if not times:
            self.entry = {"absent": f"{self._root / 'proc'} shows no other program"}
            return
        if last is None or now_s <= last[0]:
            return
        shares: Dict[str, float] = {}
        for pid, (name, cpu_s) in times.items():
            before = last[1].get(pid)
            used_s = cpu_s - before[1] if before is not None and before[0] == name else 0.0
            if used_s > 0:
                shares[name] = shares.get(name, 0.0) + used_s / (now_s - last[0])
        self.entry = _entry(shares, text(self._root / "proc/loadavg").split())

    def _times(self) -> Dict[int, Tuple[str, float]]:
        """Return name and processor time of each other program."""
        tick_s = 1.0 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
        found: Dict[int, Tuple[int, str, float]] = {}
        for folder in self._root.glob("proc/[0-9]*"):
            match = _STAT.match(text(folder / "stat"))
            if match:
                pid, name, parent, user, system = match.groups()
                found[int(pid)] = (int(parent), name, (int(user) + int(system)) * tick_s)
        ours = _family(os.getpid(), {pid: parent for pid, (parent, _, _) in found.items()})
        return {pid: (name, cpu_s) for pid, (_, name, cpu_s) in found.items() if pid not in ours}


def _family(pid: int, parents: Dict[int, int]) -> Set[int]:
    """Return a process and all that came from it."""
    family = {pid}
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return family


def _entry(shares: Dict[str, float], load: List[str]) -> Dict[str, Any]:
    most = sorted(shares.items(), key=lambda item: -item[1])[:N_SHOWN]
    total = sum(shares.values())
    value = {
        "cores": round(total, 2),
        "most": [{"name": name, "cores": round(share, 2)} for name, share in most if share >= 0.005],
    }
    if load and re.fullmatch(r"\d{1,6}\.\d{1,4}", load[0]):
        value["load_1min"] = float(load[0])
    if total < BUSY_CORES:
        return {"value": value}
    named = ", ".join(f"{name} {share:.1f}" for name, share in most[:3] if share >= 0.05)
    return {"value": value, "warning": f"other programs take {total:.1f} cores ({named}): timings will be worse"}
