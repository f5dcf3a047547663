"""Turns the frames of one link into events, samples and, while something is recorded, what the recording gets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from app.client.events import (
    BoardState,
    Catalogue,
    Channel,
    ClockRead,
    Event,
    Failed,
    Gap,
    Log,
    Marked,
    Measured,
    Position,
    Progress,
    Result,
    Samples,
)
from app.client.sanitise import LEVELS, sound_hello, sound_state
from app.printable import printable_tree
from app.protocol import CONTROL, Frame, ProtocolError, decode_control

if TYPE_CHECKING:
    from app.client.clock import Clock
    from app.client.recorder import Recorder
    from app.client.rings import Rings

_RECORDED = ("hello", "catalogue", "state", "log", "failed")
"""Messages that a recording gets as they came; of others it gets what they mean."""


class Host(Protocol):
    """A session, as far as its reader uses it."""

    rings: Rings
    clock: Clock
    position: Position | None
    n_lost: int
    beginning: dict[str, Mapping[str, Any]]
    recorder: Recorder | None

    def emit(self, event: Event) -> None:
        """Hand an event to the listener."""

    def connected(self, hello: Mapping[str, Any]) -> None:
        """Take the hello of a board."""

    def waits_for(self, request_id: int) -> bool:
        """Return True if a request was sent and not answered yet."""

    def finish(self, request_id: int) -> Mapping[str, Any] | None:
        """Forget a request and return it; None where it is unknown."""

    def set_channels(self, channels: tuple[Channel, ...]) -> int:
        """Take the channels of a board and return the number that have samples."""


class Reader:
    """Reads for one session over one link. Everything is called on the session's thread."""

    def __init__(self, session: Host) -> None:
        self.connected = False
        self._session = session
        self._recorder: Recorder | None = None
        self._begin = session.beginning = {}
        self._n_channels = -1
        self._next_record: int | None = 0  # None: after a jump of the player, any may follow
        self._offset_s = 0.0
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "hello": self._hello,
            "catalogue": self._catalogue,
            "state": self._state,
            "pong": self._pong,
            "progress": self._progress,
            "result": self._result,
            "failed": self._failed,
            "log": self._log,
            "clock": self._clock,
            "gap": self._gap,
            "markers": self._marked,
            "measured": self._measured,
            "position": self._position,
            "recording": lambda message: None,
        }

    def take(self, frame: Frame) -> None:
        """Handle one frame; what cannot be understood becomes a line in the log, or ends the link before the hello.

        Raises
        ------
        ProtocolError
            If there was no hello yet, and this is none.
        """
        self._follow_recorder()
        if frame.kind != CONTROL:
            self._samples(frame)
            return
        try:
            message = printable_tree(decode_control(frame.body))
            handler = self._handlers.get(message["op"])
            if handler is None:
                raise ProtocolError(f"{message['op']} is not an answer")
            if self.connected or message["op"] == "hello":
                if self._recorder is not None and message["op"] in _RECORDED:
                    self._recorder.take(frame)
                handler(message)
        except ProtocolError as error:
            if not self.connected:
                raise ProtocolError(f"what the agent says first is no hello: {error}") from None
            self._emit(Log("warning", f"message from the agent ignored: {error}"))

    def _emit(self, event: Event) -> None:
        self._session.emit(event)

    # ---- a recording of it

    def _follow_recorder(self) -> None:
        """Begin a recording that has just been asked for with what it cannot be read without."""
        if self._session.recorder is not self._recorder:
            self._recorder = self._session.recorder
            for message in self._begin.values():
                self._note(message)

    def _note(self, message: Mapping[str, Any]) -> None:
        if self._recorder is not None:
            self._recorder.note(message)

    def _note_clock(self, drift: float, bound_s: float, jump_s: float | None) -> None:
        message = {"op": "clock", "t_ns": time.monotonic_ns(), "offset_s": self._offset_s, "drift": drift}
        if math.isfinite(bound_s):
            message["bound_s"] = bound_s
        self._begin["clock"] = message
        self._note(message if jump_s is None else {**message, "jump_s": jump_s})

    # ---- what the agent says

    def _hello(self, message: dict[str, Any]) -> None:
        if self.connected:
            return
        self.connected = True
        message, wrong = sound_hello(message)
        self._begin["hello"] = message
        self._offset_s = message["t_ns"] * 1e-9 - time.monotonic()  # until the first pong
        self._note_clock(0.0, math.inf, None)
        self._session.rings.mark_gap()
        self._session.connected(message)
        self._left_out(wrong)

    def _left_out(self, names: list[str]) -> None:
        if names:
            text = f"left out of what the board says of itself, since it is not as expected: {', '.join(names)}"
            self._emit(Log("warning", f"{text:.500}"))

    def _log(self, message: dict[str, Any]) -> None:
        level = message["level"]
        self._emit(Log(level if level in LEVELS else "info", message["text"]))

    def _catalogue(self, message: dict[str, Any]) -> None:
        channels = tuple(channel_of(record) for record in message["channels"])
        self._begin["catalogue"] = message
        self._n_channels = self._session.set_channels(channels)
        self._emit(Catalogue(channels))

    def _state(self, message: dict[str, Any]) -> None:
        state, wrong = sound_state(message["state"])
        self._begin["hello"] = {**self._begin["hello"], "state": state}
        self._emit(BoardState(state))
        self._left_out(wrong)

    def _pong(self, message: dict[str, Any]) -> None:
        now_ns, clock = time.monotonic_ns(), self._session.clock
        jump_s = clock.add(message["t1_ns"], message["t2_ns"], message["t3_ns"], now_ns)
        reading = clock.at(now_ns)
        if not math.isfinite(reading.bound_s):
            return
        self._offset_s = reading.offset_s
        if jump_s is not None:
            self._session.rings.mark_gap()
        self._note_clock(reading.drift, reading.bound_s, jump_s)
        self._emit(ClockRead(now_ns * 1e-9, reading.offset_s, reading.bound_s, reading.drift, jump_s))

    def _samples(self, frame: Frame) -> None:
        size = 8 + 4 * self._n_channels
        if self._n_channels < 0 or not frame.body or len(frame.body) % size:
            self._emit(Log("warning", "samples from the agent ignored: they do not fit the catalogue"))
            return
        if self._recorder is not None:
            self._recorder.take(frame)
        records = np.frombuffer(frame.body, np.dtype([("t_ns", "<i8"), ("y", "<f4", (self._n_channels,))]))
        n_missing = 0 if self._next_record is None else frame.seq - self._next_record
        if n_missing > 0:
            self._session.n_lost += n_missing
            self._session.rings.mark_gap()
        self._next_record = frame.seq + len(records)
        self._session.rings.append(records["t_ns"] * 1e-9 - self._offset_s, records["y"])
        self._emit(Samples(len(records), self._session.n_lost))

    def _progress(self, message: dict[str, Any]) -> None:
        if self._session.waits_for(message["id"]):
            self._emit(Progress(message["id"], float(message["done_frac"]), message["text"]))

    def _result(self, message: dict[str, Any]) -> None:
        request = self._session.finish(message["id"])
        if request is not None:
            time_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
            body = self._in_our_clock(message["body"])
            self._note({"op": "measured", "request": request, "body": body, "time_utc": time_utc})
            self._emit(Result(message["id"], body))

    def _in_our_clock(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a result whose spans lie in the clock of the samples, as those of the board are put there."""
        spans = body.get("spans")
        if not isinstance(spans, list):
            return body
        try:
            moved = [{**span, **{k: span[k] - self._offset_s for k in ("start_s", "end_s")}} for span in spans]
        except (KeyError, TypeError):
            return {**body, "spans": []}
        return {**body, "spans": moved}

    def _failed(self, message: dict[str, Any]) -> None:
        if self._session.finish(message["id"]) is not None:
            self._emit(Failed(message["id"], message["kind"], message["reason"]))

    # ---- what the player of a recording says

    def _clock(self, message: dict[str, Any]) -> None:
        self._offset_s = float(message["offset_s"])
        bound_s = float(message.get("bound_s") or math.inf)
        jump_s = message.get("jump_s")
        self._emit(ClockRead(message["t_ns"] * 1e-9, self._offset_s, bound_s, float(message["drift"]), jump_s))

    def _gap(self, message: dict[str, Any]) -> None:
        self._session.rings.mark_gap()
        self._next_record = None
        if message["reason"]:
            self._emit(Gap(message["t_ns"] * 1e-9, message["reason"]))

    def _marked(self, message: dict[str, Any]) -> None:
        self._emit(Marked(message["a_ns"] * 1e-9, message["b_ns"] * 1e-9, message["shown"]))

    def _measured(self, message: dict[str, Any]) -> None:
        self._emit(Measured(message["request"], message["body"], message["time_utc"]))

    def _position(self, message: dict[str, Any]) -> None:
        if message.get("rewound"):
            self._session.rings.clear()
            self._session.n_lost, self._next_record = 0, None
        at, first, last = (message[name] * 1e-9 for name in ("t_ns", "first_ns", "last_ns"))
        self._session.position = Position(at, first, last, float(message["speed"]), message["paused"], time.monotonic())
        self._emit(self._session.position)


def channel_of(record: Any) -> Channel:
    """Return a channel of the catalogue message.

    Raises
    ------
    ProtocolError
        If it lacks a member.
    """
    try:
        period_s, error = record.get("native_period_s"), record.get("error")
        return Channel(
            key=str(record["key"]),
            unit=str(record["unit"]),
            source=str(record["source"]),
            native_period_s=None if period_s is None else float(period_s),
            absent=str(record.get("absent", "")),
            covers=str(record.get("covers", "")),
            error=None if error is None else float(error),
            total=str(record.get("total", "")),
            part_of=str(record.get("part_of", "")),
            note=str(record.get("note", "")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"catalogue: a channel is incomplete ({error!r})") from None
