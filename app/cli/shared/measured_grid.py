"""Measurement of a grid of points by a command, in rounds, with a journal from which interrupted runs resume."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign, counted
from app.campaign.journal import Journal
from app.campaign.plan import Round, Run
from app.cli.shared.library import open_library
from app.cli.shared.model_file import check_measurable, offered
from app.cli.shared.output import UserError
from app.cli.shared.progress import ProgressLine
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.target import Target
from app.library.axes import canonical, check_point
from app.library.files import FileError, data_dir
from app.library.machine import machine_key
from app.library.measurements import Measurement, filed
from app.library.records import point_record
from app.stopping import status_after
from core.spec import FIELDS, Catalogue, OperatingPoint

LOADED_BY = ("model", "weights", "kv", "context_tokens")
"""Fields that are costly to change between points: these vary slowest."""


@dataclass(frozen=True, slots=True)
class Work:
    """A grid to measure and its settings.

    Attributes
    ----------
    points : canonical; a repeated point is measured repeatedly in each round
    what : some of `app.protocol.WHAT`
    options : amount of measuring, see the agent protocol
    rounds : runs of each point
    model_file : another GGUF file
    keep : whether the results may join the measurements used for calibration
    """

    points: tuple[OperatingPoint, ...]
    what: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1
    model_file: Path | None = None
    keep: bool = True

    @property
    def round(self) -> Round:
        """One of the rounds."""
        return Round(self.points, self.what, self.options)

    @property
    def joins(self) -> bool:
        """Whether the results join the measurements used for calibration; those of another model file do not."""
        return self.keep and self.model_file is None

    @property
    def name(self) -> str:
        """Text that differs between works whose results are not interchangeable."""
        asked = [point_record(point) for point in self.points]
        file = None if self.model_file is None else str(self.model_file.resolve())
        return json.dumps([asked, self.what, dict(self.options), file], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of `measure_all`: measurements in the order of the points, and the failed points."""

    measured: tuple[Measurement, ...]
    failed: tuple[tuple[OperatingPoint, str], ...]
    n_from_journal: int
    status: int  # of the program, when a signal ended the measuring; else 0


def add_journal_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare the journal and its use."""
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="journal of finished points, with which the same command resumes (a file named after what is measured)",
    )
    parser.add_argument("--fresh", action="store_true", help="ignore the journal and measure all points again")


def grid(point: OperatingPoint, axes: Mapping[str, Sequence[Any]], catalogue: Catalogue) -> list[OperatingPoint]:
    """Return every combination of the axes' values as distinct canonical points, the costly changes varying slowest.

    Raises
    ------
    UserError
        A point is invalid.
    """
    order = sorted(axes, key=lambda name: name not in LOADED_BY)
    found: dict[OperatingPoint, None] = {}
    for values in product(*(axes[name] for name in order)):
        candidate: OperatingPoint = replace(point, **dict(zip(order, values, strict=True)))
        try:
            check_point(candidate, catalogue)
        except ValueError as error:
            raise UserError(str(error).removeprefix("point.")) from error
        found[canonical(candidate, catalogue)] = None
    return list(found)


def journal_file(work: Work) -> Path:
    """Return the default journal of a work."""
    return data_dir() / "sweeps" / f"{hashlib.sha256(work.name.encode()).hexdigest()[:16]}.jsonl"


def measure_all(work: Work, catalogue: Catalogue, target: Target, journal: Path | None, *, fresh: bool) -> Outcome:
    """Measure the points that are missing in the journal; each result is journalled at once.

    A signal cancels the run on the board and ends early. Points that the board cannot run are reported at the end and
    do not stop the others.

    Raises
    ------
    UserError
        The board cannot measure a point, the journal cannot be used, or the link is lost.
    """
    kept = Journal(journal or journal_file(work))
    try:
        kept.check()
    except FileError as error:
        raise UserError(str(error)) from error
    try:
        with AttachedBoard(target) as board, ProgressLine() as line:
            for point in work.points:
                check_measurable(point, catalogue, board.hello, work.model_file)
            machine = machine_key(offered(board.hello, work.model_file))
            library = open_library()
            of_board = library.catalogue(board.hello, machine, catalogue)
            if work.joins:
                library.remember_target(target.text, board.hello)
            done = [] if fresh else kept.read(work.round, machine, _say)
            n_before = len(done)
            campaign = Campaign([work.round] * work.rounds, catalogue, done, model_file=work.model_file)

            def keep(run: Run, measurement: Measurement) -> None:
                if work.joins:  # first: of a kill between the two remains a repeat, not a gap
                    library.add(measurement)
                done.append(kept.add(run, measurement))

            def show(run: Run, done_frac: float, text: str) -> None:
                line.show(*counted("point", run.number, campaign.n_runs, done_frac, text))

            status = 0
            try:
                carry_out(board, campaign, of_board, machine, keep, show)
            except KeyboardInterrupt as error:
                status = status_after(error)
        order = {point: index for index, point in enumerate(work.points)}
        found = tuple(filed(m, of_board) for m in sorted(done, key=lambda m: order[m.point]))
    except (LinkError, FileError) as error:
        raise UserError(f"{error}; the points before it are in {kept.path}") from error
    failed = tuple((point, why) for (point, _), why in campaign.failures.items())
    return Outcome(found, failed, n_before, status)


def _say(sentence: str) -> None:
    print(f"trilemma: {sentence}", file=sys.stderr)


def stopped(outcome: Outcome, work: Work) -> str:
    """Return a sentence on the progress of a run that Ctrl-C ended."""
    n_all = work.rounds * len(work.points)
    return f"stopped after {len(outcome.measured)} of {n_all} measurements; the same command resumes there"


def point_text(point: OperatingPoint) -> str:
    """Return a short description of a point for a message."""
    record = point_record(point)
    names = ("model", "weights", "kv", "context_tokens", "alpha", "policy", "layout", "reselect_tokens")
    return ", ".join(f"{name} {record[name]:g}" if isinstance(record[name], float) else record[name] for name in names)


def differing(points: Collection[OperatingPoint]) -> list[str]:
    """Return the fields in which points differ, in record order."""
    return [field.name for field in FIELDS if len({getattr(point, field.name) for point in points}) > 1]
