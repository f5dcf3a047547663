"""Parsed text of a tool: values with their source characters, and the unparsed rest."""

from __future__ import annotations

import math
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

MAX_FIELDS = 1024
MAX_NOTES = 64
MAX_NOTE_CHAR = 200
MAX_ROWS = 1000
MAX_ROW_CHAR = 1000

POWER, HEAT_AND_CLOCK, OTHER, CORE_CLOCK, CORE = range(5)
"""Order in which channels get room: power first, the values of single cores last."""

_ROOM = {POWER: 2.0, HEAT_AND_CLOCK: 1.5, OTHER: 1.0, CORE_CLOCK: 0.875, CORE: 0.875}
_CORE = re.compile(r"(?:coretemp\.)?(?:cpu|core|thread)_?\d+(?:[._]|$)", re.ASCII)
_MACHINE = ("cpu.", "memory.")  # of all processors, and the free memory
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)


class Reading(NamedTuple):
    """One value in SI, NaN where the source says that it has none, and the characters it was read from."""

    value: float
    unit: str
    raw: str


def importance(key: str, unit: str) -> int:
    """Return how much a channel matters: 0 is power, the largest number is what single cores say of themselves.

    Examples
    --------
    >>> [importance("cpu.power_w", "W"), importance("gpu.temp_c", "degC"), importance("cpu_31_idle_share.frac", "1")]
    [0, 1, 4]
    """
    if unit == "W" and key.endswith("power_w"):
        return POWER
    if _CORE.match(key):
        return CORE_CLOCK if unit == "Hz" else CORE
    return HEAT_AND_CLOCK if unit in ("degC", "Hz") or key.startswith(_MACHINE) else OTHER


def room(key: str, unit: str, most: int) -> int:
    """Return how many channels leave room for this one, where `most` leave room for one that is neither power nor core.

    The places beyond are for temperatures and clocks, and for power, which may come last: the values of many cores
    never take them.
    """
    return int(_ROOM[importance(key, unit)] * most)


class Parsed:
    """The fields of one output, in its order, and the `notes`: everything that was not understood, word by word.

    A field that comes twice keeps its first value, and the second one becomes a note. Fields in `missing` are those of
    which the source says that it never has a value (``[N/A]``), unlike a block that is off now. Fields in `left_out`
    are those for which there was no `room`.
    """

    def __init__(self) -> None:
        self.values: Dict[str, Reading] = {}
        self.missing: Dict[str, Reading] = {}
        self.notes: List[str] = []
        self.left_out: Set[str] = set()

    def add(self, key: str, value: float, unit: str, raw: str) -> None:
        """Take a field."""
        if key in self.values:
            self.note(raw)
        elif len(self.values) >= room(key, unit, MAX_FIELDS):
            self.left_out.add(key)
        else:
            self.values[key] = Reading(value, unit, raw)

    def miss(self, key: str, unit: str, raw: str) -> None:
        """Take a field that has no value here."""
        if len(self.missing) < MAX_FIELDS:
            self.missing.setdefault(key, Reading(math.nan, unit, raw))

    @property
    def full(self) -> bool:
        """True when no more values are accepted, of power neither; no real output has so many."""
        return len(self.values) >= _ROOM[POWER] * MAX_FIELDS

    def note(self, raw: str) -> None:
        """Keep what was not understood; the last note takes the rest when there are too many."""
        raw = raw.strip()
        if not raw:
            return
        if len(self.notes) < MAX_NOTES:
            self.notes.append(shortened(raw))
        elif len(self.notes[-1]) < MAX_NOTE_CHAR:
            self.notes[-1] = shortened(self.notes[-1] + " " + raw)


def rows(text: str, parsed: Parsed) -> Iterator[str]:
    """Give the lines of a table without their ends and the blank ones; what no table holds becomes a note."""
    lines = text.split("\n", MAX_ROWS)
    if len(lines) > MAX_ROWS:
        parsed.note(lines.pop())
    for line in lines:
        if len(line) > MAX_ROW_CHAR or parsed.full:
            parsed.note(line)
        elif line and not line.isspace():
            yield line.strip()


def row_pairs(
    text: str, parsed: Parsed, first: "re.Pattern[str]", second: "re.Pattern[str]", heading: "re.Pattern[str]"
) -> "Iterator[Tuple[re.Match[str], re.Match[str]]]":
    """Yield the two rows of each entry of a boxed table, as matched; other rows but headings are noted."""
    above: "Optional[re.Match[str]]" = None
    for line in rows(text, parsed):
        row = line.strip("|").strip()
        if set(row) <= set("+-=| ") or heading.match(row):
            continue
        begins = first.fullmatch(row)
        below = None if begins or above is None else second.fullmatch(row)
        if begins is not None:
            above = begins
        elif above is not None and below is not None:
            yield above, below
            above = None
        else:
            parsed.note(row)


def shortened(raw: str) -> str:
    """Return the text, or its beginning and how much more there was."""
    if len(raw) <= MAX_NOTE_CHAR:
        return raw
    return f"{raw[: MAX_NOTE_CHAR - 30]} ... ({len(raw)} characters)"


def number(raw: str) -> float:
    """Return the plain decimal that `raw` is, NaN where it is anything else (a comma decimal, ``[N/A]``, masked)."""
    return float(raw) if _DECIMAL.fullmatch(raw) else math.nan
