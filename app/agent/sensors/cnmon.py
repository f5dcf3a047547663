"""cnmon: the table of Cambricon cards, two lines a card, whose columns differ between versions 4 and 5.

What is no measurement is left out: firmware, driver, bus, ECC and modes, and the virtual memory of version 4.
"""

from __future__ import annotations

import math
import re

from app.agent.sensors.reading import Parsed, number, row_pairs

ARGV = ("cnmon",)

_FIRST = re.compile(r"(?P<card>\d{1,4}) +\S+ +(?P<name>\S+) +\S+ *\|[^|]{1,60}\| *(?P<load>\S+?)%? +\S+", re.ASCII)
_SECOND = re.compile(
    r"(?P<fan>\S+?)%? +(?P<temp>\S+?)C +(?P<power>\S+) W/ *(?P<cap>\S+) W *\| *(?P<used>\S+) MiB/ *(?P<total>\S+) MiB"
    r" *\|[^|]{1,60}",
    re.ASCII,
)
_HEADING = re.compile(r"CNMON v|Card  +VF|Fan  +Temp|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z]|Processes|No running")
_PROCESSES = re.compile(r"^.*\bProcesses\b", re.M)
_MIB = 1024.0**2


def parse(text: str) -> Parsed:
    """Return the fields of the whole table; digits that are masked (``xxxxx``) are NaN."""
    parsed = Parsed()
    for first, second in row_pairs(_PROCESSES.split(text, maxsplit=1)[0], parsed, _FIRST, _SECOND, _HEADING):
        _card(first, second, parsed)
    return parsed


def _card(first: "re.Match[str]", second: "re.Match[str]", parsed: Parsed) -> None:
    card = f"mlu{first['card']}"
    load, fan = number(first["load"]) / 100, number(second["fan"]) / 100
    parsed.add(f"{card}.busy_frac", load if 0 <= load <= 1 else math.nan, "frac", first["load"])
    parsed.add(f"{card}.fan_frac", fan, "frac", second["fan"])
    parsed.add(f"{card}.temp_c", number(second["temp"]), "degC", second["temp"])
    parsed.add(f"{card}.power_w", number(second["power"]), "W", second["power"])
    parsed.add(f"{card}.cap_w", number(second["cap"]), "W", second["cap"])
    parsed.add(f"{card}.memory.used_byte", number(second["used"]) * _MIB, "byte", second["used"])
    parsed.add(f"{card}.memory.total_byte", number(second["total"]) * _MIB, "byte", second["total"])
