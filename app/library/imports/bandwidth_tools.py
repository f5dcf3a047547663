"""Memory bandwidth that STREAM or lmbench's bw_mem printed.

STREAM counts 1 MB/s as 1e6 byte/s and prints the best rate with the mean, least and longest time of a kernel;
``bw_mem`` prints a size in MB and a rate in MB/s a line, of one run each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_MB = 1e6
_LEAST_MB_S, _MOST_MB_S = 1.0, 1e8
_LEAST_SIZE_MB = 32.0  # smaller buffers fit into caches
_KERNEL = re.compile(r"^\s*(Copy|Scale|Add|Triad):\s*(.*)$", re.M)
_BW_MEM = re.compile(r"^\s*(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)\s*$")
_STREAM_LINE = "Copy: rate, then average, least and longest time, such as Copy: 12345.6 0.0131 0.0130 0.0135"


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """A bandwidth [byte/s] with its interval, and what it is."""

    tool: str
    median: float
    q05: float
    q95: float
    n: int
    notes: tuple[str, ...] = ()


def read(text: str) -> Bandwidth | None:
    """Return the bandwidth in a text, or None where it is neither of STREAM nor of bw_mem.

    Raises
    ------
    ValueError
        One sentence: the line that is damaged, and what was expected.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if any(_KERNEL.match(line) for line in lines) or "STREAM version" in text:
        return _stream(text)
    if lines and all(re.match(r"^\s*[\d.]+\s+\S+\s*$", line) for line in lines):
        return _bw_mem(lines)
    return None


def _stream(text: str) -> Bandwidth:
    copies = [found for found in _KERNEL.finditer(text) if found[1] == "Copy"]
    if not copies:
        raise ValueError("STREAM's output has no line Copy: expected its whole output")
    rates = list[float]()
    for found in copies:
        number = text.count("\n", 0, found.start(2)) + 1
        rates += _rates(number, found[2])
    note = "STREAM's Copy counts what is read and what is written; reading alone may reach more"
    return _bandwidth("STREAM Copy", rates, len(copies), (note,))


def _rates(line: int, rest: str) -> list[float]:
    """Return the rate of the best, the mean and the worst repeat of a kernel [byte/s]."""
    try:
        best, mean_s, least_s, longest_s = (float(word) for word in rest.split())
    except ValueError:
        raise ValueError(f"line {line}: got {rest[:80]!r}, expected {_STREAM_LINE}") from None
    whole = all(math.isfinite(value) and value > 0 for value in (best, mean_s, least_s, longest_s))
    if not (whole and least_s <= mean_s <= longest_s and _LEAST_MB_S <= best <= _MOST_MB_S):
        raise ValueError(f"line {line}: got {rest[:80]!r}, expected {_STREAM_LINE}, with times in this order")
    return [best * _MB, best * _MB * least_s / mean_s, best * _MB * least_s / longest_s]


def _bw_mem(lines: Sequence[str]) -> Bandwidth:
    rates, small = list[float](), 0
    for i, line in enumerate(lines, 1):
        found = _BW_MEM.match(line)
        size, rate = (float(found[1]), float(found[2])) if found else (0.0, math.nan)
        if not (size > 0 and _LEAST_MB_S <= rate <= _MOST_MB_S):
            expected = "a size in MB and a rate in MB/s as bw_mem prints them, such as 536.87 10234.56"
            raise ValueError(f"line {i}: got {line.strip()[:80]!r}, expected {expected}")
        if size < _LEAST_SIZE_MB:
            small += 1
        else:
            rates.append(rate * _MB)
    if not rates:
        raise ValueError(
            f"bw_mem measured buffers below {_LEAST_SIZE_MB:.0f} MB, which fit into caches: expected a larger one, "
            "such as bw_mem 512M rd"
        )
    notes: tuple[str, ...] = ("bw_mem does not print what it ran: it is taken as reading (rd)",)
    if small:
        notes += (f"left out: {small} of {len(lines)} sizes, below {_LEAST_SIZE_MB:.0f} MB",)
    return _bandwidth("lmbench bw_mem", rates, len(rates), notes)


def _bandwidth(tool: str, rates: Sequence[float], n: int, notes: tuple[str, ...]) -> Bandwidth:
    ranked = sorted(rates)
    middle = len(ranked) // 2
    median = ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2.0
    return Bandwidth(tool, median, ranked[0], ranked[-1], n, notes)
