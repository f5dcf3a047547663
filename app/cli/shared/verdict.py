"""The verdict on a point, as in the dashboard, and the largest prune rate that it may propose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.library.attention import nearest
from app.library.board_library import BoardLibrary
from app.library.prediction_curves import Mark, r_max
from core.predict.explain import Verdict, explain
from core.spec import Catalogue, OperatingPoint, Output, Posterior


def mark_of(
    point: OperatingPoint,
    catalogue: Catalogue,
    known: Posterior,
    library: BoardLibrary,
    top1_limit: float | None = None,
) -> Mark:
    """Return the largest prune rate, by the accuracy limit or by the attention measured on the point's board."""
    return r_max(point, catalogue, known, top1_limit, nearest(library.evidence(catalogue), point))


def verdict_of(
    point: OperatingPoint,
    catalogue: Catalogue,
    known: Posterior,
    library: BoardLibrary,
    limits: Mapping[str, Any] | None = None,
    sustained: Output | None = None,
) -> Verdict:
    """Return the verdict on a point (scalars only); limits and `sustained` as in `core.predict.explain.margins`."""
    limits = limits or {}
    return explain(
        point,
        catalogue,
        known,
        alpha_max=mark_of(point, catalogue, known, library, limits.get("accuracy_frac")).alpha,
        sustained=sustained,
        **limits,
    )
