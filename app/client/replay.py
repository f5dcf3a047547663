"""Play a recording as if its board were attached: the other end of a session.

The request ``play`` pauses it, changes its speed or moves it. After a jump the session gets the samples that
precede the new position, as many as its rings hold, and nothing is ever played twice into them.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from app.client.recording import Piece, Recording
from app.client.rings import HOUR_AT_10_HZ
from app.protocol import (
    MAX_BODY_BYTE,
    SAMPLES,
    Decoder,
    Frame,
    ProtocolError,
    decode_control,
    encode_control,
    encode_frame,
)

PULSE_S = 0.5  # a player that stands still says so this often, so that nobody thinks it dead
FRAME_S = 0.02  # frames that came faster than this are sent together
MAX_BURST_FRAMES = 2000
SPEEDS = (0.01, 1000.0)
NOT_HERE = "this is a recording"


class ReplayTransport:
    """A recording behind the interface of a transport.

    Parameters
    ----------
    path
        The recording.
    speed
        Of its time against ours, 0.01 to 1000; 0 is as fast as it is read.

    Raises
    ------
    RecordingError
        If the file cannot be read or is no recording.
    ValueError
        If the speed is out of range.
    """

    role = "recording"

    def __init__(self, path: Path, *, speed: float = 1.0) -> None:
        self._speed, self._paused = _checked(speed), False
        self.recording = Recording(path)
        self._changed = threading.Condition()
        self._open = True
        self._answers: list[bytes] = []
        self._decoder = Decoder()
        self._n_sent = 0
        self._wanted_ns: int | None = None  # a jump that was asked for
        self._frame = 0  # the next to play
        self._place_ns, self._placed_s = self.recording.first_ns, time.monotonic()  # where it stood when
        self._played_s = 0.0  # when frames were sent last
        self._begun = False
        told = (note for op in ("measured", "markers") for note in self.recording.notes.get(op, ()))
        self._said = sorted(note.frame for note in told)  # at the beginning

    def read(self) -> bytes:
        """Return the next bytes when they are due; b"" when closed."""
        with self._changed:
            if not self._begun:
                self._begun = True
                return b"".join(self._beginning())
            while self._open:
                if self._answers:
                    answers, self._answers = self._answers, []
                    return b"".join(answers)
                if self._wanted_ns is not None:
                    return b"".join(self._jump())
                wait_s = self._wait_s()
                if wait_s <= 0:
                    return self._play()
                if not self._changed.wait(min(wait_s, PULSE_S)) and wait_s > PULSE_S:
                    return self._position()
            return b""

    def write(self, data: bytes) -> None:
        """Take what the session asks for: a position, or what a recording cannot do.

        Raises
        ------
        OSError
            If it is closed.
        """
        if not self._open:
            raise BrokenPipeError("the recording is closed")
        with self._changed:
            for frame in self._decoder.feed(data):
                try:
                    self._take(frame)
                except ProtocolError as error:
                    self._answers.append(self._control({"op": "log", "level": "warning", "text": str(error)}))
            self._changed.notify()

    def close(self) -> None:
        """End it: a `read` that waits returns."""
        with self._changed:
            self._open = False
            self._changed.notify()
            self.recording.close()

    # ---- what is asked

    def _take(self, frame: Frame) -> None:
        message = decode_control(frame.body)
        if message["op"] in ("measure", "bandwidth", "parameters"):
            failed = {"op": "failed", "id": message["id"], "kind": "failed", "reason": NOT_HERE}
            self._answers.append(self._control(failed))
        elif message["op"] == "play":
            place_ns = self._now_ns()
            try:
                speed = _checked(message.get("speed", self._speed))
            except ValueError as error:
                raise ProtocolError(str(error)) from error
            if not self._stands and self._speed:
                self._answers.append(self._due(place_ns))  # where it stands nothing before that is missing
            self._speed = speed
            self._paused = message.get("paused", self._paused)
            self._place_ns, self._placed_s = place_ns, time.monotonic()
            if "t_ns" in message:
                self._wanted_ns = min(max(message["t_ns"], self.recording.first_ns), self.recording.last_ns)
            elif not self._paused and self._frame >= len(self.recording.at_ns):
                self._wanted_ns = self.recording.first_ns  # play at the end: once more
            self._answers.append(self._position())

    # ---- what is said

    def _control(self, message: dict[str, Any]) -> bytes:
        self._n_sent += 1
        return encode_control(message, self._n_sent - 1)

    def _position(self, *, rewound: bool = False) -> bytes:
        message = {
            "op": "position",
            "t_ns": self._now_ns(),
            "first_ns": self.recording.first_ns,
            "last_ns": self.recording.last_ns,
            "speed": self._speed,
            "paused": self._stands,
        }
        return self._control({**message, "rewound": True} if rewound else message)

    @property
    def _stands(self) -> bool:
        return self._paused or self._frame >= len(self.recording.at_ns)

    def _now_ns(self) -> int:
        if self._frame >= len(self.recording.at_ns):
            return self.recording.last_ns
        if self._paused or self._speed == 0:
            return self._place_ns
        moved_ns = self._speed * (time.monotonic() - self._placed_s) * 1e9
        return min(self._place_ns + round(moved_ns), self.recording.last_ns)

    def _beginning(self) -> Iterator[bytes]:
        """First messages of an agent, completed where the recording lacks some; then all measurements."""
        recording = self.recording
        hello = dict(recording.hello) or {"protocol": 1, "agent": "?", "t_ns": 0, "board": {}, "can": {}, "models": []}
        cannot = {"absent": NOT_HERE}
        can = {**hello["can"], "measure": cannot, "bandwidth": cannot}
        opening = {key: value for key, value in recording.opening.items() if key != "op"}
        about = {"file": recording.path.name, **opening, **_clock(recording)}
        yield self._control({**hello, "op": "hello", "can": can, "recording": about})
        catalogue = recording.notes.get("catalogue")
        if catalogue:
            yield self._control(dict(catalogue[0].message))
        yield self._control({"op": "clock", "t_ns": 0, "offset_s": recording.first_offset_s, "drift": 0.0})
        yield self._position()
        for op in ("measured", "gap"):
            for note in recording.notes.get(op, ()):
                yield self._control(dict(note.message))
        for note in recording.notes.get("markers", ())[-1:]:
            yield self._control(dict(note.message))
        for text in recording.warnings:
            yield self._control({"op": "log", "level": "warning", "text": f"{recording.path.name}: {text}"})

    def _wait_s(self) -> float:
        """Return the time until the next frame is due [s]."""
        if self._stands:
            return 2 * PULSE_S
        if self._speed == 0:
            return 0.0
        due_s = self._placed_s + (int(self.recording.at_ns[self._frame]) - self._place_ns) * 1e-9 / self._speed
        return max(due_s, self._played_s + FRAME_S) - time.monotonic()

    def _due(self, place_ns: int) -> bytes:
        """Return the frames up to a position, at most a burst; they may be late, where the machine is busy."""
        first, due = self._frame, int(np.searchsorted(self.recording.at_ns, place_ns, "right"))
        self._frame = min(max(due, first), first + MAX_BURST_FRAMES)
        return self._frames(first, self._frame)

    def _play(self) -> bytes:
        """Return the frames that are due, and where that is."""
        at_ns, first = self.recording.at_ns, self._frame
        last = len(at_ns) if self._speed == 0 else int(np.searchsorted(at_ns, self._now_ns(), "right"))
        self._frame = min(max(last, first + 1), first + MAX_BURST_FRAMES, len(at_ns))
        self._played_s = time.monotonic()
        if self._speed == 0:
            self._place_ns = int(at_ns[self._frame - 1])
        return self._frames(first, self._frame) + self._position()

    def _frames(self, first: int, last: int) -> bytes:
        """Return frames as they came, without what was said at the beginning."""
        parts = []
        for frame in self._said[bisect_left(self._said, first) : bisect_left(self._said, last)]:
            parts.append(self.recording.bytes_of(first, frame))
            first = frame + 1
        parts.append(self.recording.bytes_of(first, last))
        return b"".join(parts)

    def _jump(self) -> Iterator[bytes]:
        """Stand at another position, behind the samples that precede it."""
        recording, wanted_ns = self.recording, self._wanted_ns
        assert wanted_ns is not None
        self._wanted_ns = None
        self._frame = int(np.searchsorted(recording.at_ns, wanted_ns, "right"))
        self._place_ns, self._placed_s = wanted_ns, time.monotonic()
        yield self._position(rewound=True)
        first = recording.frame_before(self._frame, HOUR_AT_10_HZ)
        yield self._control({"op": "clock", "t_ns": wanted_ns, "offset_s": 0.0, "drift": 0.0})
        frames = [note.frame for note in recording.notes.get("catalogue", ()) if first < note.frame < self._frame]
        for begin, end in zip([first, *frames], [*frames, self._frame], strict=True):
            catalogue = recording.in_force("catalogue", begin + 1)
            if catalogue is not None:
                yield self._control(dict(catalogue.message))
            for piece in recording.pieces(begin, end):
                yield from self._samples(piece)
        clock = recording.in_force("clock", self._frame)
        if clock is not None:
            yield self._control({key: value for key, value in clock.message.items() if key != "jump_s"})
        yield self._position()

    def _samples(self, piece: Piece) -> Iterator[bytes]:
        """Yield the records of a piece in the clock that recorded."""
        if not piece.joined:
            t_ns = int(piece.t_ns[0])
            yield self._control({"op": "gap", "t_ns": t_ns, "reason": ""})  # told at the beginning
        layout = np.dtype([("t_ns", "<i8"), ("y", "<f4", (piece.y.shape[1],))])
        records = np.empty(len(piece.t_ns), layout)
        records["t_ns"], records["y"] = piece.t_ns, piece.y
        n_most = MAX_BODY_BYTE[SAMPLES] // layout.itemsize
        for begin in range(0, len(records), n_most):
            yield encode_frame(SAMPLES, piece.seq + begin, records[begin : begin + n_most].tobytes())


def _clock(recording: Recording) -> dict[str, Any]:
    """Return the last clock reading of the board, for readers that do not play."""
    read = [note.message for note in recording.notes.get("clock", ()) if note.message.get("bound_s")]
    return {"clock": {name: read[-1][name] for name in ("offset_s", "bound_s", "drift")}} if read else {}


def _checked(speed: float) -> float:
    if speed != 0 and not SPEEDS[0] <= speed <= SPEEDS[1]:
        raise ValueError(f"speed: got {speed:g}, expected {SPEEDS[0]:g} to {SPEEDS[1]:g}, or 0 for all it can")
    return float(speed)
