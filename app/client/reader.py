"""Turns the frames of one link into events, samples and, while something is recorded, what the recording gets."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app.client.budget import CHANNELS, LOG, PINGS, PROGRESS, SAME, STATE, TIMES, UNFIT, Budgets
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
from app.client.messages import (
    ENDS,
    LEVELS,
    MEASURED_LIVE,
    SIMULATED,
    Role,
    channels_of,
    check_result,
    line,
    readings,
    shown,
    sound_hello,
    sound_state,
    understood,
)
from app.measurement_body import BodyError
from app.protocol import CONTROL, SAMPLES, Frame, ProtocolError

if TYPE_CHECKING:
    from app.client.clock import Clock
    from app.client.recorder import Recorder
    from app.client.rings import Rings

MAX_SEQ = 1 << 61
AHEAD_S = 60.0
"""A sample of a live board that lies later than now by more than this was not taken by any clock that is followed."""


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
    """Reads for one session over one link. Everything is called on the session's thread.

    `role` is what the other end is: its transport says so, never the other end itself.
    """

    def __init__(self, session: Host, role: Role = "agent") -> None:
        self.connected = False
        self._session, self._role = session, role
        self._budgets = Budgets()
        self._held: dict[str, dict[str, Any]] = {}  # the latest change of channels or state, until it is allowed
        self._name, self._provenances = "the board", MEASURED_LIVE
        self._catalogue_said: list[Any] | None = None
        self._wrong: list[str] = []  # what was left out of a state or the hello, as it was said last
        self._recorder: Recorder | None = None
        self._begin = session.beginning = {}
        self._n_channels, self._n_kept = -1, 0  # columns of a record, and how many of them are kept
        self._next_record: int | None = 0  # None: after a jump of the player, any may follow
        self._offset_s = 0.0

    def take(self, frame: Frame) -> None:
        """Handle one frame; what cannot be understood becomes a line in the log, or ends the link before the hello.

        Raises
        ------
        ProtocolError
            If there was no hello yet, and this is none.
        """
        self._follow_recorder()
        self._take_held()
        if frame.kind != CONTROL:
            self._samples(frame)
            return
        try:
            message = understood(frame.body, self._role)
            if self.connected or message["op"] == "hello":
                _HANDLERS[message["op"]](self, message)
        except ProtocolError as error:
            if not self.connected:
                raise ProtocolError(f"what the agent says first is no hello: {error}") from None
            if not self._end_request(frame, error):
                self._log_line("warning", f"message from the agent ignored: {error}")

    def _end_request(self, frame: Frame, error: Exception) -> bool:
        """End a request whose answer cannot be understood; True if the frame was one."""
        try:
            message = json.loads(frame.body)
            request_id, answers = message["id"], message["op"] in ("result", "failed")
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        if not answers or type(request_id) is not int or self._session.finish(request_id) is None:
            return False
        self._emit(Failed(request_id, "failed", line(f"{self._name}: the result is not as expected: {error}")))
        return True

    def _log_line(self, level: str, text: str) -> None:
        """Say a line, as far as the budget goes."""
        if self._budgets.allows(LOG):
            self._emit(Log(level, line(text)))

    def _take_held(self) -> None:
        """Take the latest of what had to wait, and say what was left out."""
        for name, handler in ((CHANNELS, self._take_channels), (STATE, self._take_state)):
            if name in self._held and self._budgets.takes(name):
                try:
                    handler(self._held.pop(name))
                except ProtocolError as error:
                    self._log_line("warning", f"message from the agent ignored: {error}")
        beyond = self._budgets.sentence()
        if beyond:
            self._emit(Log("warning", f"{self._name}: {beyond}"))

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
        message, wrong = sound_hello(message, self._role)
        self._name = str(message["board"]["name"])
        self._provenances = SIMULATED if message.get("simulated") else MEASURED_LIVE
        self._begin["hello"] = message
        self._note(message)
        self._offset_s = message["t_ns"] * 1e-9 - time.monotonic()  # until the first pong
        self._note_clock(0.0, math.inf, None)
        self._session.rings.mark_gap()
        self._session.connected(message)
        self._left_out(wrong)

    def _left_out(self, names: list[str]) -> None:
        if names and names != self._wrong:
            self._wrong = names
            text = f"left out of what the board says of itself, since it is not as expected: {', '.join(names)}"
            self._log_line("warning", text)

    def _log(self, message: dict[str, Any]) -> None:
        level = message["level"]
        level = level if level in LEVELS else "info"
        if self._budgets.allows(LOG):
            self._note(message)
            self._emit(Log(level, message["text"]))

    def _catalogue(self, message: dict[str, Any]) -> None:
        same = message["channels"] == self._catalogue_said
        if self._budgets.allows(SAME if same else CHANNELS):
            self._take_channels(message)
        elif not same:
            self._n_channels = -1  # until it is taken, its samples cannot be read
            self._held[CHANNELS] = message

    def _take_channels(self, message: dict[str, Any]) -> None:
        self._held.pop(CHANNELS, None)
        given = channels_of(message)
        self._catalogue_said, kept = message["channels"], shown(given)
        self._n_channels = sum(not channel.absent for channel in given)
        self._begin["catalogue"] = {**message, "channels": [asdict(channel) for channel in kept]}
        self._note(self._begin["catalogue"])
        self._n_kept = self._session.set_channels(kept)
        self._emit(Catalogue(kept))
        if len(kept) < len(given):
            n, n_kept = len(given), len(kept)
            self._log_line("warning", f"{self._name}: it has {n} channels: the first {n_kept} are kept and shown")

    def _state(self, message: dict[str, Any]) -> None:
        if self._budgets.allows(STATE):
            self._take_state(message)
        else:
            self._held[STATE] = message

    def _take_state(self, message: dict[str, Any]) -> None:
        self._held.pop(STATE, None)
        state, wrong = sound_state(message["state"])
        self._begin["hello"] = {**self._begin["hello"], "state": state}
        self._note(message)
        self._emit(BoardState(state))
        self._left_out(wrong)

    def _pong(self, message: dict[str, Any]) -> None:
        if not self._budgets.allows(PINGS):
            return
        now_ns, clock = time.monotonic_ns(), self._session.clock
        jump_s = clock.add(message["t1_ns"], message["t2_ns"], message["t3_ns"], now_ns)
        reading = clock.at(now_ns)
        if not math.isfinite(reading.bound_s):
            return
        self._offset_s = reading.offset_s
        if jump_s is not None:
            self._session.rings.end_at(now_ns * 1e-9)
            self._session.rings.mark_gap()
        self._note_clock(reading.drift, reading.bound_s, jump_s)
        self._emit(ClockRead(now_ns * 1e-9, reading.offset_s, reading.bound_s, reading.drift, jump_s))

    def _samples(self, frame: Frame) -> None:
        size = 8 + 4 * self._n_channels
        if self._n_channels < 0 or not frame.body or len(frame.body) % size or frame.seq > MAX_SEQ:
            self._budgets.left_out(UNFIT)
            return
        records = np.frombuffer(frame.body, np.dtype([("t_ns", "<i8"), ("y", "<f4", (self._n_channels,))]))
        t_s = records["t_ns"] * 1e-9 - self._offset_s
        if self._role == "agent" and t_s.max() > time.monotonic() + AHEAD_S:
            self._budgets.left_out(TIMES, len(records))
            return
        values = records["y"][:, : self._n_kept]
        if self._recorder is not None:
            self._recorder.take(
                frame if self._n_kept == self._n_channels else _frame(frame.seq, records["t_ns"], values)
            )
        n_missing = 0 if self._next_record is None else frame.seq - self._next_record
        if n_missing > 0:
            self._session.n_lost += n_missing
            self._session.rings.mark_gap()
        self._next_record = frame.seq + len(records)
        self._session.rings.append(t_s, readings(values))
        self._emit(Samples(len(records), self._session.n_lost))

    def _progress(self, message: dict[str, Any]) -> None:
        if self._session.waits_for(message["id"]) and self._budgets.takes(PROGRESS):
            self._emit(Progress(message["id"], float(message["done_frac"]), message["text"]))

    def _result(self, message: dict[str, Any]) -> None:
        request = self._session.finish(message["id"])
        if request is None:
            return
        try:
            check_result(request, message["body"], self._provenances)
        except BodyError as error:
            text = f"{self._name}: the result is not as expected: {error}"
            self._emit(Failed(message["id"], "failed", line(text)))
            return
        time_utc = datetime.now(UTC).isoformat(timespec="milliseconds")
        body = self._in_our_clock(message["body"])
        self._note({"op": "measured", "request": request, "body": body, "time_utc": time_utc})
        self._emit(Result(message["id"], body))

    def _in_our_clock(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a result whose spans lie in the clock of the samples, as those of the board are put there."""
        if "spans" not in body:
            return body
        ends = ("start_s", "end_s")
        return {**body, "spans": [{**span, **{k: span[k] - self._offset_s for k in ends}} for span in body["spans"]]}

    def _failed(self, message: dict[str, Any]) -> None:
        if self._session.finish(message["id"]) is not None:
            self._note(message)
            kind = message["kind"] if message["kind"] in ENDS else "failed"
            self._emit(Failed(message["id"], kind, message["reason"]))

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


_HANDLERS: dict[str, Callable[[Reader, dict[str, Any]], None]] = {
    "hello": Reader._hello,
    "catalogue": Reader._catalogue,
    "state": Reader._state,
    "pong": Reader._pong,
    "progress": Reader._progress,
    "result": Reader._result,
    "failed": Reader._failed,
    "log": Reader._log,
    "clock": Reader._clock,
    "gap": Reader._gap,
    "markers": Reader._marked,
    "measured": Reader._measured,
    "position": Reader._position,
    "recording": lambda reader, message: None,
}
"""By the word of a message; not in the reader, which would keep itself and the samples of its session in memory."""


def _frame(seq: int, t_ns: NDArray[np.int64], values: NDArray[np.float32]) -> Frame:
    """Return a frame of samples."""
    records = np.empty(len(t_ns), np.dtype([("t_ns", "<i8"), ("y", "<f4", (values.shape[1],))]))
    records["t_ns"], records["y"] = t_ns, values
    return Frame(SAMPLES, seq, records.tobytes())
