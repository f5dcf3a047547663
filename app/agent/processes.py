"""Other programs on the board and their share of the processor."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from app.agent.files import text
from app.agent.load import Process, Snapshot, family, others_cores, processes, snapshot

N_SHOWN = 5
BUSY_CORES = 0.2
"""Of other programs together, from which on they disturb a measurement."""

_UNNAMED = "short-lived or hidden programs"


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
        self._last: Optional[Tuple[Snapshot, Dict[int, Process]]] = None

    @property
    def busy(self) -> bool:
        """Whether other programs disturbed the time between the last two looks."""
        return "warning" in self.entry

    def look(self) -> None:
        """Sample now; the entry covers the time since the last call."""
        known = processes(self._root)
        now = snapshot(self._root, known)
        ours = family(os.getpid(), {pid: process.parent for pid, process in known.items()})
        others = {pid: process for pid, process in known.items() if pid not in ours}
        last, self._last = self._last, (now, others)
        if not others:
            self.entry = {"absent": f"{self._root / 'proc'} shows no other program"}
            return
        if last is None or now.t_s <= last[0].t_s:
            return
        passed_s = now.t_s - last[0].t_s
        shares: Dict[str, float] = {}
        for pid, process in others.items():
            before = last[1].get(pid)
            used_s = process.cpu_s - before.cpu_s if before is not None and before.name == process.name else 0.0
            if used_s > 0:
                shares[process.name] = shares.get(process.name, 0.0) + used_s / passed_s
        self.entry = _entry(shares, text(self._root / "proc/loadavg").split(), others_cores(last[0], now))


def _entry(shares: Dict[str, float], load: List[str], all_cores: Optional[float] = None) -> Dict[str, Any]:
    """Return the entry from the shares by name and from the load average.

    `all_cores` is what all other programs took together, which is more where some of them ended in between.
    """
    most = sorted(shares.items(), key=lambda item: -item[1])[:N_SHOWN]
    named = sum(shares.values())
    total = max(named, all_cores or 0.0)
    value = {
        "cores": round(total, 2),
        "most": [{"name": name, "cores": round(share, 2)} for name, share in most if share >= 0.005],
    }
    if load and re.fullmatch(r"\d{1,6}\.\d{1,4}", load[0]):
        value["load_1min"] = float(load[0])
    if total < BUSY_CORES:
        return {"value": value}
    listed = [f"{name} {share:.1f}" for name, share in most[:3] if share >= 0.05]
    if total - named >= BUSY_CORES:
        listed.append(f"{_UNNAMED} {total - named:.1f}")
    return {
        "value": value,
        "warning": f"other programs take {total:.1f} cores ({', '.join(listed)}): timings will be worse",
    }
