"""Interval scale: the factor on the width of intervals, and the held-out scores that it follows from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """Width of intervals over the width that follows from the parameters' covariance and the scatter, > 0."""

    decode: float = 1.0  # of decode times, for models that were measured on the board
    ttft: float = 1.0
    decode_other: float = 1.0  # for all other models
    ttft_other: float = 1.0


UNSCALED = IntervalScale()
"""The model's own intervals."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Scores of boards in published tables, each predicted without its rows (`core.predict.conformal`)."""

    scores: Mapping[str, Mapping[str, tuple[float, ...]]]  # by quantity and bucket, ascending quantiles
