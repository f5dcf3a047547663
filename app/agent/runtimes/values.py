"""Reading numbers from what a runtime says: present and sane, or a sentence; never invented."""

from __future__ import annotations

import math
from typing import Any, Mapping, Optional

from app.agent.runtimes.outcome import Failed

MOST = 1 << 53
"""Largest count; beyond it, a float no longer holds every whole number."""


def number(record: Mapping[str, Any], name: str) -> float:
    """Return a member as a float, NaN when it is missing, not a finite number, or negative."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        value = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.nan
    return value if math.isfinite(value) and value >= 0 else math.nan


def count(record: Mapping[str, Any], name: str) -> Optional[int]:
    """Return a member as a count, None when it is missing or not a whole number from 0 to `MOST`."""
    value = number(record, name)
    return int(value) if value <= MOST and value == int(value) else None


def refuse_cached(n_cached: Optional[int], where: str) -> None:
    """Refuse a run whose prompt came out of a cache: its time to first token is not that of the prompt."""
    if n_cached:
        raise Failed(f"{where} took {n_cached} tokens of the prompt from its cache: the run is not a measurement")


def refuse_other_prompt(n_evaluated: Optional[int], n_sent: int, where: str) -> None:
    """Refuse a run that processed another number of prompt tokens than were sent."""
    if n_evaluated is not None and n_evaluated != n_sent:
        raise Failed(f"{where} processed {n_evaluated} prompt tokens of the {n_sent} that were sent")
