"""Time that the processors of this machine spend in interrupts, as its kernel accounts it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

STAT_FILE = "/proc/stat"
_COLUMNS = slice(6, 8)  # irq and softirq of the line "cpu"


def interrupt_ticks(path: str = STAT_FILE) -> int:
    """Return the ticks in interrupts since the start of the machine, of all processors; -1 where nothing tells."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            words = file.readline().split()
        return sum(int(word) for word in words[_COLUMNS]) if words[0] == "cpu" and len(words) > 7 else -1
    except (OSError, ValueError, IndexError):
        return -1


def interrupt_record(windows: List[Tuple[int, int]]) -> Dict[str, Any]:
    """Return the mean time in interrupts of a request, or its absence.

    Parameters
    ----------
    windows
        `interrupt_ticks` before and behind each request. The interval is of one tick, the kernel's resolution.
    """
    if not windows or any(min(window) < 0 for window in windows):
        return {"absent": "this system does not tell the time of its interrupts"}
    if windows[-1][1] == 0:
        return {"absent": "the kernel of this machine does not account the time of its interrupts"}
    tick_s, n = 1.0 / os.sysconf("SC_CLK_TCK"), len(windows)
    n_ticks = sum(max(after - before, 0) for before, after in windows)
    mean, least, most = (ticks * tick_s / n for ticks in (n_ticks, max(n_ticks - 1, 0), n_ticks + 1))
    return {"median": mean, "q05": least, "q95": most, "n": n, "provenance": "measured"}
