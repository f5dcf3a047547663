"""Raspberry Pi: the power chip of the Pi 5 (through vcgencmd) and the throttle bits of the firmware.

``vcgencmd pmic_read_adc`` gives twelve currents and fourteen voltages. They leave out what USB, HATs and the regulators
themselves take, so the power of the board is an estimate, 1.1451 x sum(V x I) + 0.5879 W (pi-top's documentation of its
power measurements). Throttle bits 0 to 3 are "now", 16 to 19 "has happened": these catch 10 ms brown-outs that no
reading of the ADC does.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

from app.agent.channel import Channel, Sensor, word
from app.agent.files import KernelFile, why_unreadable
from app.agent.sensors.reading import Parsed, number, rows

ARGV = ("vcgencmd", "pmic_read_adc")
IN_GROUP = "type sudo usermod -aG video USER on the board, then log in again"
REFUSALS = (
    (
        r"Can't open device file: /dev/\w+|VCHI initialization failed|[Pp]ermission denied",
        f"needs the group video: vcgencmd may not ask the firmware ({{0}}); {IN_GROUP}",
    ),
    (
        r"Command not registered|invalid command",
        "the firmware has no pmic_read_adc: type sudo apt full-upgrade and sudo rpi-eeprom-update -a, then restart",
    ),
)
DEVICES = ("dev/vcio_gencmd", "dev/vcio")
ESTIMATE = (1.1451, 0.5879)
"""Slope and offset in watts from the sum over the rails to the board's input."""

THROTTLE_BITS = {0: "under_voltage", 1: "clock_capped", 2: "throttled", 3: "soft_temp_limit"}
LATCHED_BIT = 16

_FIELD = re.compile(
    r"(?P<name>\w{1,40})_(?P<kind>[AV]) +(?:current|volt)\(\d{1,3}\)=(?P<value>\d{1,6}(?:\.\d{1,12})?)(?P<unit>[AV])",
    re.ASCII,
)
_THROTTLED = re.compile(r"(?:throttled=)?(?:0x)?(?P<hex>[0-9a-fA-F]{1,8})", re.ASCII)


def parse_pmic(text: str) -> Parsed:
    """Return voltage, current and power of each rail and the estimated power of the board."""
    parsed = Parsed()
    rails: Dict[str, Dict[str, Tuple[float, str]]] = {}
    for row in rows(text, parsed):
        match = _FIELD.fullmatch(row)
        if match is None or match["kind"] != match["unit"]:
            parsed.note(row)
            continue
        rail, value = word(match["name"]), number(match["value"])
        quantity = ("current_a", "A") if match["kind"] == "A" else ("voltage_v", "V")
        parsed.add(f"{rail}.{quantity[0]}", value, quantity[1], row)
        rails.setdefault(rail, {}).setdefault(match["kind"], (value, row))
    powers = []
    for rail, pair in rails.items():
        if "A" in pair:  # a voltage alone (the input, the clock's battery) is no rail
            powers.append(pair["A"][0] * pair["V"][0] if "V" in pair else math.nan)
            parsed.add(f"{rail}.power_w", powers[-1], "W", pair["A"][1])
    if powers:
        slope, offset_w = ESTIMATE
        parsed.add("board.power_w", slope * sum(powers) + offset_w, "W", text.strip()[:40])
    return parsed


def parse_throttled(text: str) -> Parsed:
    """Return each throttle bit as 0 or 1; bits without a meaning are notes."""
    parsed = Parsed()
    raw = text[:200].strip(" \t\r\n\0")
    match = _THROTTLED.fullmatch(raw)
    if match is None:
        parsed.note(raw)
        return parsed
    bits = int(match["hex"], 16)
    for bit, name in THROTTLE_BITS.items():
        parsed.add(f"throttle.{name}", float(bits >> bit & 1), "1", raw)
        parsed.add(f"throttle.{name}_latched", float(bits >> (bit + LATCHED_BIT) & 1), "1", raw)
        bits &= ~(1 << bit | 1 << (bit + LATCHED_BIT))
    if bits:
        parsed.note(f"throttle bits {bits:#x}")
    return parsed


class Throttle:
    """The throttle bits in the firmware's sysfs file."""

    interval_ns = 100_000_000  # a question to the firmware

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        self._keys = list(parse_throttled("0").values)
        covers = "1 while the firmware slows the board down or sees too low a voltage; latched: since the start"
        self.channels = tuple(Channel(key, "1", str(file.path), covers) for key in self._keys)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the bits."""
        values = parse_throttled((self.file.read() or b"").decode("ascii", "replace")).values
        return [values[key].value if key in values else math.nan for key in self._keys]


def throttle_file(root: Path) -> Path:
    """Return the file of the firmware driver's throttle bits."""
    found = sorted((root / "sys/devices/platform").glob("soc*/*firmware/get_throttled"))
    return found[0] if found else root / "sys/devices/platform/soc/soc:firmware/get_throttled"


def throttle(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return the throttle bits of a Raspberry Pi."""
    path = throttle_file(root)
    try:
        return [Throttle(KernelFile(path))], []
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [Channel("throttle.throttled", "1", str(path), absent=why_unreadable(error, path))]
