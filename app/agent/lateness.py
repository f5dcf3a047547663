"""Lateness of a cyclic timer on this machine: how long after its moment it wakes up, with and without load.

Standard library only, so that it runs where the agent runs. The load copies memory on every processor, as decoding
does; its processes end by themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import List, NamedTuple, Optional, Sequence, Tuple

LEAST_PERIOD_S, MOST_PERIOD_S = 1e-4, 1.0
MOST_SECONDS = 60.0
QUANTILES = (0.5, 0.9, 0.99, 0.999)
_START_S = 30.0  # that processes of the load may take to start
_LOAD = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
block = bytearray(32 << 20)
print(flush=True)
while time.monotonic() < end:
    bytes(block)
"""


class Lateness(NamedTuple):
    """Lateness of each wake-up in order [s], how many moments had passed before the sleep, and the load's processes."""

    late_s: List[float]
    n_missed: int
    n_load: int

    def quantile_s(self, share: float) -> Optional[float]:
        """Return the lateness that this share of the wake-ups does not exceed [s]; None where they are too few."""
        if len(self.late_s) * (1.0 - share) < 1.0 - 1e-9:
            return None
        return self.late_s[min(int(share * len(self.late_s)), len(self.late_s) - 1)]


def measured(period_s: float, seconds: float, n_load: int = 0) -> Lateness:
    """Return the lateness of a timer that wakes up every `period_s` for `seconds`, under a load of `n_load` processes.

    Raises
    ------
    ValueError
        A time is out of range.
    """
    if not LEAST_PERIOD_S <= period_s <= MOST_PERIOD_S:
        raise ValueError("period: got %g s, expected 100 us to 1 s" % period_s)
    if not 2.0 * period_s <= seconds <= MOST_SECONDS:
        raise ValueError("seconds: got %g s, expected two periods to %g s" % (seconds, MOST_SECONDS))
    load = _started(n_load, seconds + _START_S)
    try:
        late, n_missed = _wake_ups(int(period_s * 1e9), int(seconds / period_s))
    finally:
        for process in load:
            process.kill()
        for process in load:
            process.communicate()
    return Lateness(sorted(late), n_missed, n_load)


def _started(n: int, seconds: float) -> Sequence["subprocess.Popen[bytes]"]:
    """Return processes of load that have begun to run."""
    command = [sys.executable, "-S", "-c", _LOAD, str(seconds)]
    load: List[subprocess.Popen[bytes]] = []
    try:
        for _ in range(n):
            load.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        for process in load:
            assert process.stdout is not None
            process.stdout.readline()
    except BaseException:
        for process in load:
            process.kill()
            process.communicate()
        raise
    return load


def _wake_ups(period_ns: int, n: int) -> Tuple[List[float], int]:
    """Sleep until each multiple of the period; a moment that has passed already is late by the time since it."""
    late: List[float] = []
    n_missed = 0
    start_ns = time.monotonic_ns() + period_ns
    for i in range(n):
        due_ns = start_ns + i * period_ns
        left_ns = due_ns - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)
        else:
            n_missed += 1
        late.append(max(0, time.monotonic_ns() - due_ns) / 1e9)
    return late, n_missed


def n_processors() -> int:
    """Return the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
