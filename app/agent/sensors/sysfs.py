"""Common interfaces of the kernel: clocks (cpufreq), temperatures (thermal, hwmon), power (hwmon).

Thermal zones and hwmon chips are known by type and name: their numbers differ by kernel and by boot.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Iterator

from app.agent.channel import Channel, Gauge, Sensor, word
from app.agent.files import KernelFile, is_virtual, parse_int, text, why_unreadable
from app.agent.sensors import ina
from app.agent.sensors.rapl import EnergyCounter

VALID_TEMP_C = (-55.0, 200.0)
_CLOCK_NS = 10_000_000
_POWER_MS = 5  # the bus to such a chip, and its conversions, are not quicker
_TEMP_NS = 20_000_000  # junctions are slower than that
_ANY = (-math.inf, math.inf)
_NOT_AGAIN = (ina.CHIP,)  # chips that a file of their own reads
_POWER = re.compile(r"(?P<kind>power|energy)(?P<n>\d+)_(?P<what>input|average)")
_ELECTRIC = {"in": ("voltage_v", "V"), "curr": ("current_a", "A")}


def cpu_clocks(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return one clock for each cpufreq policy (processors that share a clock), named by its first processor."""
    base = root / "sys/devices/system/cpu/cpufreq"
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    policies = sorted(base.glob("policy*"), key=lambda path: (len(path.name), path.name))
    for folder in policies:
        first = (text(folder / "related_cpus").split() or [folder.name[len("policy") :]])[0]
        path = folder / "scaling_cur_freq"
        _open(
            path,
            Channel(f"cpu{word(first)}.clock_hz", "Hz", str(path)),
            1e3,
            (1.0, math.inf),
            _CLOCK_NS,
            sensors,
            absent,
        )
    if not policies:
        reason = f"no frequency driver: {base} is empty{_in_guests(root)}"
        absent.append(Channel("cpu.clock_hz", "Hz", str(base), absent=reason))
    return sensors, absent


def temperatures(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return thermal zones, named by type since their numbers differ by kernel, and the hwmon temperatures."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    types = set()
    for folder in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        kind = text(folder / "type")
        if not kind:
            continue
        types.add(word(kind))
        subject = "package" if kind == "x86_pkg_temp" else word(kind)
        channel = Channel(f"{subject}.temp_c", "degC", str(folder / "temp"))
        if kind == "PMIC-Die":
            channel.absent = "a constant 100 degC on the boards that have it, not a sensor"
            absent.append(channel)
            continue
        _open(folder / "temp", channel, 1e-3, VALID_TEMP_C, _TEMP_NS, sensors, absent)
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = text(folder / "name") or text(folder / "device/name")
        if word(chip) in types:  # the kernel shows each thermal zone as a hwmon chip too
            continue
        for path in sorted(folder.glob("temp*_input")):
            number = path.name[: -len("_input")]
            label = text(folder / f"{number}_label")
            if chip == "coretemp" and label.startswith("Core "):  # a read wakes that core; the package has the maximum
                continue
            channel = Channel(f"{word(chip)}.{word(label or number)}.temp_c", "degC", str(path))
            _open(path, channel, 1e-3, VALID_TEMP_C, _TEMP_NS, sensors, absent)
    if not sensors and not absent:
        reason = f"no temperature sensor: no thermal zone and no hwmon chip shows one{_in_guests(root)}"
        absent.append(Channel("package.temp_c", "degC", str(root / "sys/class/thermal"), absent=reason))
    return sensors, absent


def hwmon_power(root: Path) -> tuple[list[Sensor], list[Channel]]:
    """Return power inputs and energy counters of hwmon chips, and voltages and currents of those that measure both."""
    sensors: list[Sensor] = []
    absent: list[Channel] = []
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        chip = text(folder / "name") or text(folder / "device/name")
        if chip in _NOT_AGAIN:
            continue
        interval_ns = min(1000, parse_int(text(folder / "update_interval")) or _POWER_MS) * 1_000_000
        for path, channel, scale in _electric(folder, chip):
            try:
                file = KernelFile(path)
            except OSError as error:
                channel.absent = why_unreadable(error, path)
                absent.append(channel)
                continue
            energy = path.name.startswith("energy")
            sensors.append(
                EnergyCounter(channel, file, 0) if energy else Gauge(channel, file, scale, _ANY, interval_ns)
            )
    return sensors, absent


def _electric(folder: Path, chip: str) -> Iterator[tuple[Path, Channel, float]]:
    """Give the electric inputs of a chip; voltages of a chip without current are fans' and batteries', not rails."""
    names = sorted(path.name for path in folder.iterdir())
    measures_current = any(re.fullmatch(r"curr\d+_input", name) for name in names)
    for name in names:
        power = _POWER.fullmatch(name)
        other = re.fullmatch(r"(in|curr)(\d+)_input", name)
        if power and not (power["what"] == "average" and f"power{power['n']}_input" in names):
            number, quantity, unit, scale = power["kind"] + power["n"], "power_w", "W", 1e-6
        elif other and measures_current:
            number, (quantity, unit), scale = other[1] + other[2], _ELECTRIC[other[1]], 1e-3
        else:
            continue
        label = text(folder / f"{number}_label")
        if label != "NC":
            key = f"{word(chip)}.{word(label or number)}.{quantity}"
            yield folder / name, Channel(key, unit, str(folder / name), f"{chip} {label or number}"), scale


def _in_guests(root: Path) -> str:
    return ", as in most virtual machines" if is_virtual(root) else ""


def _open(
    path: Path,
    channel: Channel,
    scale: float,
    valid: tuple[float, float],
    interval_ns: int,
    sensors: list[Sensor],
    absent: list[Channel],
) -> None:
    """Add a gauge on `path`, or the channel as absent."""
    try:
        sensors.append(Gauge(channel, KernelFile(path), scale, valid, interval_ns))
    except OSError as error:
        channel.absent = why_unreadable(error, path)
        absent.append(channel)
