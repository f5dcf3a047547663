"""What waits to be written to the client: messages in order, and the newest sample records."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any, Mapping

from app.protocol import MAX_BODY_BYTE, SAMPLES, encode_control, encode_frame

MAX_MESSAGES = 1024
BATCH_S = 0.02


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
        self._messages: deque[Mapping[str, Any]] = deque()
        self._records: deque[bytes] = deque()
        self._n_sent = 0  # messages
        self._first_record = 0  # number of the oldest record kept
        self._changed = threading.Condition()
        self._open = True

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue one control message."""
        with self._changed:
            self._messages.append(message)
            if len(self._messages) > MAX_MESSAGES:
                self._open = False
            self._changed.notify()

    def push(self, record: bytes) -> None:
        """Queue one sample record."""
        with self._changed:
            self._records.append(record)
            if len(self._records) == 1:  # the writer waits for the first of a batch; waking it for each would cost more
                self._changed.notify()
            while len(self._records) > self._max_records:
                self._records.popleft()
                self._first_record += 1
                self.n_dropped += 1

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
        """Write until closed or until the reader is gone; samples go at most 50 times a second."""
        due_s = 0.0
        try:
            while True:
                data = self._take(due_s)
                if not data:
                    return
                due_s = time.monotonic() + BATCH_S
                self._write(data)
        except OSError:
            return

    def _take(self, due_s: float) -> bytes:
        """Wait for something to write and return its frames; b"" when closed."""
        with self._changed:
            while self._open and not self._messages:
                wait_s = due_s - time.monotonic()
                if self._records and wait_s <= 0:
                    break
                self._changed.wait(wait_s if self._records else None)
            frames = []
            while self._messages:
                frames.append(encode_control(self._messages.popleft(), self._n_sent))
                self._n_sent += 1
            if self._open and self._records:
                n = min(len(self._records), MAX_BODY_BYTE[SAMPLES] // len(self._records[0]))
                body = b"".join(self._records.popleft() for _ in range(n))
                frames.append(encode_frame(SAMPLES, self._first_record, body))
                self._first_record += n
        return b"".join(frames)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
