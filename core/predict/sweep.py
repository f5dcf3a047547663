"""Grids of operating points over any axes, Pareto fronts with their knees, and the largest context within limits.

Numeric axes are evaluated in one pass, named ones (formats, boards...) one value after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.physics import dvfs, objectives
from core.predict import options
from core.predict.request import ANSWER_TOKENS, request_p99_s
from core.predict.scenario import predict
from core.spec import BY_NAME, FIELDS, NUMERIC, Absent, Catalogue, OperatingPoint, Output, Posterior

Floats = NDArray[np.float64]

NAMED = tuple(field.name for field in FIELDS if not field.array)
OUTPUTS = (
    "decode_s",
    "ttft_s",
    "power_w",
    "energy_j_per_token",
    "perplexity_ratio",
    "top1_agreement",
    "memory_byte",
)
OBJECTIVES: Mapping[str, tuple[str, float]] = {
    "latency": ("decode_s", 1.0),
    "ttft": ("ttft_s", 1.0),
    "power": ("power_w", 1.0),
    "energy": ("energy_j_per_token", 1.0),
    "memory": ("memory_byte", 1.0),
    "perplexity": ("perplexity_ratio", 1.0),
    "accuracy": ("top1_agreement", -1.0),
}
"""Objectives by name: the output, and 1 where less is better or -1 where more is better."""


@dataclass(frozen=True, slots=True)
class Column:
    """One output of all points: median, interval and provenance, or the reason of absence; otherwise NaN and ""."""

    median: Floats
    q05: Floats
    q95: Floats
    provenance: NDArray[np.str_]
    absent: NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Sweep:
    """A grid of points: the value of each axis and the outputs, all of shape (n,), last axis fastest."""

    axes: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, Column]

    @property
    def n(self) -> int:
        """The number of points."""
        return len(self.outputs["decode_s"].median)


def sweep(
    point: OperatingPoint,
    axes: Mapping[str, Sequence[Any]],
    catalogue: Catalogue,
    posterior_of: Callable[[OperatingPoint], Posterior | None] | None = None,
    meant: Callable[[OperatingPoint], OperatingPoint] | None = None,
) -> Sweep:
    """Predict all combinations of the axes' values.

    Parameters
    ----------
    point : OperatingPoint
        Values of all fields that are no axis.
    axes : mapping
        Field of `OperatingPoint` to its values, at least one each.
    catalogue : Catalogue
    posterior_of : callable, optional
        Returns the posterior for a combination of the named axes.
    meant : callable, optional
        Returns a combination of the named axes with keys of the catalogue, where names are ambiguous between boards;
        the axes of the result have the keys.

    Raises
    ------
    ValueError
        An axis that is no field, an axis without values, or a point that cannot be predicted.
    """
    for name, values in axes.items():
        if name not in NUMERIC + NAMED:
            raise ValueError(f"axis {name!r} is none of {', '.join(NUMERIC + NAMED)}")
        if not len(values):
            raise ValueError(f"axis {name} has no values, expected at least one")
    named = {name: values for name, values in axes.items() if name in NAMED}
    numeric = {name: np.asarray(values, dtype=float) for name, values in axes.items() if name in NUMERIC}
    grid = dict(zip(numeric, np.meshgrid(*numeric.values(), indexing="ij"), strict=True)) if numeric else {}
    n_inner = int(np.prod([len(values) for values in numeric.values()], dtype=int))
    parts = []
    for combination in product(*named.values()):
        keys = dict(zip(named, combination, strict=True))
        here: Any = replace(point, **keys)
        if meant:
            here = meant(here)
            keys = {name: getattr(here, name) for name in named}
        posterior = posterior_of(here) if posterior_of else None
        swept = replace(here, **{name: values.reshape(-1) for name, values in grid.items()})
        parts.append((keys, predict(swept, catalogue, posterior)))
    columns = {name: _column([getattr(p, name) for _, p in parts], n_inner) for name in OUTPUTS}
    of_named = {name: np.repeat([keys[name] for keys, _ in parts], n_inner) for name in named}
    of_numeric = {name: np.tile(array.reshape(-1), len(parts)) for name, array in grid.items()}
    found = {name: of_named[name] if name in of_named else of_numeric[name] for name in axes}
    return _ordered(Sweep(found, columns), axes)


def _column(outputs: Sequence[Any], n: int) -> Column:
    def filled(name: str) -> Floats:
        found = [np.nan if isinstance(o, Absent) else getattr(o, name) for o in outputs]
        return np.concatenate([np.broadcast_to(np.asarray(value, dtype=float), (n,)) for value in found])

    provenance = np.repeat(["" if isinstance(o, Absent) else str(o.provenance.value) for o in outputs], n)
    absent = np.repeat([o.reason if isinstance(o, Absent) else "" for o in outputs], n)
    return Column(filled("median"), filled("q05"), filled("q95"), provenance, absent)


def _ordered(found: Sweep, axes: Mapping[str, Sequence[Any]]) -> Sweep:
    """Return the sweep with its points in the order of `axes`."""
    inner = [name for name in axes if name in NAMED] + [name for name in axes if name in NUMERIC]
    shape = [len(axes[name]) for name in inner]
    order = np.arange(found.n).reshape(shape).transpose([inner.index(name) for name in axes]).reshape(-1)
    outputs = {
        name: Column(*(getattr(column, f.name)[order] for f in fields(Column)))
        for name, column in found.outputs.items()
    }
    return Sweep({name: values[order] for name, values in found.axes.items()}, outputs)


def costs(found: Sweep, names: Sequence[str]) -> Floats:
    """Return the objectives of all points for minimisation, shape (n, len(names)).

    Raises
    ------
    ValueError
        A name that is no objective, or an objective that is absent at all points.
    """
    for name in names:
        if name not in OBJECTIVES:
            raise ValueError(f"objective {name!r} is none of {', '.join(OBJECTIVES)}")
    chosen = [(found.outputs[output], sign) for output, sign in (OBJECTIVES[name] for name in names)]
    for name, (column, _) in zip(names, chosen, strict=True):
        if np.isnan(column.median).all():
            raise ValueError(f"objective {name}: no point has it ({column.absent[0]})")
    return np.stack([sign * column.median for column, sign in chosen], axis=1)


def front(found: Sweep, names: Sequence[str]) -> NDArray[np.bool_]:
    """Return the mask of the Pareto front; points with an absent objective are not on it."""
    cost = costs(found, names)
    known = np.isfinite(cost).all(axis=1)
    on_front = np.zeros(len(cost), dtype=bool)
    on_front[known] = objectives.nondominated(cost[known])
    return on_front


def dominated_share(found: Sweep, names: Sequence[str]) -> float:
    """Return the share, 0 to 1, that the front dominates of the box between best and worst of each objective.

    Two or three objectives. It is 0 where an objective does not vary.
    """
    cost = costs(found, names)
    cost = cost[np.isfinite(cost).all(axis=1)]
    best, worst = cost.min(axis=0), cost.max(axis=0)
    if np.any(worst <= best):
        return 0.0
    return objectives.hypervolume((cost - best) / (worst - best), np.ones(cost.shape[1]))


@dataclass(frozen=True, slots=True)
class FrontKnee:
    """The knee of a front of two objectives."""

    index: int
    edge: bool  # at the end of a numeric axis that could be extended: the knee may lie beyond the swept range


def front_knee(found: Sweep, names: Sequence[str]) -> FrontKnee | Absent:
    """Return the knee of a front of two objectives: the point farthest from the line between its ends (Kneedle)."""
    if len(names) != 2:
        raise ValueError(f"knee of {len(names)} objectives, expected two")
    cost, on_front = costs(found, names), np.flatnonzero(front(found, names))
    ranked = on_front[np.argsort(cost[on_front, 0], kind="stable")]
    _, first = np.unique(cost[ranked, 0], return_index=True)
    ranked = ranked[first]
    if len(ranked) < 3:
        return Absent(f"the front has {len(ranked)} points, expected three for a knee")
    at = dvfs.kneedle(cost[ranked, 0], -cost[ranked, 1])
    if at is None:
        return Absent("the front is a straight line or bends the other way")
    index = int(ranked[at])
    return FrontKnee(index, any(_ends(name, values, index) for name, values in found.axes.items() if name in NUMERIC))


def _ends(name: str, values: Floats, index: int) -> bool:
    here, low, high = values[index], values.min(), values.max()
    return bool(low < high and (here == high or (here == low and low > BY_NAME[name].low)))


# --- limits -----------------------------------------------------------------------------------------------------------


def largest_context(
    point: OperatingPoint,
    catalogue: Catalogue,
    posterior: Posterior | None = None,
    *,
    latency_s: float | None = None,
    memory_byte: float | None = None,
    request_s: float | None = None,
    answer_tokens: float = ANSWER_TOKENS,
) -> int | Absent:
    """Return the largest context whose predicted times and memory keep all limits.

    Times and memory rise with the context, so bisection finds the exact result. The memory limit applies to the
    cache before pruning, since prefill fills all of it.

    Parameters
    ----------
    point : OperatingPoint
        Scalars only; its context is ignored.
    catalogue : Catalogue
    posterior : Posterior, optional
        As in `predict`.
    latency_s, memory_byte : float, optional
        Limits on the decode time of a token and on weights plus unpruned cache; None for no limit.
    request_s : float, optional
        Limit on the 99 % quantile of a request whose prompt is the context, see `core.predict.request` [s].
    answer_tokens : float
        Tokens of its answer, >= 1 [tokens].

    Returns
    -------
    int or Absent
        At most the context that the model was trained on; absent where one token already exceeds a limit, or where
        a time is absent and has a limit.
    """
    at = catalogue.resolve(point)
    most = int(at.model.max_context_tokens)

    def times(n: int) -> tuple[tuple[Output, float | None], ...]:
        found = predict(replace(point, context_tokens=float(n)), catalogue, posterior)
        request = request_p99_s(found.ttft_s, found.decode_s, answer_tokens)
        return (found.decode_s, latency_s), (request, request_s)

    for found, limit in times(1):
        if limit is not None and isinstance(found, Absent):
            return found

    def keeps(n: int) -> bool:
        held = options.memory_byte(point, at, float(n))
        if memory_byte is not None and held > memory_byte:
            return False
        return all(
            limit is None or isinstance(found, Absent) or float(found.median) <= limit for found, limit in times(n)
        )

    if not keeps(1):
        return Absent("not even one token of context keeps the limits")
    low, high = 1, most + 1
    if keeps(most):
        return most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
