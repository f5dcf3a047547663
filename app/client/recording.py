"""A recording that was made: what is in it, and its samples by time.

Opening reads the file once and keeps where each frame lies and when it came, some 70 bytes for each; bodies are read
again when they are wanted. Times are those of the clock that recorded (`app.client.recorder`), in nanoseconds.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.client.events import Channel
from app.client.frame_scanner import Found, Scan
from app.client.messages import channels_of, line, readings, sound_hello, understood
from app.client.recorder import FORMAT, RecordingError, reason
from app.measurement_body import moment
from app.protocol import CONTROL, CRC, HEADER, ProtocolError

_PIECE_FRAMES = 4096
_END_NS = 1 << 61  # no clock of a computer gets there

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """Records in a row: nothing is missing between them."""

    channels: tuple[Channel, ...]  # those with samples
    joined: bool  # whether nothing is missing between the piece before and this one
    seq: int  # number of the first record
    t_ns: Integers  # (n,)
    y: NDArray[np.float32]  # (n, n_channels)


@dataclass(frozen=True)
class Note:
    """A message of the recording that is kept: the clock that recorded, and the number of the frame."""

    t_ns: int
    frame: int
    message: Mapping[str, Any]


class Recording:
    """An open recording; its file may grow meanwhile, which is not seen.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    opening
        Its first message; without it, empty.
    notes
        Messages by operation: "hello", "catalogue", "clock", "gap", "measured", "log", "failed".
    at_ns, start, end
        For each frame when it came, its first byte and the one behind its last: (n,) arrays.
    scan
        What was damaged.
    n_unreadable
        Whole frames that are left out: samples whose catalogue was lost, messages that are not as expected.
    warnings
        Sentences about what is wrong with it.

    Raises
    ------
    RecordingError
        If the file cannot be read or holds no frame of a recording.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opening: Mapping[str, Any] = {}
        self.notes: dict[str, list[Note]] = {}
        self.n_unreadable, self._fault = 0, ""  # and why the first message of them is not understood
        if path.exists() and not path.is_file():
            raise RecordingError(f"{path}: not a file (a folder, a pipe or a device): expected a recording")
        try:
            self._file = path.open("rb", buffering=0)
            self._reading = threading.Lock()
            self.n_byte = os.fstat(self._file.fileno()).st_size
            self.scan = Scan(self._file)
            self._read()
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {reason(error)}") from error
        if not self.opening and not self.notes:
            self._file.close()
            raise RecordingError(
                f"{path}: holds no recording: expected a file that trilemma record or Board > Record made"
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        """Go through the file once."""
        table = _Table()
        for found in self.scan.frames():
            if found.frame.kind != CONTROL:
                self.n_unreadable += not table.add_samples(found)
                continue
            try:
                message = understood(found.frame.body, "recording")
                if message["op"] == "hello":
                    message, _ = sound_hello(message, "recording")
                elif message["op"] == "catalogue":
                    channels_of(message)
            except ProtocolError as error:  # of a newer program, or not sound
                self.n_unreadable += 1
                self._fault = self._fault or line(str(error))
                continue
            note = table.add_message(found, message)
            if message["op"] == "recording":
                self.opening = self.opening or message
            else:
                self.notes.setdefault(message["op"], []).append(note)
        self.at_ns, self.start, self.end = (np.array(column, np.int64) for column in (table.at, table.start, table.end))
        self._channels, self._first_ns = table.channels, table.first_ns
        self._frame, self._seq, self._n, self._offset_ns, self._of, self._missing = (
            np.array(column, np.int64) for column in table.samples
        )

    # ---- what is in it

    @property
    def first_ns(self) -> int:
        """When its first sample was taken; without samples, when it was begun."""
        return self._first_ns if self._frame.size else int(self.at_ns[0])

    @property
    def last_ns(self) -> int:
        """When its last frame came."""
        return max(int(self.at_ns[-1]), self.first_ns) if self.at_ns.size else self.first_ns

    @property
    def n_records(self) -> int:
        """Sample records."""
        return int(self._n.sum())

    @property
    def n_lost(self) -> int:
        """Records that are missing: dropped by the agent, or damaged here."""
        return int(self._missing.clip(0).sum())

    @property
    def first_offset_s(self) -> float:
        """By how much the agent's clock was ahead at the first samples."""
        return float(self._offset_ns[0]) * 1e-9 if self._offset_ns.size else 0.0

    @property
    def hello(self) -> Mapping[str, Any]:
        """First hello of the agent; empty where it was damaged."""
        notes = self.notes.get("hello")
        return notes[0].message if notes else {}

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The channels, as the last catalogue has them."""
        notes = self.notes.get("catalogue")
        return channels_of(notes[-1].message) if notes else ()

    @property
    def warnings(self) -> list[str]:
        """Faults of the recording, in sentences."""
        said, scan = [], self.scan
        whole = scan.n_damaged - bool(scan.torn_byte)
        if whole:
            said.append(f"{whole} damaged places with {scan.n_damaged_byte - scan.torn_byte} byte were skipped.")
        if scan.torn_byte:
            said.append(f"The end was cut: its last {scan.torn_byte} byte are no whole frame.")
        if self.n_unreadable:
            first = f"; the first message among them: {self._fault}" if self._fault else ""
            said.append(
                f"{self.n_unreadable} frames are left out: a frame that they need is damaged, or they are not as "
                f"expected{first}."
            )
        if not self.opening:
            said.append("Its first frame is damaged: the date is not known.")
        elif self.opening["format"] > FORMAT:
            said.append(f"It has format {self.opening['format']}, newer than {FORMAT}: some of it may be missing.")
        return said

    def time_utc(self, t_ns: int) -> datetime | None:
        """Return the date of a time; None where the recording does not say."""
        if not self.opening:
            return None
        began = moment(self.opening["time_utc"])
        return began + timedelta(microseconds=(t_ns - int(self.opening["t_ns"])) // 1000)

    def in_force(self, op: str, frame: int) -> Note | None:
        """Return the last message of an operation before a frame, or None."""
        return next((note for note in reversed(self.notes.get(op, ())) if note.frame < frame), None)

    # ---- its frames and samples

    def bytes_of(self, first: int, last: int) -> bytes:
        """Return the whole frames from `first` to before `last`."""
        if last <= first:
            return b""
        begins = [
            first,
            *(first + 1 + np.flatnonzero(self.start[first + 1 : last] != self.end[first : last - 1])).tolist(),
        ]
        ends = [*begins[1:], last]
        parts = zip(begins, ends, strict=True)
        return b"".join(self._bytes(int(self.start[a]), int(self.end[b - 1])) for a, b in parts)

    def frame_before(self, frame: int, n_records: int) -> int:
        """Return the frame of samples that is so many records before another one, or the first there is."""
        row = int(np.searchsorted(self._frame, frame))
        total = np.cumsum(self._n[:row][::-1])
        back = int(np.searchsorted(total, n_records))
        return int(self._frame[max(row - 1 - back, 0)]) if row else frame

    def pieces(self, first: int = 0, last: int | None = None) -> Iterator[Piece]:
        """Yield the records of the frames from `first` to before `last`."""
        low, high = np.searchsorted(self._frame, (first, len(self.at_ns) if last is None else last)).tolist()
        broken = (self._missing != 0) | (np.diff(self._of, prepend=self._of[:1]) != 0)
        broken[:1] = False
        breaks = low + np.flatnonzero(broken[low:high])
        for begin, end in pairwise(sorted({low, high, *breaks.tolist(), *range(low, high, _PIECE_FRAMES)})):
            yield self._piece(slice(begin, end), joined=not broken[begin])

    def _piece(self, rows: slice, *, joined: bool) -> Piece:
        frames = self._frame[rows]
        base = int(self.start[frames[0]])
        data = self._bytes(base, int(self.end[frames[-1]]))
        starts, ends = (self.start[frames] - base + HEADER.size).tolist(), (self.end[frames] - base - CRC.size).tolist()
        channels = self._channels[int(self._of[rows][0])]
        layout = np.dtype([("t_ns", "<i8"), ("y", "<f4", (len(channels),))])
        records = np.frombuffer(b"".join(data[a:b] for a, b in zip(starts, ends, strict=True)), layout)
        t_ns = records["t_ns"].clip(-_END_NS, _END_NS) - np.repeat(self._offset_ns[rows], self._n[rows])
        return Piece(channels, joined, int(self._seq[rows][0]), np.maximum.accumulate(t_ns), readings(records["y"]))

    def _bytes(self, start: int, end: int) -> bytes:
        parts, at = [], start
        while at < end:
            with self._reading:  # several threads ask, and not every system has pread
                self._file.seek(at)
                data = self._file.read(end - at)
            if not data:  # cut since it was opened
                parts.append(bytes(end - at))
                break
            parts.append(data)
            at += len(data)
        return b"".join(parts)


class _Table:
    """Index of frames and meaning of their samples, filled while the file is read."""

    def __init__(self) -> None:
        self.at, self.start, self.end = array("q"), array("q"), array("q")
        # of the frames with samples: frame, number of the first record, records, offset of the agent's clock, catalogue
        # and how many records are missing before it (-1: not known how many)
        self.samples = tuple(array("q") for _ in range(6))
        self.channels: list[tuple[Channel, ...]] = []
        self.first_ns = 0  # of the first sample
        self._now_ns, self._offset_ns = 0, 0
        self._next: int | None = None

    def _add(self, found: Found, t_ns: int) -> int:
        if t_ns < _END_NS:  # a file may say anything
            self._now_ns = max(self._now_ns, t_ns)
        for column, value in zip((self.at, self.start, self.end), (self._now_ns, found.start, found.end), strict=True):
            column.append(value)
        return len(self.at) - 1

    def add_message(self, found: Found, message: Mapping[str, Any]) -> Note:
        """Take a message, and what it says about the samples behind it."""
        t_ns = message.get("t_ns", self._now_ns) if message["op"] != "hello" else self._now_ns
        note = Note(max(t_ns, self._now_ns), self._add(found, t_ns), message)
        if message["op"] == "clock":
            self._offset_ns = round(max(-_END_NS, min(message["offset_s"] * 1e9, _END_NS)))
        elif message["op"] == "catalogue":
            self._set_channels(message)
        elif message["op"] in ("gap", "hello"):
            self._next = None
        return note

    def _set_channels(self, message: Mapping[str, Any]) -> None:
        present = tuple(channel for channel in channels_of(message) if not channel.absent)
        if not self.channels or [c.key for c in present] != [c.key for c in self.channels[-1]]:
            self.channels.append(present)

    def add_samples(self, found: Found) -> bool:
        """Take a frame with samples; False when it cannot be read."""
        size = 8 + 4 * len(self.channels[-1]) if self.channels else 0
        body, seq = found.frame.body, found.frame.seq
        if not size or not body or len(body) % size:
            return False
        n = len(body) // size
        last_ns = int.from_bytes(body[(n - 1) * size : (n - 1) * size + 8], "little", signed=True)
        missing = -1 if self._next is None else seq - self._next
        if seq >= _END_NS:
            return False
        if not self.samples[0]:
            self.first_ns = max(-_END_NS, int.from_bytes(body[:8], "little", signed=True) - self._offset_ns)
        frame = self._add(found, last_ns - self._offset_ns)
        row = (frame, seq, n, self._offset_ns, len(self.channels) - 1, missing)
        for column, value in zip(self.samples, row, strict=True):
            column.append(value)
        self._next = seq + n
        return True
