"""Batteries: power from microwatts, or from microamperes and microvolts, signed by the status.

By the kernel's ABI a negative value is discharging, but many drivers give no sign. On mains the flow of a battery says
nothing about what the machine takes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Sequence

from app.agent.channel import Channel, Sensor
from app.agent.files import KernelFile, text, why_unreadable


class Battery:
    """Power out of a battery: positive while it discharges, negative while it charges.

    Many drivers give no sign, so the sign is taken from the status; a flow of unknown direction is NaN.
    """

    interval_ns = 100_000_000

    def __init__(self, folder: Path, key: str) -> None:
        has_power = (folder / "power_now").exists()
        self.file = KernelFile(folder / ("power_now" if has_power else "current_now"))
        self._voltage = None if has_power else KernelFile(folder / "voltage_now")
        self._status = KernelFile(folder / "status")
        source = str(self.file.path) + ("" if has_power else f" x {folder / 'voltage_now'}")
        self.channels = (Channel(key, "W", source, "flow out of the battery; negative while it charges", total="flow"),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the power, signed by the status."""
        size = abs(self.file.number()) * 1e-6
        if self._voltage is not None:
            size *= self._voltage.number() * 1e-6
        sign = {b"discharging": 1.0, b"charging": -1.0}.get((self._status.read() or b"").strip().lower(), math.nan)
        return (0.0 if size == 0 else size * sign,)


def find(root: Path) -> tuple[list[Sensor], list[Channel]]:
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
