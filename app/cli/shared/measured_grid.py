"""Measuring many points one after the other: journalled, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from app.cli.shared.library import open_library
from app.cli.shared.model_file import check_measurable, offered
from app.cli.shared.output import UserError
from app.cli.shared.progress import ProgressLine
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.target import Target
from app.library.axes import canonical, check_point
from app.library.files import FileError, data_dir, reason
from app.library.machine import machine_key
from app.library.measurements import (
    OUTPUTS_OF,
    Measurement,
    answers,
    append_measurement,
    filed,
    load_measurements,
)
from app.library.records import point_record
from core.spec import Catalogue, OperatingPoint

LOADED_BY = ("model", "weights", "kv", "context_tokens")
"""What it takes long to change between two points: these vary slowest."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be measured of which points.

    Attributes
    ----------
    points : canonical; one that is there twice is measured twice a round
    what : some of `app.protocol.WHAT`
    options : how much is measured, see the board's protocol
    rounds : how often each point is measured
    model_file : another GGUF file
    keep : whether the results join the measurements that calibration uses
    """

    points: tuple[OperatingPoint, ...]
    what: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1
    model_file: Path | None = None
    keep: bool = True

    @property
    def name(self) -> str:
        """Text that differs between works whose results cannot stand for each other."""
        asked = [point_record(point) for point in self.points]
        file = None if self.model_file is None else str(self.model_file.resolve())
        return json.dumps([asked, self.what, dict(self.options), file], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run of `measure_all` found: measurements in the order of the points, and the points that failed."""

    measured: tuple[Measurement, ...]
    failed: tuple[tuple[OperatingPoint, str], ...]
    n_from_journal: int
    complete: bool  # False when Ctrl-C ended it


def add_journal_arguments(parser: argparse._ActionsContainer) -> None:
    """Declare where the journal is and whether it is used."""
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="where finished points are kept at once (a file named after what is measured); the same command goes on",
    )
    parser.add_argument("--fresh", action="store_true", help="measure all points again, whatever the journal has")


def grid(point: OperatingPoint, axes: Mapping[str, Sequence[Any]], catalogue: Catalogue) -> list[OperatingPoint]:
    """Return every combination of the axes' values as canonical points, each once, costly changes last.

    Raises
    ------
    UserError
        A point that cannot be.
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
    """Return the journal of a work for which none is named."""
    return data_dir() / "sweeps" / f"{hashlib.sha256(work.name.encode()).hexdigest()[:16]}.jsonl"


def measure_all(work: Work, catalogue: Catalogue, target: Target, journal: Path | None, *, fresh: bool) -> Outcome:
    """Measure what the journal does not have yet; each result is in it as soon as it is there.

    Ctrl-C cancels the run on the board and ends early. A point that the board cannot run is told at the end, the
    others go on.

    Raises
    ------
    UserError
        A point this board cannot measure, a journal that cannot be used, or a lost link.
    """
    journal = journal or journal_file(work)
    _check_writable(journal)
    try:
        with AttachedBoard(target) as board, ProgressLine() as line:
            for point in work.points:
                check_measurable(point, catalogue, board.hello, work.model_file)
            machine = machine_key(offered(board.hello, work.model_file))
            library = open_library()
            catalogue = library.catalogue(board.hello, machine, catalogue)
            if work.keep and work.model_file is None:
                library.remember_target(target.text, board.hello)
            done = [] if fresh else _journalled(work, journal, machine)
            n_before = len(done)
            complete, failed = _carry_out(work, board, line, machine, journal, done, catalogue)
    except (LinkError, FileError) as error:
        raise UserError(f"{error}; the points before it are in {journal}") from error
    order = {point: index for index, point in enumerate(work.points)}
    done.sort(key=lambda m: order[m.point])
    return Outcome(tuple(filed(m, catalogue) for m in done), tuple(failed.items()), n_before, complete)


def _check_writable(journal: Path) -> None:
    """Refuse a journal that cannot be written before anything is measured; nothing is left of the trial."""
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        is_new = not journal.exists()
        with journal.open("a", encoding="utf-8"):
            pass
        if is_new:
            journal.unlink()
    except OSError as error:
        raise UserError(f"journal: got {journal}, expected a file that can be written: {reason(error)}") from error


def _carry_out(
    work: Work,
    board: AttachedBoard,
    line: ProgressLine,
    machine: str,
    journal: Path,
    done: list[Measurement],
    catalogue: Catalogue,
) -> tuple[bool, dict[OperatingPoint, str]]:
    """Measure what is missing from `done` into it, at the points asked for.

    Returns whether all was tried, and why points failed.
    """
    failed: dict[OperatingPoint, str] = {}
    try:
        for point in _missing(work, done):
            if point in failed:
                continue
            try:
                measurement = _measure(work, board, line, point, machine, len(done))
            except LinkError as error:
                if error.kind != "failed":
                    raise
                failed[point] = str(error)
                continue
            with _uninterrupted():
                done.append(measurement)
                append_measurement(journal, measurement)
                if work.keep and work.model_file is None:
                    open_library().add(filed(measurement, catalogue))
    except KeyboardInterrupt:
        return False, failed
    return True, failed


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until what is inside is done: a measurement is kept everywhere or nowhere."""
    came = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _missing(work: Work, done: Sequence[Measurement]) -> list[OperatingPoint]:
    """Return the points to measure, in rounds, each as often as it was not measured yet."""
    counts, missing = Counter(measurement.point for measurement in done), []
    for point in work.points * work.rounds:
        counts[point] -= 1
        if counts[point] < 0:
            missing.append(point)
    return missing


def _journalled(work: Work, journal: Path, machine: str) -> list[Measurement]:
    """Return the measurements of the work's points that a journal has, complete ones only."""
    saved, _ = load_measurements(journal, machine)
    wanted = {OUTPUTS_OF[name][0] for name in work.what}
    points = set(work.points)
    return [
        m
        for m in saved
        if m.point in points
        and wanted <= set(m.body)
        and m.body.get("conditions", {}).get("options", {}) == work.options
    ]


def _measure(
    work: Work, board: AttachedBoard, line: ProgressLine, point: OperatingPoint, machine: str, n_done: int
) -> Measurement:
    n_all = work.rounds * len(work.points)

    def show(done_frac: float, text: str) -> None:
        line.show((n_done + done_frac) / n_all, f"point {n_done + 1} of {n_all}: {text}")

    path = None if work.model_file is None else str(work.model_file.resolve())
    body = board.measure(point_record(point), work.what, show, model_file=path, options=work.options)
    found = answers(body, work.what)
    if work.options:
        found["conditions"] = {**found.get("conditions", {}), "options": dict(work.options)}
    return Measurement(point, found, datetime.now(UTC).isoformat(timespec="milliseconds"), machine)


def stopped(outcome: Outcome, work: Work) -> str:
    """Return in a sentence how far a run came that Ctrl-C ended."""
    n_all = work.rounds * len(work.points)
    return f"stopped after {len(outcome.measured)} of {n_all} measurements; the same command goes on from there"


def point_text(point: OperatingPoint) -> str:
    """Return a point in a few words, for a message."""
    record = point_record(point)
    names = ("model", "weights", "kv", "context_tokens", "alpha", "policy", "layout", "reselect_tokens")
    return ", ".join(f"{name} {record[name]:g}" if isinstance(record[name], float) else record[name] for name in names)


def differing(points: Collection[OperatingPoint]) -> list[str]:
    """Return the fields in which points differ, in the order of the record."""
    records = [point_record(point) for point in points]
    return [name for name in records[0] if len({record[name] for record in records}) > 1] if records else []
