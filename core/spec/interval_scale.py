"""How much wider intervals are made than the model's own, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntervalScale:
    """How many times as wide intervals are as the parameters' covariance and the scatter alone make them, > 0."""

    decode: float = 1.0  # of decode times of models that were measured on the board
    ttft: float = 1.0
    decode_other: float = 1.0  # of models that were not
    ttft_other: float = 1.0


UNSCALED = IntervalScale()
"""Intervals as the model has them."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How far published boards were from predictions made without their rows, see `core.predict.conformal`."""

    scores: Mapping[str, Mapping[str, tuple[float, ...]]]  # by quantity and bucket, ascending quantiles
