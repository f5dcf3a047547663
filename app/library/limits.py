"""The limits a user sets on latency, power and accuracy, on whole requests and on sustained operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from core.predict.request import ANSWER_TOKENS

LIMITS = {
    "limits.latency": "latency_s",
    "limits.power": "power_w",
    "limits.accuracy": "top1_agreement",
    "limits.request": "request_p99_s",
    "limits.answer": "answer_tokens",
    "limits.sustained": "sustained_tokens_s",
}
"""Path -> field of `Limits`."""

MOST_ANSWER_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits; None is no limit."""

    latency_s: float | None = None  # per token, at most
    power_w: float | None = None  # at most
    top1_agreement: float | None = None  # share of tokens, at least
    request_p99_s: float | None = None  # 99 % quantile of a whole request, at most
    answer_tokens: float | None = None  # of such a request; None is the usual number
    sustained_tokens_s: float | None = None  # at the end of sustained operation, at least

    @property
    def is_set(self) -> bool:
        """Whether any limit is set."""
        return any(getattr(self, name) is not None for name in LIMITS.values() if name != "answer_tokens")

    @property
    def tokens(self) -> float:
        """Tokens of the answer of a request."""
        return ANSWER_TOKENS if self.answer_tokens is None else self.answer_tokens


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
    if path == "limits.answer" and not (value == round(value) and 1 <= value <= MOST_ANSWER_TOKENS):
        raise ValueError(f"{path} is {value:g}: expected a whole number of tokens, 1 to {MOST_ANSWER_TOKENS}")
    return float(value)


def check_limits(limits: Limits) -> None:
    """Check all limits.

    Raises
    ------
    ValueError
        As `checked_limit`, for the first that is wrong.
    """
    for path, name in LIMITS.items():
        checked_limit(path, getattr(limits, name))
