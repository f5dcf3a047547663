"""macOS powermetrics: blocks of lines ``CPU Power: 823 mW``; needs root.

The power of the GPU is printed twice with two values (in the processor's section and in the GPU's own): the first one
goes with the combined power, the second is kept apart. Older releases have no combined line; the unit may be W.
"""

from __future__ import annotations

import re

from app.agent.channel import word
from app.agent.files import AS_ROOT
from app.agent.sensors.reading import MAX_NOTE_CHAR, Parsed, number, rows

ARGV = ("powermetrics", "--samplers", "cpu_power,gpu_power,thermal", "-i", "200")
ARGV_CPU = ("powermetrics", "--samplers", "cpu_power", "-i", "200")
"""Command for releases that know no other sampler."""

REFUSALS = ((r"must be invoked as the superuser", f"needs root: powermetrics answers root only; {AS_ROOT}"),)
BLOCK = "*** Sampled system activity"
"""Begins each sample."""

_FIELD = re.compile(
    r"(?P<name>[A-Za-z][^:]{0,80}?) *: *(?P<value>\d*\.?\d+) ?(?P<unit>mW|W|MHz|%)(?: \(.{0,2000}\))?", re.ASCII
)
_HEADING = re.compile(r"\*|Machine model:|OS version:|Boot arguments:|Boot time:")
_COMBINED = "Combined Power"
_UNITS = {"mW": ("W", 1e-3), "W": ("W", 1.0), "MHz": ("Hz", 1e6), "%": ("frac", 0.01)}
_SUFFIX = {"W": "power_w", "Hz": "clock_hz", "frac": "frac"}


def parse(text: str) -> Parsed:
    """Return the fields of one block."""
    parsed = Parsed()
    for row in rows(text, parsed):
        if _HEADING.match(row):
            continue
        match = _FIELD.fullmatch(row)
        if match is None:
            parsed.note(row)
            continue
        unit, scale = _UNITS[match["unit"]]
        raw = match["value"] if match["value"][0] != "." else "0" + match["value"]
        key = f"{_subject(match['name'], unit)}.{_SUFFIX[unit]}"
        if key == "gpu.power_w" and key in parsed.values:
            key = "gpu_own.power_w"
        parsed.add(key, number(raw) * scale, unit, row[:MAX_NOTE_CHAR])
    return parsed


def _subject(name: str, unit: str) -> str:
    if name.startswith(_COMBINED):
        return "combined"
    if unit == "W":
        name = re.sub(r" [Pp]ower\b.*", "", name)
    if unit == "Hz":
        name = re.sub(r" frequency$", "", name)
    return word(name)
