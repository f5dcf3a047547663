"""Runs slow work in a thread; newer requests replace pending ones (latest wins)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer

POLL_MS = 16

Work = Callable[[], Any]
Done = Callable[[Any], None]


class Background(QObject):
    """Runs one piece of work at a time; a request meanwhile waits, and a newer one replaces it.

    The result, or the `ValueError` that the work raised, is passed on in the requesting thread.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._finished: deque[tuple[Done, Any]] = deque()
        self._next: tuple[Work, Done] | None = None
        self._running = False
        self._poll = QTimer(self, interval=POLL_MS)
        self._poll.timeout.connect(self._collect)

    @property
    def busy(self) -> bool:
        """Whether work runs or waits."""
        return self._running or self._next is not None

    def run(self, work: Work, done: Done) -> None:
        """Run `work` in the thread and call `done` with its result, unless a newer request replaces it."""
        self._next = (work, done)
        self._start()

    def _start(self) -> None:
        if self._running or self._next is None:
            return
        (work, done), self._next, self._running = self._next, None, True

        def call() -> None:
            result: Any = ValueError("it failed; the traceback is on stderr")
            try:
                result = work()
            except ValueError as error:
                result = error
            finally:
                self._finished.append((done, result))

        threading.Thread(target=call, name="background", daemon=True).start()
        self._poll.start()

    def _collect(self) -> None:
        if not self._finished:
            return
        done, result = self._finished.popleft()
        self._running = False
        if self._next is None:
            self._poll.stop()
            done(result)
        else:
            self._start()  # what is finished is of an older wish
