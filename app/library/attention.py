"""Measured attention of a model: the largest prune rate that keeps a given attention mass."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from app.library.measurements import Measurement
from core.spec import OperatingPoint


class _Record(msgspec.Struct):
    n_tokens: int
    keep_shares: list[float]
    retained_mass: list[float]


@dataclass(frozen=True, slots=True)
class RetainedMass:
    """Attention mass of the heaviest tokens by the share of tokens kept, both rising to 1."""

    n_tokens: int
    keep_shares: tuple[float, ...]
    retained_mass: tuple[float, ...]

    def r_max(self, dropped_mass: float) -> float:
        """Return the largest share of tokens whose removal leaves a mass of ``1 - dropped_mass``."""
        shares, masses = (0.0, *self.keep_shares), (0.0, *self.retained_mass)
        return float(np.clip(1.0 - np.interp(1.0 - dropped_mass, masses, shares), 0.0, 1.0))


def nearest(measurements: Iterable[Measurement], point: OperatingPoint) -> RetainedMass | None:
    """Return the measured attention of the point's model on its board at the nearest context, the newest of several."""
    found: RetainedMass | None = None
    best = math.inf
    for measurement in measurements:
        record = measurement.body.get("attention")
        at = measurement.point
        if record is None or (at.board, at.model) != (point.board, point.model):
            continue
        try:
            known = msgspec.convert(record, _Record)
        except msgspec.ValidationError:
            continue
        off = abs(math.log(max(known.n_tokens, 1) / max(float(point.context_tokens), 1.0)))
        if off <= best and len(known.keep_shares) == len(known.retained_mass) > 0:
            found, best = RetainedMass(known.n_tokens, tuple(known.keep_shares), tuple(known.retained_mass)), off
    return found
