"""Files that the user writes: workloads, schedules, task sets, scenarios, tables of operating points.

Each has a documented example in the resources. Checked strictly: ``file: key: got X, expected Y``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.catalogue.energy import DvfsTable, dvfs_table, scenario_of
from core.catalogue.toml_table import Table, parse, read_columns
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
    table = _user_table(path)
    scenario = scenario_of(path.stem, table, source=table.text("source", ""))
    table.finish()
    return scenario


def read_dvfs(path: Path) -> DvfsTable:
    """Read the user's table of operating points (TOML as in the resources, with sources)."""
    return dvfs_table(path.stem, _user_table(path))


def read_workload(path: Path) -> Workload:
    """Read a workload: TOML with [[phase]] tables, or CSV with ``time_s`` and ``load_frac`` or ``power_w``.

    A row of a CSV holds from its time until the next; the last row only ends the record.
    """
    if path.suffix.lower() == ".csv":
        return _recorded(path)
    table = _user_table(path)
    name, phases = table.text("name", path.stem), table.rows("phase")
    table.finish()
    rows = [(row.number("seconds", 1e-3, 1e7), row.number("load_frac", 0.0, 1.0)) for row in phases]
    for row in phases:
        row.finish()
    seconds, load = np.asarray(rows).T
    return Workload(name, seconds, load, np.empty(0))


def _recorded(path: Path) -> Workload:
    text = read_text(path)
    names = (text.splitlines() or [""])[0].split(",")
    value = "power_w" if "power_w" in [name.strip() for name in names] else "load_frac"
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
    table = _user_table(path)
    name = table.text("name", path.stem)
    if "stage" in table.left:
        return _chain(name, table)
    n_workers, deadline = table.integer("n_workers", 1, 1024, 1), table.optional("deadline_s", 0.0, 1e9)
    defaults, rows = table.table("default", {}), table.rows("operation")
    table.finish()
    arguments = {name for function in FORMULAS.values() for name in _arguments(function)}
    for key in defaults.left.keys() - arguments:
        defaults.fail(key, defaults.left[key], f"one of {', '.join(sorted(arguments))}")
    operations = tuple(_operation(row, defaults.left) for row in rows)
    return Plan(name, operations, n_workers, math.inf if deadline is None else deadline)


def _chain(name: str, table: Table) -> Plan:
    n_items, unit, rows = table.integer("n_items", 1, 1_000_000, 1), table.text("unit", "s"), table.rows("stage")
    table.finish()
    stages = [(r.text("name"), r.number("length", 1e-12, 1e12), r.number("overlap", 0.0, 1e12, 0.0)) for r in rows]
    for row in rows:
        row.finish()
    names, lengths, overlaps = zip(*stages, strict=True)
    for row, overlap, in_front in zip(rows, overlaps, (0.0, *lengths), strict=False):
        if overlap > in_front:
            row.fail("overlap", overlap, f"at most {in_front:g}, the length of the stage in front of it")
    return Plan(name, stages=names, lengths=lengths, overlaps=overlaps, n_items=n_items, unit=unit)


def _operation(row: Table, defaults: Mapping[str, object]) -> Operation:
    name, after, memory_frac = row.text("name"), row.texts("after"), row.number("memory_frac", 0.0, 1.0, 0.0)
    formula = row.text("formula", "")
    if formula:
        function = FORMULAS.get(formula)
        if function is None:
            row.fail("formula", formula, f"one of {', '.join(FORMULAS)}")
        wanted = _arguments(function)
        row.left = {key: value for key, value in defaults.items() if key in wanted} | row.left
        try:
            length = function(**{key: row.number(key, 0.0, _ANY) for key in wanted})
        except ValueError as error:
            if str(error).startswith(row.where):
                raise
            raise ValueError(f"{row.where}: {error}") from None
    else:
        length = row.number("length_s", 0.0, 1e9)
    row.finish()
    return Operation(name, length, after, memory_frac)


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
    table = _user_table(path)
    name, switch, rows = table.text("name", path.stem), table.number("switch_s", 0.0, 1.0, 0.0), table.rows("task")
    table.finish()
    return TaskSet(name, tuple(_task(row) for row in rows), _up_ns(switch))


def _task(row: Table) -> Task:
    name, cost, period = row.text("name"), row.number("cost_s", 1e-9, 1e4), row.number("period_s", 1e-9, 1e5)
    deadline, jitter = row.number("deadline_s", 0.0, 1e5, 0.0), row.number("jitter_s", 0.0, 1e5, 0.0)
    section = row.number("section_s", 0.0, 1e4, 0.0)
    row.finish()
    if section > cost:
        row.fail("section_s", section, f"at most cost_s, {cost:g}")
    return Task(
        name, _up_ns(cost), _down_ns(period), _down_ns(deadline), _up_ns(jitter), min(_up_ns(section), _up_ns(cost))
    )


def _up_ns(seconds: float) -> int:
    return math.ceil(round(seconds * _NS_PER_S, 3))  # a decimal that is a whole number of ns stays one


def _down_ns(seconds: float) -> int:
    return math.floor(round(seconds * _NS_PER_S, 3))


def _user_table(path: Path) -> Table:
    return Table(path.name, parse(path.name, read_text(path)))


def read_text(path: Path) -> str:
    """Read the user's text file, with or without the mark that spreadsheets put in front.

    Raises
    ------
    ValueError
        One sentence: it cannot be read, or is no UTF-8 text.
    """
    name = path.name or str(path)
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: got bytes that are not UTF-8, expected text") from None
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror}), expected a file") from None
    except ValueError as error:  # a name that no file can have
        raise ValueError(f"{name!r}: cannot be read ({error}), expected a file") from None
