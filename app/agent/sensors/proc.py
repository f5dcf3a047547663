"""Processor load and memory from /proc."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Callable, Sequence

from app.agent.channel import Channel, Sensor
from app.agent.files import KernelFile, why_unreadable


class CpuTimes:
    """Shares of the time that all processors were busy, and that the host gave to other guests, since the last read."""

    interval_ns = 50_000_000  # 5 ticks

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        source = str(file.path)
        self.channels = (Channel("cpu.busy_frac", "frac", source), Channel("cpu.steal_frac", "frac", source))
        self._last: tuple[int, int, int] | None = None
        self._fracs: tuple[float, float] = (math.nan, math.nan)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return both shares; the counters move in steps of 10 ms, so a shorter interval repeats the last answer."""
        times = _cpu_times(self.file.read())
        if times is None:
            self._last, self._fracs = None, (math.nan, math.nan)
        elif self._last is None:
            self._last = times
        else:
            total, busy, steal = (new - old for new, old in zip(times, self._last))
            if total < 0 or busy < 0 or steal < 0:  # idle times may step back when a processor is unplugged
                self._last, self._fracs = times, (math.nan, math.nan)
            elif total >= 5:
                self._last, self._fracs = times, (busy / total, steal / total)
        return self._fracs


def _cpu_times(data: bytes | None) -> tuple[int, int, int] | None:
    """Return total, busy and stolen ticks of the first line of /proc/stat."""
    words = (data or b"").split(b"\n", 1)[0].split()
    if len(words) < 9 or words[0] != b"cpu" or not all(w.isdigit() for w in words[1:9]):
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(w) for w in words[1:9])
    busy = user + nice + system + irq + softirq
    return busy + idle + iowait + steal, busy, steal


class MemoryAvailable:
    """Memory that new programs could take without swapping."""

    interval_ns = 20_000_000

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        self.channels = (Channel("memory.available_byte", "byte", str(file.path)),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return it in bytes."""
        match = re.search(rb"^MemAvailable:\s+(\d{1,15}) kB$", self.file.read() or b"", re.M)
        return (int(match.group(1)) * 1024.0 if match else math.nan,)


class Load:
    """Mean number of runnable tasks over the last minute."""

    interval_ns = 1_000_000_000  # the kernel renews it every 5 s

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        self.channels = (Channel("cpu.load_1min", "1", str(file.path)),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the load average."""
        match = re.match(rb"(\d{1,9}\.\d{1,9}) ", self.file.read() or b"")
        return (float(match.group(1)) if match else math.nan,)


def cpu_times(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the busy and stolen shares of processor time."""
    return _proc(root / "proc/stat", CpuTimes, "cpu.busy_frac", "frac")


def memory(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the available memory."""
    return _proc(root / "proc/meminfo", MemoryAvailable, "memory.available_byte", "byte")


def load(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the load average."""
    return _proc(root / "proc/loadavg", Load, "cpu.load_1min", "1")


def _proc(path: Path, make: Callable[[KernelFile], Sensor], key: str, unit: str) -> tuple[list[Sensor], list[Channel]]:
    try:
        return [make(KernelFile(path))], []
    except OSError as error:
        return [], [Channel(key, unit, str(path), absent=why_unreadable(error, path))]
