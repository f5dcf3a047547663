"""nvidia-smi as a long-running table: one CSV line a GPU and period.

``power.draw`` is a mean over one second from Ampere on (not on GA100), so ``power.draw.instant`` is requested too; A100
and H100 sample a quarter of the time (arXiv:2312.02741). On a Jetson most fields are ``[N/A]``.
"""

from __future__ import annotations

import math
from typing import List, Sequence

from app.agent.channel import word
from app.agent.sensors.reading import MAX_FIELDS, Parsed, number

FIELDS = (
    *("index", "power.draw.instant", "power.draw.average", "power.draw", "clocks.sm", "clocks.mem"),
    *("utilization.gpu", "utilization.memory", "memory.used", "memory.total", "temperature.gpu"),
)
BASIC_FIELDS = ("index", "power.draw", "clocks.sm", "clocks.mem", "utilization.gpu", "memory.used", "temperature.gpu")
"""What drivers from before 2023 know: they refuse the whole query for one name that is new to them."""

REFUSALS = (
    (r"couldn't communicate with the NVIDIA driver", "the NVIDIA driver does not run: type sudo modprobe nvidia"),
    (
        r"[Dd]river/library version mismatch",
        "the NVIDIA driver was renewed and the old one still runs: restart the board",
    ),
    (r"No devices were found", "the NVIDIA driver finds no card"),
)
_QUANTITIES = {
    "power.draw.instant": ("power_w", "W"),
    "power.draw.average": ("mean.power_w", "W"),
    "power.draw": ("smoothed.power_w", "W"),
    "clocks.sm": ("clock_hz", "Hz"),
    "clocks.current.sm": ("clock_hz", "Hz"),
    "clocks.mem": ("memory.clock_hz", "Hz"),
    "clocks.current.memory": ("memory.clock_hz", "Hz"),
    "utilization.gpu": ("busy_frac", "frac"),
    "utilization.memory": ("memory.busy_frac", "frac"),
    "memory.used": ("memory.used_byte", "byte"),
    "memory.total": ("memory.total_byte", "byte"),
    "temperature.gpu": ("temp_c", "degC"),
}
_SCALE = {
    "W": {"W": 1.0, "mW": 1e-3},
    "Hz": {"MHz": 1e6},
    "frac": {"%": 0.01},
    "byte": {"MiB": 1024.0**2, "KiB": 1024.0},
    "degC": {"": 1.0},
}
"""What each unit may be written in; a value in another one is not understood."""

_NOT_GIVEN = (
    *("[N/A]", "N/A", "[Not Supported]", "Not Supported", "[Unknown Error]", "[GPU requires reset]", ""),
    *("[Insufficient Permissions]", "[Deprecated]", "Requested functionality has been deprecated"),
)


def argv(fields: Sequence[str]) -> List[str]:
    """Return the command."""
    return ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv", "--loop-ms=100"]


class Table:
    """Parses the lines in turn: the header names the columns of those after it."""

    def __init__(self) -> None:
        self._columns: List[str] = []

    def parse(self, line: str) -> Parsed:
        """Return the fields of one line, of none for the header."""
        parsed = Parsed()
        cells = [cell.strip() for cell in line.split(",", MAX_FIELDS)]  # headers carry a leading blank
        names = [cell.partition(" [")[0] for cell in cells]
        if "index" in names:
            self._columns = names
            return parsed
        if len(cells) != len(self._columns) or not cells[self._columns.index("index")].isdigit():
            parsed.note(line)
            return parsed
        gpu = f"gpu{cells[self._columns.index('index')]:.4}"
        for name, cell in zip(self._columns, cells):
            if name in _QUANTITIES:
                _take(parsed, gpu, name, cell)
            elif name != "index":
                parsed.note(f"{word(name)} {cell}")
        return parsed


def _take(parsed: Parsed, gpu: str, name: str, cell: str) -> None:
    quantity, unit = _QUANTITIES[name]
    raw, _, given = cell.partition(" ")
    value = number(raw) * _SCALE[unit].get(given, math.nan)
    if unit == "frac" and not 0 <= value <= 1:
        value = math.nan
    if cell in _NOT_GIVEN:
        parsed.miss(f"{gpu}.{quantity}", unit, cell or "an empty cell")
        return
    if math.isnan(value):
        parsed.note(cell)
    parsed.add(f"{gpu}.{quantity}", value, unit, cell)
