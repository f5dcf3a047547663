"""Queue of output to the client: messages in order, and the newest sample records."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any, Deque, List, Mapping, Tuple, Union

from app.protocol import MAX_BODY_BYTE, SAMPLES, encode_control, encode_frame

MAX_MESSAGES = 1024


class Outbox:
    """A bounded buffer and the thread that empties it into `fd`, so that a stalled reader never slows the sampling.

    Of the sample records the newest `max_records` are kept; the client sees from the numbers how many it lost. More
    than `MAX_MESSAGES` messages wait only for a reader that is gone or hostile: the link is given up.

    Attributes
    ----------
    n_dropped
        Sample records that were dropped.
    """

    def __init__(self, fd: int, max_records: int = 100) -> None:
        self.n_dropped = 0
        self._fd = fd
        self._max_records = max_records
        self._messages: Deque[Union[Mapping[str, Any], bytes]] = deque()  # bytes: a frame of samples
        self._batches: Deque[Tuple[bytes, int]] = deque()  # records in one piece, and how many
        self._n_records = 0  # in the batches
        self._n_sent = 0  # messages
        self._first_record = 0  # number of the oldest record kept
        self._changed = threading.Condition()
        self._open = True

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue one control message."""
        with self._changed:
            self._append(message)

    def send_layout(self, message: Mapping[str, Any]) -> None:
        """Queue a message that changes what the records after it hold; those before it go first."""
        with self._changed:
            while self._batches:
                self._messages.append(self._frame())
            self._append(message)

    def _append(self, message: Mapping[str, Any]) -> None:
        self._messages.append(message)
        if len(self._messages) > MAX_MESSAGES:
            self._open = False
        self._changed.notify()

    def push(self, records: bytes, n: int = 1) -> None:
        """Queue `n` sample records in one piece."""
        with self._changed:
            self._batches.append((records, n))
            self._n_records += n
            while self._n_records > self._max_records and len(self._batches) > 1:
                _, n_old = self._batches.popleft()
                self._n_records -= n_old
                self._first_record += n_old
                self.n_dropped += n_old
            self._changed.notify()

    def set_max_records(self, max_records: int) -> None:
        """Change how many records wait for a stalled reader."""
        with self._changed:
            self._max_records = max_records

    def close(self) -> None:
        """End `run` after it has written the messages that wait."""
        with self._changed:
            self._open = False
            self._changed.notify()

    def run(self) -> None:
        """Write until closed or until the reader is gone."""
        try:
            while True:
                data = self._take()
                if not data:
                    return
                self._write(data)
        except OSError:
            return

    def _take(self) -> bytes:
        """Wait for something to write and return its frames; b"" when closed."""
        with self._changed:
            while self._open and not self._messages and not self._batches:
                self._changed.wait()
            frames: List[bytes] = []
            while self._messages:
                message = self._messages.popleft()
                if isinstance(message, bytes):
                    frames.append(message)
                    continue
                frames.append(encode_control(message, self._n_sent))
                self._n_sent += 1
            if self._open and self._batches:
                frames.append(self._frame())
        return b"".join(frames)

    def _frame(self) -> bytes:
        """Take as many records as one frame holds."""
        bodies, n, size = [], 0, 0
        while self._batches and size + len(self._batches[0][0]) <= MAX_BODY_BYTE[SAMPLES]:
            body, n_more = self._batches.popleft()
            bodies.append(body)
            n, size = n + n_more, size + len(body)
        frame = encode_frame(SAMPLES, self._first_record, b"".join(bodies))
        self._first_record += n
        self._n_records -= n
        return frame

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
