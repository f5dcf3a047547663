"""Horizon (D-Robotics) boards: hrut_somstatus, which needs root, and the load of each BPU core in sysfs.

The tool prints sections with a line of column names. Clocks are in kHz on the S100; on the X5 they are in MHz, the
columns are called ``min(M)``, and a broken echo puts ``-e`` before the lines. There is no power.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import List, Sequence, Tuple

from app.agent.channel import Channel, Gauge, Sensor, word
from app.agent.files import KernelFile, why_unreadable
from app.agent.sensors.reading import Parsed, number, rows

ARGV = ("hrut_somstatus",)

_SECTION = re.compile(r"(?P<name>[A-Za-z][\w ]{0,60}?) ?-+>", re.ASCII)
_VALUE = re.compile(r"(?P<name>[\w ]{1,40}?) *: *(?P<value>-?\d+(?:\.\d+)?) *\((?P<unit>C|mV|V)\)", re.ASCII)
_ROW = re.compile(r"(?P<name>[\w ]{1,40}?) *: *(?P<values>\d+(?:\s+\d+){0,5})", re.ASCII)
_COLUMN = re.compile(r"(?:min|cur|max|ratio)(?:\(M\))?", re.ASCII)
_UNITS = {"C": ("temp_c", "degC", 1.0), "mV": ("voltage_v", "V", 1e-3), "V": ("voltage_v", "V", 1.0)}
_RATIO_NS = 20_000_000


def parse(text: str) -> Parsed:
    """Return the fields of the whole output."""
    parsed = Parsed()
    columns: List[str] = []
    for line in rows(text, parsed):
        row = re.sub(r"^-e\s+", "", line)
        if row.strip("=").isdigit():
            continue
        words = row.split()
        if len(row) < 100 and all(_COLUMN.fullmatch(word) for word in words):
            columns = words
        elif _SECTION.fullmatch(row):
            columns = []
        elif not _take(row, columns, parsed):
            parsed.note(row)
    return parsed


def _take(row: str, columns: Sequence[str], parsed: Parsed) -> bool:
    if len(row) > 200:
        return False
    single = _VALUE.fullmatch(row)
    if single is not None:
        name = word(single["name"])
        quantity, unit, scale = _UNITS[single["unit"]]
        if name == "fake":  # the tool's own name for an input that is not connected
            return False
        parsed.add(f"{name}.{quantity}", number(single["value"]) * scale, unit, single["value"])
        return True
    several = _ROW.fullmatch(row)
    if several is None or len(several["values"].split()) != len(columns):
        return False
    for column, raw in zip(columns, several["values"].split()):
        _cell(word(several["name"]), column, raw, parsed)
    return True


def _cell(name: str, column: str, raw: str, parsed: Parsed) -> None:
    if column == "ratio":
        share = number(raw) / 100
        parsed.add(f"{name}.busy_frac", share if share <= 1 else math.nan, "frac", raw)
    elif column.startswith("cur"):
        parsed.add(f"{name}.clock_hz", number(raw) * (1e6 if column.endswith("(M)") else 1e3), "Hz", raw)
    else:
        key = f"{name}.{column[:3]}_clock_hz"
        parsed.add(key, number(raw) * (1e6 if column.endswith("(M)") else 1e3), "Hz", raw)


def bpu(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return the load of each core of the BPU."""
    sensors: List[Sensor] = []
    absent: List[Channel] = []
    for path in sorted((root / "sys/devices/system/bpu").glob("bpu[0-9]*/ratio")):
        channel = Channel(f"{word(path.parent.name)}.busy_frac", "frac", str(path), error=0.01)
        try:
            sensors.append(Gauge(channel, KernelFile(path), 0.01, (0.0, 1.0), _RATIO_NS))
        except OSError as error:
            channel.absent = why_unreadable(error, path)
            absent.append(channel)
    return sensors, absent
