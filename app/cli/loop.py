"""``trilemma loop``: follow a board: measure a point again and again, correct the predictions, raise alarms."""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign
from app.campaign.plan import Round, Run
from app.cli.shared.library import open_library
from app.cli.shared.model_file import check_measurable
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import add_board_as, add_target_options, check_board_as, choose_sheet, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.library.board_library import BoardLibrary
from app.library.calibration import Fit, fit
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.measurements import Measurement
from app.library.records import output_record, point_record
from app.text.format import DASH, estimate_text, quantity_text
from app.text.loop_text import loop_record, percent, state_sentence, term_rows
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Prediction

WHAT = ("ttft", "decode")
MOST_EVERY_S = 604_800.0

EXAMPLES = """examples:
  trilemma loop                                              the state: drift, alarm, next measurement; measures nothing
  trilemma loop --rounds 20 --every 60                       measure the point each minute and follow the board
  trilemma loop --attach sim:raspberry_pi_5,cooling=bare,accelerate=20 --rounds 30
  trilemma loop --rounds 10 --propose --json                 measure what tells most of a drift while there is one"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the board, the point, and how often it is measured."""
    add_target_options(parser)
    add_board_as(parser)
    parser.add_argument(
        "--rounds", type=int, default=0, metavar="N", help="measurements to make (0: only show the state)"
    )
    parser.add_argument("--every", type=float, default=0.0, metavar="S", help="seconds from one to the next (0)")
    parser.add_argument("--propose", action="store_true", help="in an alarm, measure the proposed point in place of it")
    add_point_arguments(parser)


@dataclass
class _Watch:
    """One board that is followed, with the rounds so far."""

    library: BoardLibrary
    catalogue: Catalogue
    machine: str
    point: OperatingPoint
    unsaved: list[Measurement] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    fit: Fit | None = None
    fit_s: float = 0.0

    def update(self) -> None:
        """Fit again to all measurements."""
        start_s = time.perf_counter()
        try:
            self.fit = fit(
                self.library.evidence(self.catalogue, self.machine, self.unsaved), self.catalogue, self.point
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        self.fit_s = time.perf_counter() - start_s

    def predicted(self, point: OperatingPoint, *, corrected: bool = True) -> Prediction:
        """Return the prediction of a point, with or without the correction by the newest measurements."""
        posterior = None if self.fit is None else self.fit.calibration.posterior
        if posterior is not None and not corrected:
            posterior = replace(posterior, correction=None)
        return predict(point, self.catalogue, posterior)

    def keep(self, measurement: Measurement) -> None:
        """Save a measurement; one that cannot be saved counts in this run only."""
        try:
            self.library.add(measurement)
        except FileError as error:
            if not self.unsaved:
                print(f"trilemma loop: {error}; measurements count in this run only", file=sys.stderr)
            self.unsaved.append(measurement)

    @property
    def record(self) -> dict[str, Any]:
        """The state as JSON values."""
        calibration = None if self.fit is None else self.fit.calibration
        before, after = (self.predicted(self.point, corrected=c).decode_s for c in (False, True))
        state = loop_record(
            None if self.fit is None else self.fit.loop,
            None if self.fit is None else self.fit.proposal,
            "" if calibration is None else calibration.busy,
        )
        return {
            "point": point_record(self.point),
            "calibrated_decode_s": output_record(before),
            "corrected_decode_s": output_record(after),
            "update_s": self.fit_s,
            "rounds": self.rounds,
            **state,
        }


def run(args: argparse.Namespace) -> int:
    """Follow the board and report."""
    check_board_as(args.board_as)
    if args.rounds < 0 or not 0.0 <= args.every <= MOST_EVERY_S:
        raise UserError(f"--rounds and --every: expected 0 or more rounds, and 0 to {MOST_EVERY_S:g} s between them")
    point, library = point_from(args, load_catalogue()), open_library()
    try:
        with AttachedBoard(target_from(args.attach, args.ssh_config)) as board:
            choose_sheet(library, args.board_as, board.hello)
            machine = machine_key(board.hello)
            watch = _Watch(library, library.catalogue(board.hello), machine, point)
            watch.update()
            if args.rounds:
                check_measurable(point, watch.catalogue, board.hello, None)
                _follow(watch, board, args)
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(watch.record)
    else:
        _print(watch)
    return 0


def _follow(watch: _Watch, board: AttachedBoard, args: argparse.Namespace) -> None:
    due_s = time.monotonic()
    for _ in range(args.rounds):
        time.sleep(max(due_s - time.monotonic(), 0.0))
        due_s = time.monotonic() + args.every
        point, found = _next_point(watch, propose=args.propose), list[Measurement]()
        before = watch.predicted(point)
        campaign = Campaign([Round((point,), WHAT)], watch.catalogue)
        with ProgressLine() as line:

            def keep(_: Run, measurement: Measurement, found: list[Measurement] = found) -> None:
                found.append(measurement)
                watch.keep(measurement)

            def show(_: Run, done_frac: float, text: str, line: ProgressLine = line) -> None:
                line.show(done_frac, text)

            carry_out(board, campaign, watch.catalogue, watch.machine, keep, show)
        if campaign.failure:
            raise UserError(campaign.failure)
        watch.update()
        watch.rounds.append(_round(watch, found[0], before))
        if not args.json:
            print(_line(watch.rounds[-1]), flush=True)


def _next_point(watch: _Watch, *, propose: bool) -> OperatingPoint:
    if propose and watch.fit and watch.fit.loop and watch.fit.loop.alarm and watch.fit.proposal:
        return watch.fit.proposal[0]
    return watch.point


def _round(watch: _Watch, measurement: Measurement, before: Prediction) -> dict[str, Any]:
    measured = measurement.output("decode_s")
    after = watch.predicted(measurement.point).decode_s
    loop = None if watch.fit is None else watch.fit.loop
    error = None
    if isinstance(measured, Estimate) and isinstance(after, Estimate):
        error = float(after.median / measured.median - 1.0)
    return {
        "time_utc": measurement.time_utc,
        "point": point_record(measurement.point),
        "measured_decode_s": output_record(measured),
        "predicted_before_decode_s": output_record(before.decode_s),
        "predicted_after_decode_s": output_record(after),
        "error_after_frac": error,
        "shift_frac": None if loop is None else math.expm1(loop.shift_log),
        "alarm": None if loop is None else loop.alarm or None,
        "update_s": watch.fit_s,
    }


def _line(one: dict[str, Any]) -> str:
    words = [f"{one['time_utc'][11:19]} UTC"]
    for name in ("measured", "predicted_before", "predicted_after"):
        words.append(f"{name.replace('_', ' ')} {_brief(one[f'{name}_decode_s'])}")
    if one["alarm"]:
        words.append(f"ALARM: {one['alarm']}")
    return "; ".join(words)


def _brief(record: dict[str, Any]) -> str:
    if "absent" in record:
        return DASH
    return str(estimate_text(record["median"], record["q05"], record["q95"], "s"))


def _print(watch: _Watch) -> None:
    found = watch.fit
    loop, busy = (None, "") if found is None else (found.loop, found.calibration.busy)
    print(f"{'' if not watch.rounds else chr(10)}{state_sentence(loop, busy)}")
    if loop is not None:
        rows: list[tuple[str, ...]] = [("TERM", "ITS TIME NOW, IF IT ALONE MOVED", "PROBABILITY"), *term_rows(loop)]
        print()
        print_table(rows)
        before, after = (watch.predicted(watch.point, corrected=c).decode_s for c in (False, True))
        if not isinstance(before, Absent) and not isinstance(after, Absent):
            texts = (estimate_text(float(e.median), float(e.q05), float(e.q95), "s") for e in (before, after))
            print("\nDecode time of the point: calibrated {}, corrected {}.".format(*texts))
        print(f"The board drifts by {percent(loop.shift_log)}; the update took {quantity_text(watch.fit_s, 's')}.")
    if found is not None and found.proposal is not None:
        print(f"\nNext: {found.proposal[1]}.")
