"""Recording what the board says, and playing what was recorded: state and commands, for panels and menus."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from app.client.events import ClockRead, Connected, Disconnected, Event, Gap, Marked, Measured, Position
from app.client.recorder import SUFFIX as SUFFIX
from app.client.recorder import Recorder, RecordingError
from app.library.bandwidth import with_bandwidth
from app.library.files import FileError, data_dir
from app.library.measurements import Measurement, recorded_measurement
from app.measurement_body import moment
from app.model.state import MarkerPair
from app.model.store import Store

if TYPE_CHECKING:
    from app.client.session import Session

MAX_MARKS = 500
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 0.0)
"""What the screen offers; 0 is as fast as it can be read."""


@dataclass(frozen=True)
class Mark:
    """Something that happened to the link at a time of the samples' clock."""

    t_s: float
    text: str


def recordings_dir() -> Path:
    """Return the default folder of recordings."""
    return data_dir() / "recordings"


class Tape(QObject):
    """The recording in progress and the one being played, of the current session.

    Attributes
    ----------
    clock
        Reading of the board's clock after the last ping; None before.
    position
        Position of the player; None while a real board is attached.
    recorder
        What is being recorded; None while nothing is.
    marks
        Gaps and jumps of the clock, oldest first.
    """

    changed = Signal()  # the recorder, or what is played and whether it stands; not each step of the position
    refused = Signal(str)  # why something that was asked for has failed later, in one sentence

    def __init__(self, store: Store, session: Callable[[], Session]) -> None:
        super().__init__()
        self._store, self._session = store, session
        self.clock: ClockRead | None = None
        self.position: Position | None = None
        self.recorder: Recorder | None = None
        self.marks: deque[Mark] = deque(maxlen=MAX_MARKS)
        self._opening: Mapping[str, Any] = {}
        self._said: deque[tuple[str, str]] = deque()  # level and text, from other threads
        store.changed.connect(self._on_changed)

    # ---- recording

    def record(self, path: Path | None = None) -> str:
        """Begin to record, by default to a file named after board and time. Return why not, in one sentence, or ""."""
        if self.position is not None:
            return "A recording is open: attach a board to record it."
        try:
            self.recorder = Recorder(
                path or self._new_path(), on_failed=lambda reason: self._said.append(("error", reason))
            )
        except RecordingError as error:
            return f"{error}."
        self._session().recorder = self.recorder
        self._store.say("info", f"Recording to {self.recorder.path}")
        self.changed.emit()
        return ""

    def stop(self) -> None:
        """End the recording, if there is one. The disk may take its time: that is waited for elsewhere."""
        made, self.recorder = self.recorder, None
        if made is None:
            return
        made.note(self._markers_message())  # floating ones are where the live edge has left them
        self._session().recorder = None
        threading.Thread(target=self._close, args=(made,), name="recorder close").start()
        self.changed.emit()

    def leave(self) -> None:
        """End the recording that is made, and close the one that is played: its session goes."""
        self.stop()
        self._opening, self.position, self.clock = {}, None, None
        self.marks.clear()
        self.changed.emit()

    def _close(self, made: Recorder) -> None:
        made.close()
        if not made.failure:
            lost = f", {made.n_dropped} frames dropped because the disk was too slow" if made.n_dropped else ""
            self._said.append(("warning" if lost else "info", f"Recorded {made.n_byte} byte to {made.path}{lost}"))

    def save_buffer(self, path: Path, seconds: float) -> None:
        """Write the last seconds in memory to a new recording; `refused` has the reason of a failure."""
        session, since = self._session(), datetime.now(UTC) - timedelta(seconds=seconds)
        recent = [m for m in self._store.measurements if moment(m.time_utc) >= since]
        notes = [*map(measured_message, recent), self._markers_message()]

        def work() -> None:
            from app.client.buffer import save_buffer

            try:
                n = save_buffer(path, session, seconds, notes)
            except RecordingError as error:
                self._said.append(("error", f"{error}."))
            else:
                self._said.append(("info", f"Saved {n} records to {path}"))

        threading.Thread(target=work, name="save buffer").start()

    def _on_changed(self, path: str) -> None:
        if path == "markers" and self.recorder is not None:
            self.recorder.note(self._markers_message())

    def _markers_message(self) -> dict[str, Any]:
        """Return the markers as a recording holds them, in the samples' clock."""
        pair = self._store.get("markers")
        base_s = 0.0 if pair.pinned else self._session().now_s()
        a_ns, b_ns = (round((base_s + at_s) * 1e9) for at_s in (pair.a_s, pair.b_s))
        return {"op": "markers", "t_ns": time.monotonic_ns(), "a_ns": a_ns, "b_ns": b_ns, "shown": pair.shown}

    def _new_path(self) -> Path:
        facts = self._store.link.hello.get("board", {})
        board = str(facts.get("key") or facts.get("name", "board"))
        word = re.sub(r"[^\w.-]+", "-", board).strip("-.")[:40] or "board"
        return recordings_dir() / f"{datetime.now().astimezone():%Y-%m-%d_%H-%M-%S}_{word}{SUFFIX}"

    def check(self) -> None:
        """Take what other threads have to say; called in the GUI thread, at the frame rate."""
        while self._said:
            level, text = self._said.popleft()
            if level == "error":
                self.refused.emit(text)
            else:
                self._store.say(level, text)
        if self.recorder is not None and self.recorder.failure:
            self.stop()

    # ---- playing

    def play(self, *, t_s: float | None = None, speed: float | None = None, paused: bool | None = None) -> None:
        """Jump, change the speed, pause or go on."""
        if self.position is not None:
            self._session().play(t_s=t_s, speed=speed, paused=paused)

    def toggle(self) -> None:
        """Pause, or go on; at the end, from the beginning."""
        if self.position is not None:
            self.play(paused=not self.position.paused)

    def now_utc(self) -> datetime:
        """Return the date at the newest samples: now, or when they were recorded."""
        if self.position is None or not {"time_utc", "t_ns"} <= self._opening.keys():
            return datetime.now(UTC)
        began = moment(self._opening["time_utc"])
        return began + timedelta(seconds=self._session().now_s() - self._opening["t_ns"] * 1e-9)

    # ---- what the session says

    def take(self, event: Event) -> None:
        """Take what concerns the tape; in the GUI thread."""
        match event:
            case Connected():
                self._connected(event.hello)
            case Disconnected() if self._store.link.state == "attached":  # not each attempt after it
                self._mark(time.monotonic(), event.reason)
            case ClockRead():
                self.clock = event
                if event.jump_s is not None:
                    text = f"The board's clock jumped by {event.jump_s:+.3g} s"
                    self._mark(event.t_s, text)
                    self._store.say("warning", f"{text}.")
            case Gap():
                self._mark(event.t_s, event.reason)
            case Marked(a_s, b_s, shown):
                self._store.set("markers", MarkerPair(a_s, b_s, shown, pinned=True))
            case Measured():
                self._measured(event)
            case Position():
                self._moved(event)

    def _connected(self, hello: Mapping[str, Any]) -> None:
        self._opening = hello.get("recording", {})
        self.clock = None
        if self._opening or self.position is not None:
            self.marks.clear()
        self.position = None
        if self._opening:
            self.stop()
        self.changed.emit()

    def _mark(self, t_s: float, text: str) -> None:
        if all(abs(mark.t_s - t_s) > 1e-3 for mark in self.marks):  # a player tells it each time it passes
            self.marks.append(Mark(t_s, text))

    def _measured(self, event: Measured) -> None:
        """Show a measurement of the recording as what it was, when it was."""
        try:
            if "read_byte_s" in event.body:
                record = event.body["read_byte_s"]
                if "median" in record:
                    self._store.set_board(with_bandwidth(self._store.catalogue.boards["this"], record))
                return
            found = recorded_measurement(
                event.request, event.body, event.time_utc, self._store.machine, self._store.catalogue
            )
        except (FileError, ValueError, TypeError, KeyError, ArithmeticError) as error:
            self._store.say("warning", f"Left out of the recording: {error}")
            return
        self._store.add_measurement(found)

    def _moved(self, position: Position) -> None:
        before, self.position = self.position, position
        if before is None:  # opened: show what there is, standing at its end
            self.play(t_s=position.last_s, paused=True)
        if before is None or (before.paused, before.speed) != (position.paused, position.speed):
            self.changed.emit()


def measured_message(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement as a recording holds it."""
    from app.library.measurements import OUTPUTS_OF
    from app.library.records import point_record

    what = [part for part, names in OUTPUTS_OF.items() if any(name in measurement.body for name in names)]
    request = {"op": "measure", "point": point_record(measurement.point), "what": what}
    return {"op": "measured", "request": request, "body": dict(measurement.body), "time_utc": measurement.time_utc}
