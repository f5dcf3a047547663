"""``trilemma calibrate``: measure a handful of points, fit the model to them, and print the errors of the fit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign, counted
from app.campaign.plan import SPEED, Round, Run, calibration_rounds
from app.cli.bench.kernels import measure_kernels
from app.cli.shared.library import open_library
from app.cli.shared.model_file import check_measurable
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import add_board_as, add_target_options, check_board_as, choose_sheet, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.recording import Recording
from app.client.target import THIS
from app.library.bandwidth import read_record, with_bandwidth
from app.library.board_library import BoardLibrary
from app.library.calibration import calibration_of, candidates, options_again, share_calibration
from app.library.files import FileError
from app.library.machine import cannot, machine_key
from app.library.measurements import Measurement
from app.library.recorded import measured
from app.library.records import point_record
from app.text.format import DASH, estimate_text, quantity_text
from core.calibrate.fit import Calibration, next_measurement
from core.calibrate.leave_one_out import CrossCheck, merged
from core.catalogue.load import load_catalogue
from core.spec import POLICIES, Catalogue, Estimate, OperatingPoint

GRID = (("fp32", "bf16", "int8", "int4"), (256.0, 1024.0, 2048.0, 4096.0), (0.0, 0.3, 0.6, 0.9))
"""Weight formats, contexts and prune rates of ``--grid``."""

GRID_KV = ("bf16", "int8", "int4", "fp32")
GRID_MODES = ("", "1 thread")
GRID_RESELECT_TOKENS = (0.0, 64.0)
"""KV formats, threads and re-selection intervals, balanced over the points of the grid, like the policies."""

GRID_ROUNDS = 3
"""Rounds of ``--grid``: a shared machine slows down for minutes, and a later round avoids that."""


GRID_HELP = (
    "measure the decode time of 64 points (weight formats x contexts x alpha; KV formats, policies, re-selection and "
    "threads vary among them) in three rounds, about six minutes"
)

EXAMPLES = """examples:
  trilemma calibrate                                        ten points of this machine, about two minutes
  trilemma calibrate --grid --fresh --json                  64 points in three rounds, without earlier measurements
  trilemma calibrate --attach user@orin --runtime llamacpp_gpu --model qwen2.5-1.5b --weights q4_k_m
  trilemma calibrate --list                                 boards that have measurements"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the points to measure and the measurements to fit."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--grid", action="store_true", help=GRID_HELP)
    what.add_argument("--fit-only", action="store_true", help="measure nothing, fit earlier measurements")
    what.add_argument(
        "--list", action="store_true", help="list the boards, attached before or imported, that have measurements"
    )
    parser.add_argument("--bench", action="store_true", help="time the kernels first and take the result as the prior")
    add_target_options(parser)
    add_board_as(parser)
    parser.add_argument("--runtime", help="another runtime that is configured on the board (trilemma runtimes)")
    for name in ("model", "weights", "kv"):
        parser.add_argument(f"--{name}", help=f"the {name} it runs, with --runtime")
    parser.add_argument("--fresh", action="store_true", help="ignore earlier measurements")


def run(args: argparse.Namespace) -> int:
    """Measure, fit and report."""
    if args.list:
        if args.attach != THIS or args.fresh or args.bench or args.runtime:
            raise UserError("--list cannot be combined with --attach, --fresh, --bench or --runtime")
        return _list(args)
    if args.fresh and args.fit_only:
        raise UserError("--fresh cannot be combined with --fit-only")
    check_board_as(args.board_as)
    at = _point(args)
    if args.bench:
        if args.attach != THIS:
            raise UserError("--bench times the kernels of this machine: it cannot be combined with --attach")
        measure_kernels(["linear", "attention"], quick=True)
    try:
        target, library = target_from(args.attach, args.ssh_config), open_library()
        with AttachedBoard(target) as board:
            machine = machine_key(board.hello)
            choose_sheet(library, args.board_as, board.hello)
            if unsaved := _kept(lambda: library.remember_target(target.text, board.hello)):
                print(f"trilemma calibrate: {unsaved}", file=sys.stderr)
            new, lost = ([], []) if args.fit_only else _measure(library, board, machine, at, grid=args.grid)
        catalogue = library.catalogue(board.hello)
        if board.hello.get("recording"):
            new, catalogue = _recorded(Path(target.text), catalogue)
            lost = new
        measurements = new if args.fresh else library.evidence(catalogue, machine, lost)
        calibration, others = _calibrations(measurements, catalogue, at)
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error
    proposal = next_measurement(calibration, candidates(at), catalogue)
    if args.json:
        print_json(document(calibration, proposal, others))
    else:
        _print(calibration, proposal, others)
    return 0


def _recorded(file: Path, catalogue: Catalogue) -> tuple[list[Measurement], Catalogue]:
    """Return the measurements of a recording, and the catalogue with its bandwidth."""
    with Recording(file) as recording:
        found, bandwidth, notes = measured(recording, catalogue)
    for note in notes:
        print(f"trilemma calibrate: {note}", file=sys.stderr)
    if bandwidth:
        this = with_bandwidth(catalogue.boards[THIS], bandwidth, "the recorded board")
        catalogue = replace(catalogue, boards={**catalogue.boards, THIS: this})
    return found, catalogue


def _list(args: argparse.Namespace) -> int:
    """Print the boards, runtimes and power modes that have measurements."""
    library = open_library()
    found = library.calibrations(library.catalogue())
    if args.json:
        print_json(found)
    elif not found:
        print("Nothing was measured yet: trilemma calibrate measures this machine, --attach TARGET another board.")
    else:
        heading = ("BOARD", "NAME", "RUNTIME", "MODE", "POINTS", "LAST", "MODELS", "PROVENANCE")
        print_table([heading, *map(_listed, found)])
    return 0


def _listed(one: Mapping[str, Any]) -> tuple[str, ...]:
    last = one["last_utc"]
    words = (one["board"], one["name"], one["runtime"], one["power_mode"], str(one["n_points"]))
    return (*words, DASH if isinstance(last, dict) else last[:10], " ".join(one["models"]), " ".join(one["provenance"]))


def _point(args: argparse.Namespace) -> OperatingPoint:
    """Return the operating point that names the runtime to calibrate."""
    given = {name: getattr(args, name) for name in ("runtime", "model", "weights", "kv") if getattr(args, name)}
    if given and "runtime" not in given:
        own = "Trilemma's own decoder is calibrated in all its formats"
        raise UserError(f"--{next(iter(given))} requires --runtime: {own}")
    if given and args.grid:
        raise UserError("--grid measures Trilemma's own decoder: it cannot be combined with --runtime")
    at = replace(OperatingPoint(), **given)
    try:
        load_catalogue().resolve(at)
    except ValueError as error:
        raise UserError(str(error)) from error
    return at


def _measure(
    library: BoardLibrary, board: AttachedBoard, machine: str, at: OperatingPoint, *, grid: bool
) -> tuple[list[Measurement], list[Measurement]]:
    """Measure the bandwidth and the plan or the grid, and save every result at once.

    The result is the measurements, and those of them that could not be saved.
    """
    check_measurable(at, load_catalogue(), board.hello, None)
    own = at.runtime == OperatingPoint().runtime
    if own and (reason := cannot(board.hello, "bandwidth")):
        raise UserError(reason.rstrip("."))
    found, lost, complaint = list[Measurement](), list[Measurement](), ""
    with ProgressLine() as line:
        if own or not cannot(board.hello, "bandwidth"):
            record = read_record(board.bandwidth(line.show))
            if record is not None:
                complaint = _kept(lambda: library.set_bandwidth(machine, record))
        sheet, catalogue = library.data_sheet_catalogue(board.hello), library.catalogue(board.hello)
        campaign = Campaign(_grid(at) if grid else calibration_rounds(at, sheet, at_once=True), sheet, strict=True)

        def keep(_: Run, measurement: Measurement) -> None:
            nonlocal complaint
            found.append(measurement)
            complaint = complaint or _kept(lambda: library.add(measurement))
            if complaint:
                lost.append(measurement)

        def show(run: Run, done_frac: float, text: str) -> None:
            line.show(*counted("run", run.number, campaign.n_runs, done_frac, text))

        carry_out(board, campaign, catalogue, machine, keep, show)
        if campaign.failure:
            raise UserError(campaign.failure)
    if complaint:
        print(f"trilemma calibrate: {complaint}; later measurements are in this fit only", file=sys.stderr)
    return found, lost


def _kept(save: Callable[[], None]) -> str:
    """Save a measurement and return the reason of a failure; a failed save does not end the run."""
    try:
        save()
    except FileError as error:
        return str(error)
    return ""


def _grid(at: OperatingPoint) -> tuple[Round, ...]:
    """Return the rounds of the grid.

    KV formats, policies and numbers of threads are balanced: each occurs equally often with each of the others.
    """
    plain, points = OperatingPoint(), []
    for w, n, a in product(*(range(len(values)) for values in GRID)):
        points.append(
            replace(
                plain,
                weights=GRID[0][w],
                context_tokens=GRID[1][n],
                alpha=GRID[2][a],
                kv=GRID_KV[(w + n + a) % len(GRID_KV)],
                policy=POLICIES[(7 * w + 4 * n + a) % len(POLICIES)],
                reselect_tokens=GRID_RESELECT_TOKENS[(w + a) % 2],
                power_mode=GRID_MODES[(w + n + a // 2) % 2],
            )
        )
    points.sort(key=lambda point: point.weights)
    return (Round(tuple(points), SPEED, options_again(at)),) * GRID_ROUNDS


def _calibrations(
    measurements: Sequence[Measurement], catalogue: Catalogue, at: OperatingPoint
) -> tuple[Calibration, dict[str, Calibration]]:
    """Return the calibration of a point, and of each other power mode with measured decode times."""
    calibration = calibration_of(measurements, catalogue, at)
    if calibration is None:
        raise UserError("nothing was measured on this machine yet: expected a run without --fit-only first")
    found = {}
    for mode in catalogue.boards[at.board].power_modes:
        there = replace(at, power_mode=mode)
        if not share_calibration(there, at, catalogue) and (made := calibration_of(measurements, catalogue, there)):
            found[mode] = made
    return calibration, {mode: made for mode, made in found.items() if made.posterior.n_decode}


def _all_modes(calibration: Calibration, others: Mapping[str, Calibration]) -> CrossCheck | None:
    """Return the prediction errors of decode times over all power modes."""
    return merged([one.check for one in (calibration, *others.values()) if one.check is not None])


# --- the report -------------------------------------------------------------------------------------------------------


def document(
    calibration: Calibration,
    proposal: tuple[OperatingPoint, str] | None,
    others: Mapping[str, Calibration] | None = None,
) -> dict[str, Any]:
    """Return a calibration as JSON values."""
    points = [
        {
            "point": point_record(measured.point),
            "decode_s": measured.decode_s,
            "ttft_s": measured.ttft_s,
            "decode_log_residual": None if measured.decode_s is None else float(residual),
            "outlier": bool(outlier),
        }
        for measured, residual, outlier in zip(
            calibration.points, calibration.decode_log_residual, calibration.outlier, strict=True
        )
    ]
    return {
        "bandwidth_byte_s": calibration.posterior.bandwidth_byte_s,
        "basis": calibration.posterior.basis or None,
        "busy": calibration.busy or None,
        "parameters": {
            p.key: {**_record(p.estimate), "unit": p.unit, "prior": _record(p.prior), "verdict": p.verdict}
            for p in calibration.parameters
        },
        "condition_number": calibration.condition_number,
        "leave_one_out": _check(calibration.check),
        "leave_one_out_all_modes": _check(_all_modes(calibration, others or {})),
        "modes": {mode: document(one, None) for mode, one in (others or {}).items()},
        "leave_one_out_ttft": _check(calibration.ttft_check),
        "leave_one_out_reselection": _check(calibration.reselection_check),
        "leave_one_out_power": {"rail": calibration.posterior.power_covers or None, **_check(calibration.power_check)},
        "published_formula_fitted": _check(calibration.article_check),
        "next": None if proposal is None else {"point": point_record(proposal[0]), "why": proposal[1]},
        "points": points,
    }


def _record(estimate: Estimate) -> dict[str, Any]:
    bounds = {name: float(getattr(estimate, name)) for name in ("median", "q05", "q95")}
    return {**bounds, "provenance": estimate.provenance.value}


def _check(check: CrossCheck | None) -> dict[str, Any]:
    if check is None:
        return {"absent": "fewer than three measured points"}
    return {
        "n": check.n,
        "median_error_frac": check.median_error_frac,
        "p90_error_frac": check.p90_error_frac,
        "coverage_frac": check.coverage_frac,
        "r2": check.r2,
    }


def _print(
    calibration: Calibration, proposal: tuple[OperatingPoint, str] | None, others: Mapping[str, Calibration]
) -> None:
    n_flagged = int(calibration.outlier.sum())
    print(
        f"{len(calibration.points)} measured points, {n_flagged} flagged as outliers; "
        f"bandwidth {quantity_text(calibration.posterior.bandwidth_byte_s, 'byte/s')}\n"
    )
    if calibration.posterior.basis:
        print(f"Calibrated on {calibration.posterior.basis}.\n")
    if calibration.busy:
        print(f"{calibration.busy}\n")
    rows = [("PARAMETER", "NOW", "BEFORE", "")]
    rows += [(p.meaning, _text(p.estimate, p.unit), _text(p.prior, p.unit), p.verdict) for p in calibration.parameters]
    print_table(rows)
    print("\nEach point predicted from all others (leave one out):")
    print_table(
        [
            ("", "MEDIAN ERROR", "90 % UNDER", "IN 90 % INTERVAL", "POINTS", "R2"),
            *_check_rows("decode time", calibration.check),
            *(row for mode, one in others.items() for row in _check_rows(f"decode time, {mode}", one.check)),
            *(_check_rows("decode time, all modes", _all_modes(calibration, others)) if others else ()),
            *_check_rows("time to first token", calibration.ttft_check),
            *_check_rows("token re-selection", calibration.reselection_check),
            *_check_rows(f"power ({calibration.posterior.power_covers})", calibration.power_check),
            *_check_rows("published formula, its constant fitted", calibration.article_check),
        ]
    )
    if proposal is not None:
        print(f"\nNext: {proposal[1]}.")


def _text(estimate: Estimate, unit: str) -> str:
    return str(estimate_text(float(estimate.median), float(estimate.q05), float(estimate.q95), unit))


def _check_rows(name: str, check: CrossCheck | None) -> Sequence[tuple[str, ...]]:
    if check is None:
        return []
    shares = (check.median_error_frac, check.p90_error_frac, check.coverage_frac)
    return [(name, *(quantity_text(share, "frac") for share in shares), str(check.n), f"{check.r2:.4f}")]
