"""What the measured run needs of an operating point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernels import cache, linear, policies, pruning


@dataclass(frozen=True, slots=True)
class Point:
    """A checked operating point."""

    weights: str
    kv: str
    context_tokens: int
    alpha: float
    policy: str
    layout: str

    @classmethod
    def checked(cls, point: Mapping[str, Any], max_context_tokens: int) -> Point:
        """Check a point; ValueError in one sentence when the run cannot apply it."""
        for name, allowed in (
            ("weights", linear.FORMATS),
            ("kv", cache.FORMATS),
            ("policy", policies.POLICIES),
            ("layout", pruning.LAYOUTS),
        ):
            if point.get(name) not in allowed:
                raise ValueError(f"{name}: got {point.get(name)!r}, expected one of {', '.join(allowed)}")
        context, alpha = (_number(point.get(name), name) for name in ("context_tokens", "alpha"))
        if not (context.is_integer() and 2 <= context <= max_context_tokens):
            raise ValueError(f"context_tokens: got {context:g}, expected a whole number from 2 to {max_context_tokens}")
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha: got {alpha:g}, expected 0 <= alpha < 1")
        return cls(point["weights"], point["kv"], int(context), alpha, point["policy"], point["layout"])

    @property
    def is_reference(self) -> bool:
        """Whether accuracy is measured against this very point: full precision, nothing pruned."""
        return (self.weights, self.kv, self.alpha) == ("fp32", "fp32", 0)


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: got {value!r}, expected a finite number")
    return float(value)
