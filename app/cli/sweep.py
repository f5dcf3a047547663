"""``trilemma sweep --over AXIS=VALUES ... [--pareto OBJECTIVES]``: a grid of predictions as CSV or JSON.

With ``--measured`` the grid is measured on the board, and the table has the columns that `validate` reads.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.cli.shared.library import open_library
from app.cli.shared.measured_grid import Work, add_journal_arguments, grid, measure_all, point_text, stopped
from app.cli.shared.measured_table import NUMBER, measured_frame
from app.cli.shared.model_file import add_model_file_argument, with_model_file
from app.cli.shared.output import UserError, print_json
from app.cli.shared.point import (
    add_point_arguments,
    board_key,
    keys_of,
    parse_number,
    point_from,
    with_board_files,
    with_described,
    with_formats,
)
from app.cli.shared.target import add_target_options, target_from
from app.library.records import point_record
from core.predict.sweep import NAMED, OBJECTIVES, OUTPUTS, Sweep, dominated_share, front, front_knee, sweep
from core.predict.validity import cache_bounds
from core.spec import FIELDS, Absent, Catalogue, Field, OperatingPoint, Posterior

if TYPE_CHECKING:
    import pandas as pd

AXES = {field.option: field for field in FIELDS}
"""Name of an axis -> field of the operating point."""

_PLAIN = OperatingPoint()
USUAL = ""
"""The usual runtime of a board, as a value of an axis."""
MOST_POINTS = 1_000_000
MOST_ROUNDS = 100
MEASURED = ("decode", "ttft", "quality")

EXAMPLES = """examples:
  trilemma sweep --over alpha=0:0.9:0.1 --over weights=int4,int8
  trilemma sweep --over alpha=0:0.9:0.1 --over weights=int4,int8,bf16 --pareto latency,accuracy --json
  trilemma sweep --over context=256,1024,4096 --measured --rounds 2 > grid.csv      on the board; validate reads it"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the axes, the objectives and the operating point."""
    parser.add_argument(
        "--over",
        action="append",
        required=True,
        metavar="AXIS=VALUES",
        help=f"alpha=0:0.9:0.1 (from, to, step) or weights=int4,int8; axes are {', '.join(AXES)}; repeat for more",
    )
    parser.add_argument("--pareto", metavar="A,B", help=f"keep the Pareto front in: {', '.join(OBJECTIVES)}")
    measured = parser.add_argument_group("measured on the board")
    measured.add_argument(
        "--measured", action="store_true", help="run the grid on the board; CSV in `validate`'s columns"
    )
    measured.add_argument("--rounds", type=int, default=1, metavar="N", help="number of rounds through the grid (1)")
    measured.add_argument(
        "--what", default="decode", metavar="A,B", help="what to measure: decode, ttft, quality (decode)"
    )
    add_model_file_argument(measured)
    add_journal_arguments(measured)
    add_target_options(parser)
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Predict the grid and print it."""
    library = open_library()
    axes, catalogue = axes_from(args.over), with_described(args, library.catalogue())
    if "board" in axes:
        axes["board"], catalogue = with_board_files(axes["board"], catalogue)
        args.board = axes["board"][0]
    swept = [*axes.get("weights", ()), *axes.get("head", ())]
    catalogue = with_formats(swept, axes.get("runtime", [args.runtime]), catalogue)
    catalogue = with_model_file(args, catalogue)
    axes = by_keys(axes, args, catalogue)
    point = point_from(args, catalogue)
    if args.measured:
        return _measure(args, point, axes, catalogue)
    names = [name.strip() for name in args.pareto.split(",")] if args.pareto is not None else []

    @functools.cache
    def known(board: str, runtime: str, mode: str) -> Posterior | None:
        return library.posterior(replace(point, board=board, runtime=runtime, power_mode=mode), catalogue)

    def meant(one: OperatingPoint) -> OperatingPoint:
        names = {"board": one.board, "runtime": one.runtime, "power_mode": one.power_mode}
        keys = keys_of({name: value for name, value in names.items() if value}, catalogue)
        if args.weights is not None or "weights" in axes:
            keys["weights"] = one.weights
        return replace(one, **catalogue.with_usual(keys))

    try:
        found = sweep(point, axes, catalogue, lambda one: known(one.board, one.runtime, one.power_mode), meant)
        kept = np.flatnonzero(front(found, names)) if names else np.arange(found.n)
        about = _trade(found, names)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        rows = [_record(found, int(i)) for i in kept]
        print_json({"point": point_record(point), "over": list(axes), "n": found.n, **about, "rows": rows})
    else:
        _frame(found, kept).to_csv(sys.stdout, index=False, float_format="%.9g", lineterminator="\n")
    for text in cache_bounds(catalogue.models[key] for key in axes.get("model", [point.model])):
        print(f"trilemma sweep: {text}", file=sys.stderr)
    return 0


def _measure(args: argparse.Namespace, point: OperatingPoint, axes: dict[str, list[Any]], catalogue: Catalogue) -> int:
    """Run the grid on the board and print it."""
    if args.pareto:
        raise UserError("--pareto applies to predictions: it cannot be combined with --measured")
    if not 1 <= args.rounds <= MOST_ROUNDS:
        raise UserError(f"rounds: got {args.rounds}, expected 1 to {MOST_ROUNDS}")
    what = tuple(name.strip() for name in args.what.split(","))
    if set(what) - set(MEASURED):
        raise UserError(f"what: got {args.what!r}, expected some of {', '.join(MEASURED)}")
    work = Work(tuple(grid(point, axes, catalogue)), what, rounds=args.rounds, model_file=args.model_file)
    outcome = measure_all(work, catalogue, target_from(args.attach, args.ssh_config), args.journal, fresh=args.fresh)
    for one, reason in outcome.failed:
        print(f"trilemma sweep: failed at {point_text(one)}: {reason}", file=sys.stderr)
    if outcome.status:
        print(f"trilemma sweep: {stopped(outcome, work)}", file=sys.stderr)
        return outcome.status
    if args.json:
        rows = [{"point": point_record(m.point), "time_utc": m.time_utc, **m.body} for m in outcome.measured]
        failed = [{"point": point_record(one), "reason": reason} for one, reason in outcome.failed]
        counts = {"n": len(rows), "n_from_journal": outcome.n_from_journal}
        print_json({"point": point_record(point), "over": list(axes), **counts, "rows": rows, "failed": failed})
    else:
        frame = measured_frame(outcome.measured, catalogue)
        frame.to_csv(sys.stdout, index=False, float_format=NUMBER, lineterminator="\n")
    return 0 if outcome.measured else 1


def axes_from(given: list[str]) -> dict[str, list[Any]]:
    """Return the values of each axis by field, from ``AXIS=VALUES`` texts; raise UserError for an invalid one."""
    axes = dict[str, list[Any]]()
    n = 1
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or name not in AXES or not values:
            raise UserError(f"over: got {text!r}, expected AXIS=VALUES with an axis of {', '.join(AXES)}")
        field = AXES[name]
        if field.name in axes:
            raise UserError(f"over: got {name} twice, expected each axis once")
        try:
            texts = [value.strip() for value in values.split(",")]
            axes[field.name] = _numbers(field, values) if field.is_number else texts
        except ValueError as error:
            raise UserError(str(error)) from error
        n *= len(axes[field.name])
        if n > MOST_POINTS:
            raise UserError(f"over: got {n} points or more, expected at most {MOST_POINTS}")
    return axes


def by_keys(axes: Mapping[str, list[Any]], args: argparse.Namespace, catalogue: Catalogue) -> dict[str, list[Any]]:
    """Return the axes with the catalogue's keys in place of users' names.

    A name of a runtime or mode whose key depends on the board stays as it is; one given outside the axes becomes an
    axis. Where none is given and the usual ones of the boards differ, the runtime is an axis too.

    Raises
    ------
    UserError
        A name is ambiguous, or none of the boards has the runtime.
    """
    boards = [board_key(name, catalogue.boards) for name in axes.get("board", [args.board or _PLAIN.board])]
    found = {
        field: [_key(field, value, boards, catalogue) for value in values] if field in NAMED else values
        for field, values in axes.items()
    }
    for field, given in (("runtime", args.runtime), ("power_mode", args.mode)):
        if given is not None and field not in axes and len(_keys(field, given, boards, catalogue)) > 1:
            found[field] = [given]
    if "board" not in axes:
        return found
    usual = {catalogue.default_runtime(catalogue.boards[board]) for board in boards if board in catalogue.boards}
    if args.runtime is None and "runtime" not in axes and len(usual) > 1:
        found["runtime"] = [USUAL]
    return {**found, "board": boards}


def _key(field: str, name: Any, boards: Sequence[str], catalogue: Catalogue) -> Any:
    """Return the key of a name if it is the same on all boards, else the name."""
    keys = _keys(field, name, boards, catalogue)
    return keys.pop() if len(keys) == 1 else name


def _keys(field: str, name: Any, boards: Sequence[str], catalogue: Catalogue) -> set[str]:
    """Return the keys of a name on given boards; a runtime must exist on all boards or on none."""
    by_board = {board: keys_of({"board": board, field: name}, catalogue)[field] for board in boards}
    without = [board for board, key in by_board.items() if key not in catalogue.runtimes]
    if field == "runtime" and 0 < len(without) < len(boards):
        raise UserError(f"runtime: got {name!r}, which {' and '.join(without)} cannot run: expected boards that can")
    return set(by_board.values())


def _numbers(field: Field, text: str) -> list[float]:
    """Return the values of ``from:to:step``, both ends included, or of a list with commas."""
    ends = [parse_number(field, value) for value in text.split(":" if ":" in text else ",")]
    if ":" not in text:
        return ends
    if len(ends) != 3 or ends[2] <= 0.0 or ends[1] < ends[0]:
        raise ValueError(f"{field.option}: got {text!r}, expected FROM:TO:STEP with a rising range, such as 0:0.9:0.1")
    low, high, step = ends
    if (high - low) / step > MOST_POINTS:
        raise ValueError(f"{field.option}: got {text!r}, expected at most {MOST_POINTS} values")
    values = low + step * np.arange(int(np.floor((high - low) / step + 1e-9)) + 1)
    return [float(f"{value:.12g}") for value in values]


def _trade(found: Sweep, names: list[str]) -> dict[str, Any]:
    """Return the share of the box that a front dominates, and its knee if there are two objectives."""
    if not names:
        return {}
    about: dict[str, Any] = {"pareto": names}
    if len(names) in (2, 3):
        about["dominated_share"] = dominated_share(found, names)
    if len(names) == 2:
        knee = front_knee(found, names)
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


def _frame(found: Sweep, rows: NDArray[np.intp]) -> pd.DataFrame:
    """Return points with the median and interval of each output; an absent value is an empty cell."""
    import pandas as pd

    columns = {name: values[rows].astype(object) for name, values in found.axes.items()}
    for name in OUTPUTS:
        of = found.outputs[name]
        columns |= {name: of.median[rows], f"{name}_q05": of.q05[rows], f"{name}_q95": of.q95[rows]}
        columns[f"{name}_provenance"] = of.provenance[rows]
    return pd.DataFrame(columns)
