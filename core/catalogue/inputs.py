"""Files that the user writes: workloads, schedules, task sets, scenarios, tables of operating points.

Each has a documented example in the resources. Checked strictly: ``file: key: got X, expected Y``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.catalogue.csv_rows import read_columns, rows_of
from core.catalogue.energy import DvfsTable, dvfs_table
from core.catalogue.expression import Expression
from core.catalogue.refusal import refusal
from core.catalogue.schemas import (
    ChainFile,
    GraphFile,
    OperationRow,
    OwnScenario,
    PlainOperation,
    TaskRow,
    TasksFile,
    WorkloadFile,
    within,
)
from core.catalogue.text_files import one_line_end, read_text_of
from core.catalogue.toml_files import converted, parse
from core.physics.objectives import Scenario
from core.physics.realtime import Task
from core.physics.schedule import FORMULAS, Operation

Floats = NDArray[np.float64]
_ANY = 1e18
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: phases of a length [s] with the share of time the board decodes, or the power recorded [W]."""

    name: str
    seconds: Floats
    load_frac: Floats  # empty where power was recorded
    power_w: Floats  # empty where load is given


def read_scenario(path: Path) -> Scenario:
    """Read the user's scenario."""
    return Scenario(key=path.stem, **converted(path.name, _document(path), OwnScenario).values())


def read_dvfs(path: Path) -> DvfsTable:
    """Read the user's table of operating points (TOML as in the resources, with sources)."""
    return dvfs_table(path.stem, path.name, _document(path))


def read_workload(path: Path) -> Workload:
    """Read a workload: TOML with [[phase]] tables, or CSV with ``time_s`` and ``load_frac`` or ``power_w``.

    A row of a CSV holds from its time until the next; the last row only ends the record.
    """
    if path.suffix.lower() == ".csv":
        return _recorded(path)
    made = converted(path.name, _document(path), WorkloadFile)
    seconds, load = np.array([(phase.seconds, phase.load_frac) for phase in made.phase]).T
    return Workload(made.name or path.stem, seconds, load, np.empty(0))


def _recorded(path: Path) -> Workload:
    text = read_text(path)
    value = "power_w" if "power_w" in [name.strip() for name in rows_of(text)[0]] else "load_frac"
    time, values = read_columns(path.name, text, ("time_s", value))
    if time.size < 2:
        raise ValueError(f"{path.name}: time_s: got {time.size} times, expected at least two")
    if (np.diff(time) <= 0).any():
        at = int(np.argmax(np.diff(time) <= 0))
        raise ValueError(f"{path.name}: time_s: got {time[at + 1]:g} after {time[at]:g}, expected times that rise")
    high = 1.0 if value == "load_frac" else 1e6
    if (values < 0).any() or (values > high).any():
        bad = float(values[(values < 0) | (values > high)][0])
        raise ValueError(f"{path.name}: {value}: got {bad:g}, expected a number from 0 to {high:g}")
    held = values[:-1]
    return Workload(path.stem, np.diff(time), *((held, np.empty(0)) if value == "load_frac" else (np.empty(0), held)))


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph of operations with its workers and deadline (infinite if none), or a chain of stages (then no graph)."""

    name: str
    operations: tuple[Operation, ...] = ()
    n_workers: int = 1
    deadline_s: float = math.inf
    stages: tuple[str, ...] = ()
    lengths: tuple[float, ...] = ()
    overlaps: tuple[float, ...] = ()
    n_items: int = 1
    unit: str = "s"


def read_plan(path: Path) -> Plan:
    """Read a schedule file: [[operation]] tables make a graph, [[stage]] tables a chain."""
    table = _document(path)
    if "stage" in table:
        return _chain(path, converted(path.name, table, ChainFile))
    made = converted(path.name, table, GraphFile)
    formulas = _formulas(path.name, made.formula)
    arguments = {name for names, _ in formulas.values() for name in names}
    for key, value in made.default.items():
        if key not in arguments:
            raise refusal(f"{path.name}: default: {key}", value, f"one of {', '.join(sorted(arguments))}")
    operations = tuple(
        _operation(f"{path.name}: operation {i}", row, made, formulas) for i, row in enumerate(made.operation, 1)
    )
    return Plan(made.name or path.stem, operations, made.n_workers, made.deadline_s)


def _chain(path: Path, made: ChainFile) -> Plan:
    names, lengths, overlaps = zip(*((one.name, one.length, one.overlap) for one in made.stage), strict=True)
    for i, (overlap, in_front) in enumerate(zip(overlaps, (0.0, *lengths), strict=False), 1):
        if overlap > in_front:
            expected = f"at most {in_front:g}, the length of the stage in front of it"
            raise refusal(f"{path.name}: stage {i}: overlap", overlap, expected)
    name = made.name or path.stem
    return Plan(name, stages=names, lengths=lengths, overlaps=overlaps, n_items=made.n_items, unit=made.unit)


_Formulas = Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, float]], float]]]
"""Formula by name -> its arguments, and its value for them."""


def _formulas(where: str, own: Mapping[str, str]) -> _Formulas:
    """Return the formulas of the engine and those that a file registers under [formula]."""

    def known(function: Callable[..., float]) -> Callable[[Mapping[str, float]], float]:
        return lambda values: function(**values)

    found = {name: (_arguments(function), known(function)) for name, function in FORMULAS.items()}
    for name, text in own.items():
        if name in FORMULAS:
            raise refusal(f"{where}: formula: {name}", text, f"another name than {', '.join(FORMULAS)}")
        try:
            expression = Expression(text)
        except ValueError as error:
            raise ValueError(f"{where}: formula: {name}: {error}") from None
        if taken := [one for one in expression.names if one in _OPERATION_KEYS]:
            raise refusal(f"{where}: formula: {name}", text, f"another name of a number than {taken[0]}")
        found[name] = (expression.names, expression)
    return found


def _operation(where: str, row: Mapping[str, Any], file: GraphFile, formulas: _Formulas) -> Operation:
    formula, memory = row.get("formula", ""), row.get("memory", "")
    if memory and file.memory and memory not in file.memory:
        raise refusal(f"{where}: memory", memory, f"one of {', '.join(file.memory)}")
    if not isinstance(formula, str) or not formula:
        plain = converted(where, row, PlainOperation)
        return Operation(plain.name, plain.length_s, plain.after, plain.memory_frac, plain.memory)
    if formula not in formulas:
        raise refusal(f"{where}: formula", formula, f"one of {', '.join(formulas)}")
    wanted, value = formulas[formula]
    defaults = file.default | ({"bandwidth_byte_s": file.memory[memory]} if memory in file.memory else {})
    given = {key: value for key, value in defaults.items() if key in wanted} | dict(row)
    made = converted(where, given, _schema_of(wanted))
    try:
        length_s = value({name: getattr(made, name) for name in wanted})
        return Operation(made.name, length_s, made.after, made.memory_frac, made.memory)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


_OPERATION_KEYS = ("name", "after", "memory_frac", "memory", "formula")


@functools.cache
def _schema_of(arguments: tuple[str, ...]) -> type[OperationRow]:
    """Return the schema of an operation whose length a formula gives: each argument is a key."""
    keys = [(name, Annotated[float, within(*_RANGES.get(name, (0.0, _ANY)))]) for name in arguments]
    return cast(type[OperationRow], msgspec.defstruct("Row", keys, bases=(OperationRow,), kw_only=True))


_RANGES = {"gamma": (0.1, 0.9), "load_frac": (0.0, 1.0)}
"""Ranges of arguments of a formula that the article names."""


def _arguments(function: Callable[..., object]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks in order of priority on one processor, and what a context switch costs."""

    name: str
    tasks: tuple[Task, ...]
    switch_ns: int


def read_tasks(path: Path) -> TaskSet:
    """Read a file of real-time tasks; seconds become whole nanoseconds, costs rounded up and periods down."""
    made = converted(path.name, _document(path), TasksFile)
    tasks = tuple(_task(f"{path.name}: task {i}", row) for i, row in enumerate(made.task, 1))
    return TaskSet(made.name or path.stem, tasks, _up_ns(made.switch_s))


def _task(where: str, row: TaskRow) -> Task:
    if row.section_s > row.cost_s:
        raise refusal(f"{where}: section_s", row.section_s, f"at most cost_s, {row.cost_s:g}")
    cost_ns, section_ns = _up_ns(row.cost_s), _up_ns(row.section_s)
    periods = _down_ns(row.period_s), _down_ns(row.deadline_s)
    return Task(row.name, cost_ns, *periods, _up_ns(row.jitter_s), min(section_ns, cost_ns))


def _up_ns(seconds: float) -> int:
    return math.ceil(round(seconds * _NS_PER_S, 3))  # a decimal that is a whole number of ns stays one


def _down_ns(seconds: float) -> int:
    return math.floor(round(seconds * _NS_PER_S, 3))


def _document(path: Path) -> dict[str, Any]:
    return parse(path.name, read_text(path))


def read_text(path: Path) -> str:
    """Read the user's text file, whatever wrote it (`core.catalogue.text_files`).

    Raises
    ------
    ValueError
        One sentence: it cannot be read, or is no text.
    """
    name = path.name or str(path)
    try:
        return one_line_end(read_text_of(path))
    except OSError as error:
        shown = name if name.isprintable() else repr(name)
        raise ValueError(f"{shown}: cannot be read ({error.strerror}), expected a file") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
