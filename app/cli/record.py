"""``trilemma record TARGET FILE``: write everything a board reports to a file, over reconnects, until stopped."""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import time
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError, print_json
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import FORMS, add_ssh_config, target_from
from app.client.events import Catalogue, Connected, Disconnected, Event, Log, Samples
from app.client.recorder import SUFFIX, Recorder, RecordingError
from app.client.session import Session
from app.protocol import RATE_RANGE_HZ
from app.text.format import counted, parse_quantity, quantity_text

EXAMPLES = """examples:
  trilemma record user@orin night.trilemma                  until Ctrl-C
  trilemma record this idle.trilemma --seconds 60 --rate 100Hz
  trilemma replay night.trilemma                            summary of the recording"""
MOST_S = 30 * 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the board, the file, the duration and the rate."""
    parser.add_argument("target", metavar="TARGET", help=FORMS)
    parser.add_argument("file", metavar="FILE", type=Path, help=f"a new file, *{SUFFIX} by convention")
    parser.add_argument("--seconds", metavar="N", help="duration (until Ctrl-C)")
    parser.add_argument("--rate", metavar="HZ", help="samples per second, 0.1 to 1000 (10, the agent's default)")
    add_ssh_config(parser)


def run(args: argparse.Namespace) -> int:
    """Record, then print a summary."""
    try:
        seconds = (
            None if args.seconds is None else parse_quantity(args.seconds, "s", name="seconds", low=0.1, high=MOST_S)
        )
        low, high = RATE_RANGE_HZ
        rate_hz = None if args.rate is None else parse_quantity(args.rate, "Hz", name="rate", low=low, high=high)
    except ValueError as error:
        raise UserError(str(error)) from error
    target = target_from(args.target, args.ssh_config)
    try:
        recorder = Recorder(args.file)
    except RecordingError as error:
        raise UserError(str(error)) from error
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    session = Session(target, events.put)
    session.recorder = recorder
    watch = _Watch(recorder, target.patience_s)
    if rate_hz is not None:
        session.subscribe(rate_hz)
    try:
        session.start()
        with ProgressLine() as line:
            watch.follow(events, line, seconds)
    except KeyboardInterrupt:
        if not watch.n_links:
            recorder.path.unlink(missing_ok=True)
            raise
    finally:
        session.recorder = None
        session.stop()
        recorder.close()
    return _report(args, watch, recorder)


class _Watch:
    """Follows a session during a recording."""

    def __init__(self, recorder: Recorder, patience_s: float) -> None:
        self._recorder, self._patience_s = recorder, patience_s
        self.n_records = self.n_lost = self.n_links = 0
        self.reason = ""
        self._began_s = 0.0

    def follow(self, events: queue.SimpleQueue[Event], line: ProgressLine, seconds: float | None) -> None:
        """Follow until the time is over, the recording ends, or attaching fails for good."""
        began_s = time.monotonic()
        while not self._recorder.failure:
            left_s = 0.5
            if seconds is not None and self.n_links:  # the time runs from the first link on
                left_s = min(0.5, seconds - (time.monotonic() - self._began_s))
            if left_s <= 0:
                return
            with contextlib.suppress(queue.Empty):
                self._take(events.get(timeout=left_s), line)
            if self.reason or (not self.n_links and time.monotonic() - began_s > self._patience_s):
                self.reason = self.reason or "the agent does not answer"
                return

    def _take(self, event: Event, line: ProgressLine) -> None:
        if isinstance(event, Samples):
            self.n_records += event.n_new
            self.n_lost = event.n_lost
            size = quantity_text(float(self._recorder.n_byte), "byte")
            if sys.stderr.isatty():
                line.show(0.0, f"{self.n_records} records, {size}; Ctrl-C ends")
        elif isinstance(event, Connected):
            self._began_s = time.monotonic() if not self.n_links else self._began_s
            self.n_links += 1
        elif isinstance(event, Disconnected):
            if not self.n_links or event.retry_in_s is None:
                self.reason = event.reason
            else:
                print(f"{event.reason}; reconnecting", file=sys.stderr)
        elif isinstance(event, Log) and event.level != "info":
            print(event.text, file=sys.stderr)
        elif isinstance(event, Catalogue) and sys.stderr.isatty():
            line.show(0.0, counted(sum(not c.absent for c in event.channels), "channel"))


def _report(args: argparse.Namespace, watch: _Watch, recorder: Recorder) -> int:
    if not watch.n_links:
        recorder.path.unlink(missing_ok=True)
        ended = recorder.failure.partition(";")[0] or watch.reason
        raise UserError(ended or "stopped before the board was attached: nothing was recorded")
    report: dict[str, Any] = {
        "file": str(recorder.path),
        "n_byte": recorder.n_byte,
        "n_records": watch.n_records,
        "n_lost": watch.n_lost,
        "n_links": watch.n_links,
        "n_dropped_frames": recorder.n_dropped,
        "ended": recorder.failure or watch.reason or {"absent": "it was stopped"},
    }
    if args.json:
        print_json(report)
    else:
        size = quantity_text(float(recorder.n_byte), "byte")
        records, links = counted(watch.n_records, "record"), counted(watch.n_links, "link")
        print(f"{recorder.path}: {size}, {records}, {watch.n_lost} lost, over {links}")
        if recorder.failure or watch.reason:
            print(recorder.failure or watch.reason, file=sys.stderr)
    return 1 if recorder.failure else 0
