"""``trilemma lab fit TABLE``: a curve through two columns of a table: ridge polynomial, decay, knee."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import counted
from core.articles.curve_fit import DecayFit, Knee, PolynomialFit, fit_decay, fit_knee, fit_polynomial
from core.catalogue.csv_rows import read_columns, rows_of
from core.catalogue.inputs import read_text
from core.spec import Absent

MOST_POINTS = 10_000
DECAY_DEGREE = 2

EXAMPLES = """examples:
  trilemma lab fit sweep.csv                               the first two columns
  trilemma lab fit quality.csv --x alpha --y perplexity    the knee of an accuracy over the prune rate
  trilemma lab fit sweep.csv --x bandwidth_gbps --y decode_ms --degree 3 --ridge 0 --at 51.2 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the table, its columns and the fit."""
    parser.add_argument("file", metavar="TABLE", type=Path, help="CSV with a heading, such as `trilemma sweep` prints")
    parser.add_argument("--x", metavar="COLUMN", help="abscissa (the first column)")
    parser.add_argument("--y", metavar="COLUMN", help="ordinate (the second column)")
    parser.add_argument("--degree", type=int, default=4, metavar="N", help="degree of the polynomial, 1 to 12 (4)")
    parser.add_argument("--ridge", type=float, default=1.2e-4, metavar="R", help="ridge of the polynomial (0.00012)")
    parser.add_argument("--at", type=float, metavar="X", help="abscissa to evaluate the curves at")


def run(args: argparse.Namespace) -> int:
    """Fit and print."""
    try:
        found = document(args)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(found)
    else:
        _print(found)
    return 0


def document(args: argparse.Namespace) -> dict[str, Any]:
    """Return the three fits of two columns as JSON values, the leave-one-out error of each first."""
    for name, value in (("ridge", args.ridge), ("at", args.at)):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name}: got {value}, expected a finite number")
    text = read_text(args.file)
    names = _columns(args, text)
    x, y = read_columns(args.file.name, text, names)
    if x.size > MOST_POINTS:
        raise ValueError(f"{args.file.name}: got {x.size} rows, expected at most {MOST_POINTS}")
    if np.unique(x).size < 2:
        raise ValueError(f"{args.file.name}: {names[0]}: got {np.unique(x).size} different values, expected at least 2")
    fits: dict[str, PolynomialFit | DecayFit | Absent] = {
        "polynomial": fit_polynomial(x, y, args.degree, args.ridge),
        "decay": fit_decay(x, y, DECAY_DEGREE)
        if x.size >= DECAY_DEGREE + 4
        else Absent(f"{counted(x.size, 'point')} cannot show a decay; at least {DECAY_DEGREE + 4} are needed"),
    }
    at = {} if args.at is None else {"at": args.at}
    return {
        "file": str(args.file),
        "x": names[0],
        "y": names[1],
        "n_points": int(x.size),
        **at,
        **{name: _record(fit, args.at) for name, fit in fits.items()},
        "knee": _record(fit_knee(x, y), None),
    }


def _columns(args: argparse.Namespace, text: str) -> tuple[str, str]:
    heading = [name.strip() for name in rows_of(text)[0]]
    others = [name for name in heading if name not in (args.x, args.y)]
    if len(others) < 2 - sum(name is not None for name in (args.x, args.y)):
        raise ValueError(f"{args.file.name}: got columns {', '.join(heading) or 'none'}, expected at least two")
    x = args.x if args.x is not None else others.pop(0)
    return x, args.y if args.y is not None else others.pop(0)


def _record(fit: PolynomialFit | DecayFit | Knee | Absent, at: float | None) -> dict[str, Any]:
    if isinstance(fit, Absent):
        return {"absent": fit.reason}
    values = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(fit).items()}
    if not isinstance(fit, Knee):
        values = {"leave_one_out_rmse": values.pop("leave_one_out_rmse"), **values}
        if at is not None:
            values["y_at"] = float(fit(at))
            values["extrapolated"] = not fit.x_low <= at <= fit.x_low + fit.x_span
    return {
        name: {"absent": "the fit passes through every point, so no point tells its error"}
        if isinstance(value, float) and not math.isfinite(value)
        else value
        for name, value in values.items()
    }


def _print(found: dict[str, Any]) -> None:
    print(f"{found['y']} over {found['x']}, {counted(found['n_points'], 'point')}\n")
    at = f"AT {found['at']:g}" if "at" in found else ""
    rows = [("FIT", "LEFT-OUT ERROR", "FREE PARAMETERS", "R2", *([at] if at else []))]
    for name in ("polynomial", "decay"):
        fit = found[name]
        if "absent" in fit:
            rows.append((name, fit["absent"], "", "", *([""] if at else [])))
            continue
        cells = [_cell(fit[key]) for key in ("leave_one_out_rmse", "n_effective", "r_squared")]
        extrapolated = " (extrapolated)" if fit.get("extrapolated") else ""
        rows.append((name, *cells, *([f"{fit['y_at']:.6g}{extrapolated}"] if at else [])))
    print_table(rows)
    decay, knee = found["decay"], found["knee"]
    if "absent" not in decay:
        edge = ", at an end of the searched range: the points do not determine it" if decay["edge"] else ""
        print(f"\nDecay: {decay['amplitude']:.5g} exp(-{decay['rate']:.5g} x){edge}.")
    if "absent" in knee:
        print(f"Knee: {knee['absent']}.")
        return
    slopes = f"slope {knee['slope_before']:.4g} before, {knee['slope_after']:.4g} after"
    edge = "; it may lie beyond the points" if knee["edge"] else ""
    print(f"Knee: {knee['x']:.5g} [{knee['q05']:.5g} to {knee['q95']:.5g}], {slopes}{edge}.")


def _cell(value: Any) -> str:
    return "not known" if isinstance(value, dict) else f"{value:.4g}"
