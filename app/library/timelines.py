"""Timelines: a graph of operations, a chain of stages or a set of tasks from a file, and the request of a point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from core.catalogue.inputs import Plan, TaskSet, read_plan, read_tasks, read_text
from core.catalogue.toml_files import parse
from core.physics.pipeline import chain_makespan, chain_starts, initiation_interval
from core.physics.realtime import Response, responses, simulate, utilisation
from core.physics.schedule import Schedule, Slack, list_schedule, slack
from core.predict.decoder_graph import decoder_graph
from core.spec import Catalogue, Estimate, OperatingPoint, Prediction

MOST_EVENTS = 1e5  # of a busy period that is simulated

EXAMPLES = ("schedule", "pipeline", "realtime")
"""Keys of the examples in the resources."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of operations on equal workers."""

    plan: Plan
    made: Schedule
    slack: Slack
    first_in_s: float  # end where ready operations start in the order given

    @property
    def meets_deadline(self) -> bool | None:
        """True if the end meets the deadline; None without a deadline."""
        return self.made.makespan_s <= self.plan.deadline_s if math.isfinite(self.plan.deadline_s) else None


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of stages with one engine each: start times of the first item's stages, true and as printed."""

    plan: Plan
    strict_starts: tuple[float, ...]
    printed_starts: tuple[float, ...]
    strict_makespan: float
    printed_makespan: float
    interval: float  # between items


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks of fixed priority on one processor; the simulation is None if it would take too long."""

    given: TaskSet
    worst: tuple[Response, ...]
    simulated_ns: tuple[int | None, ...]
    utilisation_frac: float


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the point: one prefill, then token after token; an absent prediction is None."""

    first_token_s: Estimate | None
    token_s: Estimate | None
    parts_s: dict[str, float]
    n_layers: int
    context_tokens: int
    deadline_s: float | None  # of a token


def timing_of_file(name: str) -> Graph | Chain | Tasks:
    """Read an example by key, or a file, and calculate its timeline.

    Raises
    ------
    ValueError
        One sentence: ``file: key: got X, expected Y``.
    """
    path = Path(str(files("resources").joinpath("examples", f"{name}.toml"))) if name in EXAMPLES else Path(name)
    if "task" in parse(path.name, read_text(path)):
        return _tasks(read_tasks(path))
    plan = read_plan(path)
    return _chain(plan) if plan.stages else _graph(plan)


def _graph(plan: Plan) -> Graph:
    deadline = plan.deadline_s if math.isfinite(plan.deadline_s) else None
    in_order = dict.fromkeys((operation.name for operation in plan.operations), 0.0)
    return Graph(
        plan,
        list_schedule(plan.operations, plan.n_workers),
        slack(plan.operations, deadline),
        list_schedule(plan.operations, plan.n_workers, rank=in_order).makespan_s,
    )


def model_plan(
    point: OperatingPoint,
    catalogue: Catalogue,
    prediction: Prediction,
    n_layers: int | None = 1,
    n_workers: int = 2,
    deadline_s: float | None = None,
) -> Plan:
    """Return the graph of a token of the point's model: one layer, more, or all (None).

    Raises
    ------
    ValueError
        The point has no decode time, or the model has fewer layers.
    """
    shape, weights = catalogue.models[point.model], catalogue.weight_formats[point.weights]
    n = shape.n_layers if n_layers is None else n_layers
    if not 1 <= n <= shape.n_layers:
        raise ValueError(f"layers: got {n}, expected 1 to {shape.n_layers}, those of {shape.name}")
    operations = decoder_graph(prediction, shape, weights, n)
    taken = "a token" if n == shape.n_layers else "one layer" if n == 1 else f"{n} layers"
    return Plan(f"{taken} of {shape.name}", operations, n_workers, math.inf if deadline_s is None else deadline_s)


def graph_of_point(
    point: OperatingPoint,
    catalogue: Catalogue,
    prediction: Prediction,
    deadline_s: float | None,
    n_layers: int | None = 1,
) -> Graph:
    """Return the schedule of the point's model on two engines; the deadline is that of a token, so of all layers.

    Raises
    ------
    ValueError
        As `model_plan`.
    """
    limit = deadline_s if n_layers is None else None
    return _graph(model_plan(point, catalogue, prediction, n_layers, deadline_s=limit))


def _chain(plan: Plan) -> Chain:
    overlap = plan.overlaps[1:]
    strict, printed = chain_starts(plan.lengths), chain_starts(plan.lengths, overlap)
    return Chain(
        plan,
        tuple(strict.tolist()),
        tuple(printed.tolist()),
        chain_makespan(plan.lengths, plan.n_items),
        chain_makespan(plan.lengths, plan.n_items, overlap),
        initiation_interval(plan.lengths),
    )


def _tasks(given: TaskSet) -> Tasks:
    worst = responses(given.tasks, given.switch_ns)
    simulated = list[int | None]()
    for i, found in enumerate(worst):
        n_events = (found.worst_ns or 0) * sum(1 / task.period_ns for task in given.tasks[: i + 1])
        quick = found.worst_ns is not None and n_events <= MOST_EVENTS
        simulated.append(simulate(given.tasks, i, given.switch_ns) if quick else None)
    return Tasks(given, tuple(worst), tuple(simulated), utilisation(given.tasks))


def request_of(
    point: OperatingPoint, catalogue: Catalogue, prediction: Prediction, deadline_s: float | None
) -> Request:
    """Return the predicted request of a point (scalars only)."""
    first, token = prediction.ttft_s, prediction.decode_s
    return Request(
        first if isinstance(first, Estimate) else None,
        token if isinstance(token, Estimate) else None,
        {name: float(part) for name, part in prediction.parts_s.items()},
        catalogue.models[point.model].n_layers,
        int(float(point.context_tokens)),
        deadline_s,
    )
