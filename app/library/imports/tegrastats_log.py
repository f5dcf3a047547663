"""A log of NVIDIA tegrastats as samples of channels: lines with a second's date, or at a stated interval."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from app.agent.sensors.tegrastats import parse

USUAL_INTERVAL_S = 1.0  # of tegrastats without --interval
FEWEST_VALUES = 3
"""Values from which on a line is one of tegrastats."""

_DATE = re.compile(r"\s*(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d)\b")


@dataclass(frozen=True, slots=True)
class TegrastatsLog:
    """Samples in the order of the lines."""

    time_s: NDArray[np.float64]  # (n,), from 0
    channels: tuple[tuple[str, str], ...]  # (m,) key, unit
    values: NDArray[np.float64]  # (n, m), NaN where a line has none
    interval_s: float  # between lines
    began: datetime | None  # by the board's local clock, taken as UTC; None without dates
    left_out: tuple[int, ...]  # numbers of lines that are not of tegrastats


def is_tegrastats(text: str) -> bool:
    """Return whether the first line that is not empty is one of tegrastats."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return len(parse(first).values) >= FEWEST_VALUES and "RAM " in first


def read_log(text: str, interval_s: float | None = None) -> TegrastatsLog:
    """Read a log.

    Parameters
    ----------
    text : str
    interval_s : float, optional
        Time between lines [s]. By default the mean one of the dates, or tegrastats' usual one without dates.

    Raises
    ------
    ValueError
        Fewer than two lines are of tegrastats.
    """
    dates, rows, left_out = list[datetime | None](), list[dict[str, float]](), list[int]()
    units: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = parse(line)
        if len(found.values) < FEWEST_VALUES:
            left_out.append(number)
            continue
        for key, reading in found.values.items():
            units.setdefault(key, reading.unit)
        rows.append({key: reading.value for key, reading in found.values.items()})
        dates.append(_date(line))
    if len(rows) < 2:
        raise ValueError(f"tegrastats: got {len(rows)} lines of it, expected two or more")
    time_s, step_s = _times(dates, interval_s)
    values = np.array([[row.get(key, np.nan) for key in units] for row in rows])
    return TegrastatsLog(time_s, tuple(units.items()), values, step_s, dates[0], tuple(left_out))


def _date(line: str) -> datetime | None:
    match = _DATE.match(line)
    try:
        return datetime.strptime(match[1], "%m-%d-%Y %H:%M:%S").replace(tzinfo=UTC) if match else None
    except ValueError:
        return None


def _times(dates: list[datetime | None], interval_s: float | None) -> tuple[NDArray[np.float64], float]:
    """Return the time of each line: even steps, within the second of its date where it has one."""
    n, first, last = len(dates), dates[0], dates[-1]
    span_s = 0.0 if first is None or last is None else (last - first) / timedelta(seconds=1)
    step_s = interval_s or (span_s / (n - 1) if span_s >= 2.0 else USUAL_INTERVAL_S)
    time_s = np.zeros(n)
    for i in range(1, n):
        at, date = time_s[i - 1] + step_s, dates[i]
        if first is not None and date is not None:
            second_s = (date - first) / timedelta(seconds=1)
            if second_s > at or second_s + 1.0 < at:  # a gap, or a drift of the steps
                at = max(second_s, float(np.nextafter(time_s[i - 1], np.inf)) + 1e-3)
        time_s[i] = at
    return time_s, step_s
