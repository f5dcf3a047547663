"""A log of tegrastats as a recording, for `trilemma data import`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from app.agent.channel import Channel
from app.agent.sensors.totals import mark
from app.cli.shared.output import UserError, print_json
from app.client.recorder import SUFFIX, Recorder, RecordingError
from app.library.files import FileError, read_whole
from app.library.imported import MAX_BYTE
from app.library.imports.tegrastats_log import TegrastatsLog, is_tegrastats, read_log
from app.protocol import SAMPLES, Frame, record_struct
from app.text.format import counted, parse_quantity, quantity_text
from core.catalogue.text_files import text_of

_BEGIN_NS = 10**9  # of the clock of the recording
_SHOWN = 5


def is_log(path: Path) -> bool:
    """Return whether a file is a log of tegrastats."""
    try:
        if not path.is_file():  # what a pipe gave cannot be read again
            return False
        with path.open("rb") as file:
            return is_tegrastats(file.read(1 << 16).decode("utf-8", "replace"))
    except OSError:
        return False


def import_log(args: argparse.Namespace) -> int:
    """Write the log as a recording, and say what it holds."""
    if args.provenance or args.board:
        raise UserError("--board and --provenance apply to tables: a log of tegrastats becomes a recording")
    if args.into is None or args.into.suffix != SUFFIX:
        got = args.into or "nothing"
        raise UserError(f"--into: got {got}, expected a new file *{SUFFIX}: a log of tegrastats becomes a recording")
    try:
        interval_s = args.interval and parse_quantity(args.interval, "s", name="interval", low=1e-3, high=3600.0)
        log = read_log(text_of(read_whole(args.file, MAX_BYTE, pipes=True)), interval_s)
        write(log, args.into, args.file)
    except ValueError as error:
        raise UserError(f"{args.file}: {error}") from error
    except (FileError, RecordingError) as error:
        raise UserError(str(error)) from error
    notes = [] if log.began else [f"no dates: lines count as {quantity_text(log.interval_s, 's')} apart"]
    if log.left_out:
        shown = ", ".join(map(str, log.left_out[:_SHOWN])) + (", ..." if len(log.left_out) > _SHOWN else "")
        notes.append(f"line {shown}: got no fields of tegrastats; left out")
    if args.json:
        names = [key for key, _ in log.channels]
        print_json({"file": str(args.into), "n_records": len(log.time_s), "channels": names, "notes": notes})
        return 0
    records, channels = counted(len(log.time_s), "record"), counted(len(log.channels), "channel")
    print(f"{args.into}: {records} of {channels}, {quantity_text(float(log.time_s[-1]), 's')}")
    for note in notes:
        print(note, file=sys.stderr)
    return 0


def write(log: TegrastatsLog, path: Path, source: Path) -> None:
    """Write a log as a recording, its channels named and added up as those of a live board.

    Raises
    ------
    RecordingError
        The file exists, or cannot be written whole.
    """
    channels = [
        Channel(f"tegrastats.{key}", unit, "tegrastats", native_period_s=log.interval_s) for key, unit in log.channels
    ]
    mark(channels, "")
    began = log.began or datetime.fromtimestamp(source.stat().st_mtime, UTC)
    recorder = Recorder(path, (_BEGIN_NS, began))
    hello = {"op": "hello", "protocol": 1, "agent": "tegrastats log", "t_ns": _BEGIN_NS, "can": {}, "models": []}
    recorder.note({**hello, "board": {"name": f"NVIDIA Jetson ({source.name})"}})
    catalogue = {"op": "catalogue", "channels": [channel.message() for channel in channels]}
    recorder.note({**catalogue, "rate_hz": 1.0 / log.interval_s})
    pack = record_struct(len(channels)).pack
    t_ns = np.round(1e9 * log.time_s).astype(np.int64) + _BEGIN_NS
    for i, (at_ns, row) in enumerate(zip(t_ns.tolist(), log.values.tolist(), strict=True)):
        recorder.take(Frame(SAMPLES, i, pack(at_ns, *row)))
    recorder.close()
    if recorder.failure:
        raise RecordingError(recorder.failure)
