"""Power: RAPL energy counters, hwmon power inputs, batteries.

Paths and units follow the kernel's documentation: powercap and hwmon count microjoules and microwatts,
power_supply microwatts, microamperes and microvolts.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Sequence

from app.agent.channel import Channel, Gauge, Sensor, word
from app.agent.files import KernelFile, parse_int, text, why_unreadable

MAX_POWER_W = 10e3
"""No board or CPU package draws more: a counter that says so was reset, not wrapped."""

_STUCK_S = 1.0  # a counter that stands still so long is not counting (virtual machines show such)
_RAPL_RULE = 'SUBSYSTEM=="powercap", KERNEL=="intel-rapl:*", RUN+="/bin/chmod a+r %S%p/energy_uj"'


class EnergyCounter:
    """Mean power between reads of a counter of microjoules that wraps at `max_range_uj` (0: unknown, a wrap is NaN)."""

    interval_ns = 20_000_000  # RAPL counts in steps of 1 ms: a shorter interval would be more than 5 % wrong

    def __init__(self, channel: Channel, file: KernelFile, max_range_uj: int) -> None:
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


class Battery:
    """Power out of a battery: positive while it discharges, negative while it charges.

    Many drivers give no sign, so the sign is taken from the status; a flow whose direction is not stated is NaN.
    """

    interval_ns = 100_000_000

    def __init__(self, folder: Path, key: str) -> None:
        has_power = (folder / "power_now").exists()
        self.file = KernelFile(folder / ("power_now" if has_power else "current_now"))
        self._voltage = None if has_power else KernelFile(folder / "voltage_now")
        self._status = KernelFile(folder / "status")
        source = str(self.file.path) + ("" if has_power else f" x {folder / 'voltage_now'}")
        self.channels = (Channel(key, "W", source, covers="flow out of the battery; negative while it charges"),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the power, signed by the status."""
        size = abs(self.file.number()) * 1e-6
        if self._voltage is not None:
            size *= self._voltage.number() * 1e-6
        sign = {b"discharging": 1.0, b"charging": -1.0}.get((self._status.read() or b"").strip().lower(), math.nan)
        return (0.0 if size == 0 else size * sign,)


def rapl(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the RAPL domains of Intel and AMD processors: the readable ones, and the others with the reason."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        name = text(folder / "name")
        if not re.fullmatch(r"intel-rapl:\d+(:\d+)?", folder.name) or not name:
            continue
        key, covers = _rapl_key(name)
        path = folder / "energy_uj"
        channel = Channel(key, "W", str(path), covers)
        try:
            file = KernelFile(path)
        except OSError as error:
            channel.absent = why_unreadable(error, path, _RAPL_RULE)
            absent.append(channel)
            continue
        sensors.append(EnergyCounter(channel, file, parse_int(text(folder / "max_energy_range_uj")) or 0))
    return sensors, absent


def _rapl_key(name: str) -> tuple[str, str]:
    if name == "psys":
        return "board.power_w", "the whole platform (RAPL psys)"
    if name.startswith("package"):
        return "package.power_w", f"the processor package, without memory and the rest of the board (RAPL {name})"
    return f"{word(name)}.power_w", f"RAPL domain {name}"


def hwmon_power(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the power inputs and energy counters of hwmon chips, named by chip: their numbers change on each boot."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = text(folder / "name") or text(folder / "device/name")
        for path in sorted(folder.iterdir()):
            match = re.fullmatch(r"(power|energy)(\d+)_(input|average)", path.name)
            if not match or (match.group(3) == "average" and (folder / f"power{match.group(2)}_input").exists()):
                continue
            label = text(folder / f"{match.group(1)}{match.group(2)}_label") or f"{match.group(1)}{match.group(2)}"
            channel = Channel(f"{word(chip)}.{word(label)}.power_w", "W", str(path), f"{chip} {label}")
            try:
                file = KernelFile(path)
            except OSError as error:
                channel.absent = why_unreadable(error, path)
                absent.append(channel)
                continue
            energy = match.group(1) == "energy"
            sensors.append(EnergyCounter(channel, file, 0) if energy else Gauge(channel, file, 1e-6))
    return sensors, absent


def batteries(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the batteries that feed the machine; those of mice and keyboards have the scope "Device"."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/power_supply").glob("*")):
        if text(folder / "type") != "Battery" or text(folder / "scope") == "Device":
            continue
        try:
            sensors.append(Battery(folder, "battery.power_w"))
        except OSError as error:
            reason = why_unreadable(error, Path(str(error.filename)))
            absent.append(Channel("battery.power_w", "W", str(folder), absent=reason))
    return sensors, absent


def total_power(channels: Sequence[Channel]) -> tuple[list[int], str]:
    """Choose the columns whose sum comes closest to the whole board; `([], reason)` when no sensor does.

    Adding rails under a total would count twice: the platform's own total wins, then package plus memory, then the
    battery, which is the whole machine while it discharges.
    """
    subject = [channel.key.split(".")[0].rstrip("0123456789_") for channel in channels]
    present = [i for i, channel in enumerate(channels) if channel.unit == "W" and not channel.absent]
    for wanted in (("board",), ("package", "dram"), ("battery",)):
        columns = [i for i in present if subject[i] in wanted]
        if any(subject[i] == wanted[0] for i in columns):
            return columns, " + ".join(channels[i].covers for i in columns)
    if present:
        parts = ", ".join(channels[i].covers for i in present)
        return [], f"the power sensors of this machine cover parts of the board only: {parts}"
    reasons = [channel.absent for channel in channels if channel.key == "board.power_w"]
    return [], reasons[0] if reasons else "no power sensor on this machine"
