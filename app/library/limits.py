"""The limits a user sets on latency, power and accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

LIMITS = {
    "limits.latency": "latency_s",
    "limits.power": "power_w",
    "limits.accuracy": "top1_agreement",
}
"""Path -> field of `Limits`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits; None is no limit."""

    latency_s: float | None = None  # per token, at most
    power_w: float | None = None  # at most
    top1_agreement: float | None = None  # share of tokens, at least


def checked_limit(path: str, value: Any) -> float | None:
    """Return a limit as `Limits` stores it.

    Raises
    ------
    ValueError
        One sentence naming the path, the value and what was expected.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0 or not math.isfinite(value):
        raise ValueError(f"{path} is {value!r}: expected a number above 0, or none")
    if path == "limits.accuracy" and value > 1:
        raise ValueError(f"{path} is {value:g}: expected a share of tokens, 0 < limit <= 1")
    return float(value)


def check_limits(limits: Limits) -> None:
    """Check all three limits.

    Raises
    ------
    ValueError
        As `checked_limit`, for the first that is wrong.
    """
    for path, name in LIMITS.items():
        checked_limit(path, getattr(limits, name))
