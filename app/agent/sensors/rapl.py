"""RAPL: the energy counters of Intel and AMD processors, and the power they give.

The kernel counts microjoules (powercap); each domain wraps at a range of its own, and is readable by root only since
CVE-2020-8694.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Protocol, Sequence

from app.agent.channel import Channel, Sensor, word
from app.agent.files import KernelFile, parse_int, text, why_unreadable

MAX_POWER_W = 10e3
"""No board or CPU package draws more: a counter that says so was reset, not wrapped."""

_STUCK_S = 1.0  # a counter that stands still so long is not counting (virtual machines show such)
_RAPL_RULE = (
    "sudo chmod a+r /sys/class/powercap/*/energy_uj until the next start, and for good this udev rule: "
    'SUBSYSTEM=="powercap", KERNEL=="intel-rapl:*", RUN+="/bin/chmod a+r %S%p/energy_uj"'
)


class Counter(Protocol):
    """Something that holds a count in digits."""

    def read(self) -> bytes | None:
        """Return it, or None where it cannot be read now."""


class EnergyCounter:
    """Mean power between reads of a counter of microjoules that wraps at `max_range_uj` (0: unknown, a wrap is NaN)."""

    interval_ns = 20_000_000  # RAPL counts in steps of 1 ms: a shorter interval would be more than 5 % wrong

    def __init__(self, channel: Channel, file: Counter, max_range_uj: int) -> None:
        self.channels = (channel,)
        self.file = file
        self._max_range_uj = max_range_uj
        self._last: tuple[int, int] | None = None  # time in ns and count of the last change
        self._power_w = math.nan

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the mean power since the counter last moved on; the first read has none."""
        data = self.file.read()
        count = None if data is None else parse_int(data)
        if count is None or count < 0:
            self._last, self._power_w = None, math.nan
        elif self._last is None:
            self._last = (t_ns, count)
        else:
            self._advance(t_ns, count, *self._last)
        return (self._power_w,)

    def _advance(self, t_ns: int, count: int, last_ns: int, last_count: int) -> None:
        if t_ns - last_ns < self.interval_ns:
            return
        duration_s = (t_ns - last_ns) * 1e-9
        if count == last_count:
            if duration_s > _STUCK_S:
                self._power_w = math.nan
            return
        energy_uj = count - last_count
        if energy_uj < 0:
            energy_uj = energy_uj + self._max_range_uj if self._max_range_uj > 0 else -1
        power_w = energy_uj * 1e-6 / duration_s
        self._power_w = power_w if 0 <= power_w <= MAX_POWER_W else math.nan
        self._last = (t_ns, count)


def find(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the RAPL domains of Intel and AMD processors: the readable ones, and the others with the reason."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        name = text(folder / "name")
        if not re.fullmatch(r"intel-rapl:\d+(:\d+)?", folder.name) or not name:
            continue
        path = folder / "energy_uj"
        channel = _channel(name, str(path))
        try:
            file = KernelFile(path)
        except OSError as error:
            channel.absent = why_unreadable(error, path, _RAPL_RULE)
            absent.append(channel)
            continue
        sensors.append(EnergyCounter(channel, file, parse_int(text(folder / "max_energy_range_uj")) or 0))
    return sensors, absent


def _channel(name: str, source: str) -> Channel:
    if name == "psys":  # it contains the package
        return Channel("board.power_w", "W", source, "the whole platform (RAPL psys)", total="input")
    if name.startswith("package"):
        covers = f"the processor package, without memory and the rest of the board (RAPL {name})"
        return Channel("package.power_w", "W", source, covers, total="disjoint")
    if name == "dram":
        return Channel("dram.power_w", "W", source, "the memory (RAPL dram)", total="disjoint")
    return Channel(f"{word(name)}.power_w", "W", source, f"RAPL domain {name}", part_of="package.power_w")
