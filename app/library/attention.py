"""Measured attention of a model: the largest prune rate that keeps a given attention mass."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from app.library.measurements import Measurement
from core.articles.as_printed import article_a as as_printed
from core.physics.pruning import r_max_effective_support, r_max_entropy_bound
from core.spec import OperatingPoint


class _Record(msgspec.Struct):
    n_tokens: int
    keep_shares: list[float]
    retained_mass: list[float]
    sparse_share: float | None = None
    entropy_nat: float | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Largest prune rates by summaries of attention: of article A as published, by entropy, by effective support."""

    as_published: float  # sparsity x (1 - H / ln L)
    entropy: float  # safe for any distribution of that entropy
    effective_support: float  # a heuristic


@dataclass(frozen=True, slots=True)
class RetainedMass:
    """Attention mass of the heaviest tokens by the share of tokens kept, both rising to 1.

    `sparse_share` is the share of tokens that are hardly attended to, `entropy_nat` the entropy of the mass over
    positions, both means over heads; None in measurements of earlier versions.
    """

    n_tokens: int
    keep_shares: tuple[float, ...]
    retained_mass: tuple[float, ...]
    sparse_share: float | None = None
    entropy_nat: float | None = None

    def r_max(self, dropped_mass: float) -> float:
        """Return the largest share of tokens whose removal leaves a mass of ``1 - dropped_mass``."""
        shares, masses = (0.0, *self.keep_shares), (0.0, *self.retained_mass)
        return float(np.clip(1.0 - np.interp(1.0 - dropped_mass, masses, shares), 0.0, 1.0))

    def bounds(self, dropped_mass: float) -> Bounds | None:
        """Return bounds of r_max by sparsity and entropy alone; None where these were not measured."""
        if self.sparse_share is None or self.entropy_nat is None:
            return None
        published = float(as_printed.r_max(self.sparse_share, self.entropy_nat, self.n_tokens))
        return Bounds(
            published,
            float(r_max_entropy_bound(self.entropy_nat, self.n_tokens, dropped_mass)),
            float(r_max_effective_support(self.entropy_nat, self.n_tokens)),
        )


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
            shares, masses = tuple(known.keep_shares), tuple(known.retained_mass)
            found = RetainedMass(known.n_tokens, shares, masses, known.sparse_share, known.entropy_nat)
            best = off
    return found
