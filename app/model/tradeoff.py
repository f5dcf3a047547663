"""Alternatives to the operating point: every mix of formats and prune rates that its runtime takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.library.axes import axis_of
from app.library.limits import Limits
from core.predict.request import p99_s
from core.predict.sweep import FrontKnee, Sweep, front, front_knee, sweep
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Posterior, Provenance

Floats = NDArray[np.float64]

AGAINST = ("accuracy", "energy", "power", "memory")
"""Objectives (`core.predict.sweep.OBJECTIVES`) that latency can be set against."""
ALPHAS = np.linspace(0.0, 0.95, 20)
MOST_POINTS = 6000


@dataclass(frozen=True, slots=True)
class Trade:
    """All points tried, and the Pareto front in latency and the other objective."""

    points: tuple[OperatingPoint, ...]
    found: Sweep
    against: str
    on_front: NDArray[np.bool_]
    feasible: NDArray[np.bool_]  # keeps all limits that are set, as far as its values are known
    knee: FrontKnee | Absent


def trade(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, against: str, limits: Limits
) -> Trade:
    """Try every mix of weight format, KV format and prune rate, everything else as in the point (scalars only).

    Raises
    ------
    ValueError
        No point has the objective; one sentence with the reason.
    """
    axes = _axes(point, catalogue)
    found = sweep(point, axes, catalogue, lambda _: posterior)
    names = ("latency", against)
    columns = [found.axes[name] for name in axes]
    points = tuple(
        replace(point, **{name: _plain(value) for name, value in zip(axes, row, strict=True)})
        for row in zip(*columns, strict=True)
    )
    return Trade(points, found, against, front(found, names), _feasible(found, limits), front_knee(found, names))


def _axes(point: OperatingPoint, catalogue: Catalogue) -> dict[str, Sequence[Any]]:
    """Return the varied axes: formats that the runtime takes and that have a speed, and prune rates if it prunes."""
    knobs = catalogue.runtimes[point.runtime].knobs
    without_speed = {key for key, each in catalogue.weight_formats.items() if each.accuracy_only}
    axes: dict[str, Sequence[Any]] = {}
    for name, path in (("weights", "point.weights"), ("kv", "point.kv")):
        if name in knobs:
            axes[name] = [key for key, _ in axis_of(path, point, catalogue).options if key not in without_speed]
    rates = [*ALPHAS.round(3).tolist()]
    if "alpha" in knobs:
        axes["alpha"] = rates
    size = int(np.prod([len(values) for values in axes.values()], dtype=int))
    if size > MOST_POINTS:
        axes["alpha"] = rates[::4]
    return axes or {"weights": [point.weights]}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else float(value)


def _feasible(found: Sweep, limits: Limits) -> NDArray[np.bool_]:
    """Mask of points within the limits by their medians; an unknown value breaks no limit."""
    holds = np.ones(found.n, dtype=bool)
    for name, limit, sign in (
        ("decode_s", limits.latency_s, 1.0),
        ("power_w", limits.power_w, 1.0),
        ("top1_agreement", limits.top1_agreement, -1.0),
    ):
        if limit is not None:
            holds &= ~(sign * found.outputs[name].median > sign * limit)
    if limits.request_p99_s is not None:
        ttft, decode = (
            p99_s(Estimate(of.median, of.q05, of.q95, Provenance.PREDICTED))
            for of in (found.outputs[name] for name in ("ttft_s", "decode_s"))
        )
        holds &= ~(ttft + (limits.tokens - 1) * decode > limits.request_p99_s)
    return holds
