"""Power rails with a Texas Instruments shunt monitor: the INA3221 of Jetsons, and the INA238 and relatives.

The INA3221 has 13 bits: a step is 8 mV of bus voltage and 40 uV over the shunt, so that current moves in steps of
40 uV / shunt (8 mA at 5 mOhm). Power is their product. ``in7`` and ``curr4`` of the driver are sums of the three, and a
rail that is labelled NC is not connected: both are left out. ``update_interval`` is the time of one whole round, the
averaging of ``samples`` included (kernel documentation, hwmon/ina3221).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import List, Sequence, Tuple

from app.agent.channel import Channel, Sensor, word
from app.agent.files import KernelFile, parse_int, text, why_unreadable

CHIP = "ina3221"
_BUS_STEP_V = 8e-3
_SHUNT_STEP_V = 40e-6
_MIN_INTERVAL_NS = 5_000_000  # a read is a transaction on a slow bus


class Rail:
    """Voltage and current of one rail, and the power they make."""

    def __init__(self, files: Tuple[KernelFile, KernelFile], rail: str, shunt_ohm: float, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self._voltage, self._current = files
        volt, ampere = (str(file.path) for file in files)
        step_a = _SHUNT_STEP_V / shunt_ohm if shunt_ohm > 0 else None
        rail_w = f"{CHIP}.{word(rail)}.power_w"
        self.channels = (
            Channel(rail_w, "W", f"{volt} x {ampere}", f"rail {rail}"),
            Channel(f"{CHIP}.{word(rail)}.voltage_v", "V", volt, f"rail {rail}", error=_BUS_STEP_V),
            Channel(f"{CHIP}.{word(rail)}.current_a", "A", ampere, f"rail {rail}", error=step_a),
        )
        power_w, voltage_v, current_a = self.read(0)
        if step_a is not None and not math.isnan(power_w):
            self.channels[0].error = abs(voltage_v) * step_a + abs(current_a) * _BUS_STEP_V

    def read(self, t_ns: int) -> Sequence[float]:
        """Return power, voltage and current; a negative one stays so."""
        voltage_v, current_a = self._voltage.number() * 1e-3, self._current.number() * 1e-3
        return voltage_v * current_a, voltage_v, current_a


class RailJp4:
    """One rail of NVIDIA's own driver (JetPack 4): voltage, current and power in files of their own."""

    interval_ns = _MIN_INTERVAL_NS

    def __init__(self, folder: Path, number: str, rail: str) -> None:
        names = [f"in_{what}{number}_input" for what in ("power", "voltage", "current")]
        self._files = [KernelFile(folder / name) for name in names]
        keys = (("power_w", "W"), ("voltage_v", "V"), ("current_a", "A"))
        self.channels = tuple(
            Channel(f"{CHIP}.{word(rail)}.{key}", unit, str(folder / name), f"rail {rail}")
            for (key, unit), name in zip(keys, names)
        )

    def read(self, t_ns: int) -> Sequence[float]:
        """Return power, voltage and current."""
        return [file.number() * 1e-3 for file in self._files]


def find(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return the rails of all INA3221, whichever driver shows them."""
    sensors: List[Sensor] = []
    absent: List[Channel] = []
    for folder in sorted((root / "sys/class/hwmon").glob("hwmon*")):
        if (text(folder / "name") or text(folder / "device/name")) == CHIP:
            _mainline(folder, sensors, absent)
    seen = set()
    for pattern in ("sys/bus/i2c/devices/*/iio:device*", "sys/bus/iio/devices/iio:device*"):
        for folder in sorted(root.glob(pattern)):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                _jp4(folder, sensors, absent)
    return sensors, absent


def _mainline(folder: Path, sensors: List[Sensor], absent: List[Channel]) -> None:
    interval_ns = max(_MIN_INTERVAL_NS, (parse_int(text(folder / "update_interval")) or 0) * 1_000_000)
    for n in (1, 2, 3):
        rail = text(folder / f"in{n}_label") or f"{folder.resolve().parent.parent.name} input {n}"
        if rail == "NC" or not (folder / f"in{n}_input").exists():
            continue
        shunt_ohm = (parse_int(text(folder / f"shunt{n}_resistor")) or 0) * 1e-6
        try:
            files = KernelFile(folder / f"in{n}_input"), KernelFile(folder / f"curr{n}_input")
            sensors.append(Rail(files, rail, shunt_ohm, interval_ns))
        except OSError as error:
            path = Path(str(error.filename))
            absent.append(Channel(f"{CHIP}.{word(rail)}.power_w", "W", str(path), absent=why_unreadable(error, path)))


def _jp4(folder: Path, sensors: List[Sensor], absent: List[Channel]) -> None:
    for path in sorted(folder.glob("rail_name_*")):
        rail, number = text(path), path.name[len("rail_name_") :]
        if not rail or rail == "NC":
            continue
        try:
            sensors.append(RailJp4(folder, number, rail))
        except OSError as error:
            file = Path(str(error.filename))
            absent.append(Channel(f"{CHIP}.{word(rail)}.power_w", "W", str(file), absent=why_unreadable(error, file)))
