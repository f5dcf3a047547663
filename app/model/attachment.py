"""The current session: attaching another board replaces it, and events of the old one are dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.client.events import Event

if TYPE_CHECKING:
    from app.client.session import Session

MakeSession = Callable[[Callable[[Event], None]], "Session"]
"""``make_session(on_event)`` returns a session that is not started."""


class Attachment:
    """Holds one session and lets those before it end in threads of their own: a board may take seconds to go.

    Parameters
    ----------
    hand_over : callable
        Takes the events of the current session, on its reader thread.
    make_session : callable
        Makes the first one.
    """

    def __init__(self, hand_over: Callable[[Event], None], make_session: MakeSession) -> None:
        self._hand_over = hand_over
        self._lock = threading.Lock()
        self._number = 0
        self._leaving: list[threading.Thread] = []
        self.session = self._made(make_session)

    def replace(self, make_session: MakeSession) -> None:
        """Let the session go and make another, not started; no event of the old one comes any more."""
        with self._lock:
            self._number += 1
        thread = threading.Thread(target=self.session.stop, name="detach", daemon=True)
        thread.start()
        self._leaving = [t for t in self._leaving if t.is_alive()] + [thread]
        self.session = self._made(make_session)

    def stop(self) -> None:
        """End all sessions, and wait for them."""
        self.session.stop()
        for thread in self._leaving:
            thread.join()

    def _made(self, make_session: MakeSession) -> Session:
        number = self._number

        def on_event(event: Event) -> None:
            with self._lock:
                if number == self._number:
                    self._hand_over(event)

        return make_session(on_event)
