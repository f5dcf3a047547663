"""The sensors of a Linux PC: which channels it has, which it lacks, and why.

Paths and traps follow the kernel's documentation of cpufreq, thermal, hwmon and procfs. Prefixes end here: every
channel is SI. `root` is "/" on a machine and a made-up tree in tests.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Callable, Sequence

from app.agent.channel import Channel, Gauge, Sensor, word
from app.agent.files import KernelFile, text, why_unreadable
from app.agent.power import batteries, hwmon_power, rapl

VALID_TEMP_C = (-55.0, 200.0)


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
        match = re.search(rb"^MemAvailable:\s+(\d+) kB$", self.file.read() or b"", re.M)
        return (int(match.group(1)) * 1024.0 if match else math.nan,)


class Load:
    """Mean number of runnable tasks over the last minute."""

    interval_ns = 1_000_000_000  # the kernel renews it every 5 s

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        self.channels = (Channel("cpu.load_1min", "1", str(file.path)),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the load average."""
        match = re.match(rb"(\d+\.\d+) ", self.file.read() or b"")
        return (float(match.group(1)) if match else math.nan,)


def discover(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Find what this machine can sense.

    Returns
    -------
    sensors
        Those that can be read; their channels, in order, are the columns of a record.
    absent
        Channels that this machine could or should have, each with the reason it has not.
    """
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for find in (cpu_clocks, cpu_times, memory, load, temperatures, rapl, hwmon_power, batteries):
        found, missing = find(root)
        sensors += found
        absent += missing
    channels = [channel for sensor in sensors for channel in sensor.channels]
    if not any(c.unit == "W" and c.key != "battery.power_w" for c in channels) and not _has(absent, "board.power_w"):
        absent.append(Channel("board.power_w", "W", "", absent=_why_no_power(root, channels, absent)))
    _make_unique([*channels, *absent])
    return sensors, absent


def cpu_clocks(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return one clock for each cpufreq policy (processors that share a clock), named by its first processor."""
    base = root / "sys/devices/system/cpu/cpufreq"
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    policies = sorted(base.glob("policy*"), key=lambda path: (len(path.name), path.name))
    for folder in policies:
        first = (text(folder / "related_cpus").split() or [folder.name[len("policy") :]])[0]
        path = folder / "scaling_cur_freq"
        _open(path, Channel(f"cpu{word(first)}.clock_hz", "Hz", str(path)), 1e3, (1.0, math.inf), sensors, absent)
    if not policies:
        reason = f"no frequency driver: {base} is empty, as in most virtual machines"
        absent.append(Channel("cpu.clock_hz", "Hz", str(base), absent=reason))
    return sensors, absent


def cpu_times(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the busy and stolen shares of processor time."""
    return _proc(root / "proc/stat", CpuTimes, "cpu.busy_frac", "frac")


def memory(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the available memory."""
    return _proc(root / "proc/meminfo", MemoryAvailable, "memory.available_byte", "byte")


def load(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return the load average."""
    return _proc(root / "proc/loadavg", Load, "cpu.load_1min", "1")


def temperatures(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return thermal zones, named by type since their numbers differ by kernel, and the hwmon temperatures."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    types = set()
    for folder in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        kind = text(folder / "type")
        if not kind:
            continue
        types.add(kind)
        subject = "package" if kind == "x86_pkg_temp" else word(kind)
        channel = Channel(f"{subject}.temp_c", "degC", str(folder / "temp"))
        if kind == "PMIC-Die":
            channel.absent = "a constant 100 degC on the boards that have it, not a sensor"
            absent.append(channel)
            continue
        _open(folder / "temp", channel, 1e-3, VALID_TEMP_C, sensors, absent)
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = text(folder / "name") or text(folder / "device/name")
        if chip in types:  # the kernel shows each thermal zone as a hwmon chip too
            continue
        for path in sorted(folder.glob("temp*_input")):
            number = path.name[: -len("_input")]
            label = text(folder / f"{number}_label")
            if chip == "coretemp" and label.startswith("Core "):  # a read wakes that core; the package has the maximum
                continue
            channel = Channel(f"{word(chip)}.{word(label or number)}.temp_c", "degC", str(path))
            _open(path, channel, 1e-3, VALID_TEMP_C, sensors, absent)
    if not sensors and not absent:
        reason = "no temperature sensor: no thermal zone and no hwmon chip shows one, as in most virtual machines"
        absent.append(Channel("package.temp_c", "degC", str(root / "sys/class/thermal"), absent=reason))
    return sensors, absent


def _open(
    path: Path,
    channel: Channel,
    scale: float,
    valid: tuple[float, float],
    sensors: list[Sensor],
    absent: list[Channel],
) -> None:
    """Add a gauge on `path`, or the channel as absent."""
    try:
        sensors.append(Gauge(channel, KernelFile(path), scale, valid))
    except OSError as error:
        channel.absent = why_unreadable(error, path)
        absent.append(channel)


def _proc(path: Path, make: Callable[[KernelFile], Sensor], key: str, unit: str) -> tuple[list[Sensor], list[Channel]]:
    try:
        return [make(KernelFile(path))], []
    except OSError as error:
        return [], [Channel(key, unit, str(path), absent=why_unreadable(error, path))]


def _has(channels: Sequence[Channel], key: str) -> bool:
    return any(channel.key == key for channel in channels)


def _why_no_power(root: Path, channels: Sequence[Channel], absent: Sequence[Channel]) -> str:
    locked = [channel for channel in absent if channel.unit == "W"]
    if locked:
        return locked[0].absent
    reason = "no power sensor on this machine: no RAPL domain in /sys/class/powercap and no hwmon power input"
    if re.search(r"^flags\s*:.*\bhypervisor\b", text(root / "proc/cpuinfo"), re.M):
        return reason + "; it is a virtual machine, and its host keeps the energy counters"
    if _has(channels, "battery.power_w"):
        return reason + "; the battery shows its own flow only, which is the machine's power while it discharges"
    return reason


def _make_unique(channels: Sequence[Channel]) -> None:
    """Number the subjects of keys that come twice: a machine with two processors has package and package2."""
    seen: dict[str, int] = {}
    for channel in channels:
        key = channel.key
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            subject, quantity = key.rsplit(".", 1)
            channel.key = f"{subject}{seen[key]}.{quantity}"
