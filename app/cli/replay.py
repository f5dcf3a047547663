"""``trilemma replay FILE``: summarise a recording, or print its samples in real time."""

from __future__ import annotations

import argparse
import queue
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.output import UserError, json_text, print_json, print_table
from app.client.events import Catalogue, ClockRead, Disconnected, Event, Gap, Measured, Position, Samples
from app.client.recorder import RecordingError
from app.client.recording import Recording
from app.client.replay import ReplayTransport
from app.client.session import Session
from app.library.recorded import summary
from app.text.format import quantity_text

EXAMPLES = """examples:
  trilemma replay night.trilemma                  board, span, channels, gaps, runs
  trilemma replay night.trilemma --speed 1        its samples in real time, one JSON object a line
  trilemma replay night.trilemma --speed max      the same without waiting
  trilemma gui --attach night.trilemma            in the dashboard"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file and the speed."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a recording")
    parser.add_argument(
        "--speed", metavar="X", help="print the samples, X times as fast as recorded (0.01 to 1000), or max"
    )


def run(args: argparse.Namespace) -> int:
    """Summarise or stream the recording."""
    try:
        if args.speed is not None:
            return _stream(args.file, 0.0 if args.speed == "max" else _speed(args.speed))
        with Recording(args.file) as recording:
            found = summary(recording)
    except (RecordingError, ValueError) as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(found)
    else:
        _print(found)
    return 0


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not speed:
        raise ValueError(f"speed: got {text!r}, expected a number from 0.01 to 1000, or max")
    return speed


def _stream(path: Path, speed: float) -> int:
    """Print the samples and events of a replayed session, one JSON object a line."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    ReplayTransport(path, speed=speed).close()  # what is wrong with it is said at once
    session = Session(lambda: ReplayTransport(path, speed=speed), events.put)
    session.start()
    stream = _Lines(session)
    try:
        while not stream.take(events.get()):
            pass
    finally:
        session.stop()
    return 0


class _Lines:
    """Printer of events, and of the samples in the session's ring buffers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._keys: list[str] = []
        self._first_s = self._printed_s = -np.inf

    def take(self, event: Event) -> bool:
        """Print an event; return True at the end of the recording."""
        if isinstance(event, Catalogue):
            self._keys = [channel.key for channel in event.channels if not channel.absent]
        elif isinstance(event, Samples):
            self._samples()
        elif isinstance(event, Position):
            self._first_s = event.first_s
            return event.paused
        elif isinstance(event, Measured):
            _line({"measured": event.body, "point": event.request.get("point", {}), "time_utc": event.time_utc})
        elif isinstance(event, Gap):
            _line({"t_s": event.t_s - self._first_s, "gap": event.reason})
        elif isinstance(event, ClockRead) and event.jump_s is not None:
            _line({"t_s": event.t_s - self._first_s, "clock_jump_s": event.jump_s})
        return isinstance(event, Disconnected)

    def _samples(self) -> None:
        t_s, y = self._session.rings.records(np.nextafter(self._printed_s, np.inf), np.inf)
        for t, row in zip(t_s.tolist(), y.tolist(), strict=True):
            values = {key: value for key, value in zip(self._keys, row, strict=True) if value == value}
            if values:
                _line({"t_s": round(t - self._first_s, 9), **values})
        if len(t_s):
            self._printed_s = float(t_s[-1])


def _line(record: dict[str, Any]) -> None:
    print(json_text(record, indent=None), flush=True)


# --- text -------------------------------------------------------------------------------------------------------------


def _print(found: dict[str, Any]) -> None:
    board = found["board"]
    name = board.get("name", board.get("absent", "a board without a name"))
    simulated = " (simulated)" if found["simulated"] else ""
    began = found["began_utc"] if isinstance(found["began_utc"], str) else "at an unknown time"
    print(f"{name}{simulated}, {quantity_text(found['span_s'], 's')} from {began}")
    size = quantity_text(float(found["n_byte"]), "byte")
    print(
        f"{size}, {found['n_records']} records, {found['n_lost']} missing, {found['n_damaged_places']} damaged places"
    )
    for text in found["warnings"]:
        print(text)
    here = [channel for channel in found["channels"] if "absent" not in channel]
    rows: list[tuple[str, ...]] = [("CHANNEL", "MEAN", "LEAST", "MOST", "ENERGY")]
    print()
    print_table(rows + [_channel_row(channel) for channel in here])
    for channel in found["channels"]:
        if "absent" in channel:
            print(f"{channel['key']}: {channel['absent']}")
    for gap in found["gaps"]:
        at, length = quantity_text(gap["at_s"], "s"), quantity_text(gap["length_s"], "s")
        print(f"\nGap at {at} for {length}: {gap['reason']}", end="")
    print("\n" + _clock_text(found["clock"]))
    for run_ in found["runs"]:
        print(f"{run_['time_utc']}  {_run_text(run_)}")


def _channel_row(channel: dict[str, Any]) -> tuple[str, ...]:
    numbers = [quantity_text(channel[name], channel["unit"]) for name in ("mean", "least", "most")]
    return (channel["key"], *numbers, quantity_text(channel["energy_j"], "J") if "energy_j" in channel else "")


def _clock_text(clock: dict[str, Any]) -> str:
    if "absent" in clock:
        return f"Clock: {clock['absent']}"
    jumps = "".join(f", jumped {jump['jump_s']:+.3g} s at {jump['at_s']:.1f} s" for jump in clock["jumps"])
    return f"Clock: within {quantity_text(clock['bound_s'], 's')}, drift {clock['drift_ppm']:+z.2f} ppm{jumps}"


def _run_text(run_: dict[str, Any]) -> str:
    outputs = {key: value for key, value in run_.items() if isinstance(value, dict) and "median" in value}
    values = (f"{name} {value['median']:.4g} ({value.get('provenance', '?')})" for name, value in outputs.items())
    return f"{run_['op']}: " + ", ".join(values)
