"""Write what a session receives to a file, off the thread that receives it.

A recording is a run of protocol frames (`app.protocol`), each with its own checksum: a ``recording`` message first,
then what the board sent as it came. Frames are only ever appended, so that a cut costs the frame it hits and nothing
before it. Every frame is handed to the system at once and flushed to the disk each second: the end of the program loses
what is on its way, the end of the power a second.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app import VERSION
from app.client.transport import OpenError
from app.protocol import Frame, ProtocolError, encode_control, encode_frame

FORMAT = 1
SUFFIX = ".trilemma"
SYNC_S = 1.0
_BINARY = getattr(os, "O_BINARY", 0)  # Windows changes the ends of lines otherwise
MAX_WAITING_BYTE = 32 << 20
"""What waits for a disk that stalls; what comes beyond that is dropped and counted."""


class RecordingError(OpenError):
    """A recording cannot be made or read; the message is one sentence naming the file and the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, final=True)


def opening(t_ns: int, time_utc: datetime) -> dict[str, Any]:
    """Return the first message of a recording: the two clocks of this machine at one moment."""
    return {
        "op": "recording",
        "format": FORMAT,
        "made_by": VERSION,
        "t_ns": t_ns,
        "time_utc": time_utc.isoformat(timespec="milliseconds"),
    }


class Recorder:
    """A file that is being written. Safe to call from any thread; never waits for the disk.

    Parameters
    ----------
    path
        A new file; its folder is made.
    began
        Time of our monotonic clock [ns] and the date of what is recorded first; now when None.
    on_failed
        Called once, on the writing thread, with one sentence when the disk takes no more: the recording ends there,
        with whole frames.

    Attributes
    ----------
    n_byte
        Size of the file.
    n_dropped
        Frames that were dropped because the disk had stalled.
    failure
        Why it ended by itself; "" while it did not.

    Raises
    ------
    RecordingError
        If the file exists or cannot be made.
    """

    def __init__(
        self,
        path: Path,
        began: tuple[int, datetime] | None = None,
        on_failed: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.path, self.n_byte, self.n_dropped, self.failure = path, 0, 0, ""
        self._began_s = time.monotonic()
        self._on_failed = on_failed
        self._n_sent = 0
        self._waiting: deque[bytes] = deque()
        self._n_waiting_byte = 0
        self._changed = threading.Condition()
        self._open = True
        self._ended = threading.Event()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | _BINARY, 0o644)
        except OSError as error:
            if path.exists():
                raise RecordingError(f"{path}: exists already: expected a new file to record to") from None
            raise RecordingError(f"{path}: cannot be recorded to: {reason(error)}") from error
        self.note(opening(*(began or (time.monotonic_ns(), datetime.now(UTC)))))
        self._writer = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._syncer = threading.Thread(target=self._sync, name="recorder sync", daemon=True)
        self._writer.start()
        self._syncer.start()

    def age_s(self) -> float:
        """Return the time since it was opened [s]."""
        return time.monotonic() - self._began_s

    def take(self, frame: Frame) -> None:
        """Append a frame as it came."""
        self._append(encode_frame(*frame))

    def note(self, message: Mapping[str, Any]) -> None:
        """Append a message of our own; one that is too long for a frame is counted as dropped."""
        try:
            self._append(encode_control(message, self._n_sent))
            self._n_sent += 1
        except ProtocolError:
            self.n_dropped += 1

    def close(self) -> None:
        """Write what waits, flush it to the disk and end. May be called again."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._ended.set()
        for thread in (self._writer, self._syncer):
            if thread is not threading.current_thread():
                thread.join()
        with self._changed:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.fsync(fd)
            os.close(fd)

    def _append(self, data: bytes) -> None:
        with self._changed:
            if not self._open:
                return
            if self._n_waiting_byte + len(data) > MAX_WAITING_BYTE:
                self.n_dropped += 1
                return
            self._waiting.append(data)
            self._n_waiting_byte += len(data)
            self._changed.notify()

    def _write(self) -> None:
        try:
            while data := self._next():
                view = memoryview(data)
                while view:
                    view = view[os.write(self._fd, view) :]
                self.n_byte += len(data)
        except OSError as error:
            self._fail(error)

    def _next(self) -> bytes:
        """Wait for frames and return them; b"" when closed and all is written."""
        with self._changed:
            while self._open and not self._waiting:
                self._changed.wait()
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._n_waiting_byte = 0
        return data

    def _sync(self) -> None:
        synced = -1
        while not self._ended.wait(SYNC_S):
            if self.n_byte != synced:
                synced = self.n_byte
                try:
                    os.fsync(self._fd)
                except OSError as error:
                    self._fail(error)
                    return

    def _fail(self, error: OSError) -> None:
        """End at the last whole frame."""
        with self._changed:
            if self.failure:
                return
            self.failure = f"{self.path}: the recording ended: {reason(error)}; what was recorded before is kept"
            self._open = False
            self._waiting.clear()
        self._ended.set()
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self.n_byte)
        self._on_failed(self.failure)


def reason(error: OSError) -> str:
    """Return the operating system's message in lower case: "no space left on device"."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
