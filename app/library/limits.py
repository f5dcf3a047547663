"""The limits a user sets on latency, power and accuracy."""

from __future__ import annotations

from dataclasses import dataclass

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
