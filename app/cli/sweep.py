"""``trilemma sweep --over AXIS=VALUES ... [--pareto OBJECTIVES]``: a grid of predictions, to CSV or JSON."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import Any

import numpy as np

from app.cli.output import UserError, print_json
from app.cli.point import add_point_arguments, point_from
from app.cli.taught import catalogue_here, posterior_for
from app.model.records import point_record
from app.views.format import parse_quantity
from core.spec import Absent, Catalogue
from core.sweep import NAMED, OBJECTIVES, OUTPUTS, Sweep, bend, dominated_share, front, sweep

AXES = {
    "alpha": ("alpha", "1"),
    "beta": ("beta", "1"),
    "bandwidth": ("bandwidth_byte_s", "byte/s"),
    "context": ("context_tokens", "tokens"),
    "mode": ("power_mode", ""),
    **{name: (name, "") for name in NAMED if name != "power_mode"},
}
"""Name of an axis -> field and unit; "" is a text."""

MOST_POINTS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the axes, the objectives and the operating point."""
    parser.add_argument(
        "--over",
        action="append",
        required=True,
        metavar="AXIS=VALUES",
        help=f"alpha=0:0.9:0.1 (from, to, step) or weights=int4,int8; axes are {', '.join(AXES)}; repeat for more",
    )
    parser.add_argument(
        "--pareto", metavar="A,B", help=f"keep the points that no other beats in all of: {', '.join(OBJECTIVES)}"
    )
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Predict the grid and print it."""
    catalogue = catalogue_here()
    point = point_from(args, catalogue)
    axes = _axes(args.over, catalogue)
    names = [name.strip() for name in args.pareto.split(",")] if args.pareto else []
    try:
        found = sweep(point, axes, catalogue, lambda one: posterior_for(one, catalogue))
        kept = np.flatnonzero(front(found, names)) if names else np.arange(found.n)
        about = _trade(found, names)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        rows = [_record(found, int(i)) for i in kept]
        print_json({"point": point_record(point), "over": list(axes), "n": found.n, **about, "rows": rows})
    else:
        _write_csv(found, kept)
    return 0


def _axes(given: list[str], catalogue: Catalogue) -> dict[str, list[Any]]:
    axes = dict[str, list[Any]]()
    n = 1
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or name not in AXES or not values:
            raise UserError(f"over: got {text!r}, expected AXIS=VALUES with an axis of {', '.join(AXES)}")
        field, unit = AXES[name]
        if field in axes:
            raise UserError(f"over: got {name} twice, expected each axis once")
        try:
            axes[field] = _numbers(name, values, unit) if unit else [value.strip() for value in values.split(",")]
        except ValueError as error:
            raise UserError(str(error)) from error
        n *= len(axes[field])
        if n > MOST_POINTS:
            raise UserError(f"over: got {n} points or more, expected at most {MOST_POINTS}")
    return axes


def _numbers(name: str, text: str, unit: str) -> list[float]:
    """Return the values of ``from:to:step``, both ends included, or of a list with commas."""
    if ":" not in text:
        return [parse_quantity(value, unit, name=name) for value in text.split(",")]
    ends = [parse_quantity(value, unit, name=name) for value in text.split(":")]
    if len(ends) != 3 or ends[2] <= 0.0 or ends[1] < ends[0]:
        raise ValueError(f"{name}: got {text!r}, expected FROM:TO:STEP with a rising range, such as 0:0.9:0.1")
    low, high, step = ends
    if (high - low) / step > MOST_POINTS:
        raise ValueError(f"{name}: got {text!r}, expected at most {MOST_POINTS} values")
    values = low + step * np.arange(int(np.floor((high - low) / step + 1e-9)) + 1)
    return [float(f"{value:.12g}") for value in values]


def _trade(found: Sweep, names: list[str]) -> dict[str, Any]:
    """Return what a front is worth: the share of the box it dominates, and its knee where it has two objectives."""
    if not names:
        return {}
    about: dict[str, Any] = {"pareto": names}
    if len(names) in (2, 3):
        about["dominated_share"] = dominated_share(found, names)
    if len(names) == 2:
        knee = bend(found, names)
        about["knee"] = (
            {"absent": knee.reason} if isinstance(knee, Absent) else {**_record(found, knee.index), "edge": knee.edge}
        )
    return about


def _record(found: Sweep, i: int) -> dict[str, Any]:
    record: dict[str, Any] = {name: values[i].item() for name, values in found.axes.items()}
    for name in OUTPUTS:
        column = found.outputs[name]
        if column.absent[i]:
            record[name] = {"absent": str(column.absent[i])}
        else:
            bounds = {key: float(getattr(column, key)[i]) for key in ("median", "q05", "q95")}
            record[name] = {**bounds, "provenance": str(column.provenance[i])}
    return record


def _write_csv(found: Sweep, rows: Any) -> None:
    """Write the median and interval of each output; a cell is empty where the output is absent."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    heading = list(found.axes)
    for name in OUTPUTS:
        heading += [name, f"{name}_q05", f"{name}_q95", f"{name}_provenance"]
    table.writerow(heading)
    for i in rows:
        cells: list[Any] = [values[i].item() for values in found.axes.values()]
        for name in OUTPUTS:
            column = found.outputs[name]
            numbers = [getattr(column, key)[i] for key in ("median", "q05", "q95")]
            cells += ["" if column.absent[i] else f"{float(x):.9g}" for x in numbers]
            cells.append(str(column.provenance[i]))
        table.writerow(cells)
