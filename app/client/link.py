"""One open transport with the thread that writes to it: requests, and pings that also detect a dead link."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from app.client.messages import Role
from app.client.transport import Ended, Transport
from app.protocol import encode_control

SILENCE_S = 10.0  # without a byte from the agent the link counts as dead: it answers a ping each second
FAST_PINGS, FAST_PING_S, PING_S = 20, 0.1, 1.0


class Link:
    """A transport with a writer thread, so that whoever asks never waits for the board.

    Attributes
    ----------
    outgoing
        Messages to send.
    role
        What is at the other end: "agent", or "recording" where the transport says so.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.role: Role = getattr(transport, "role", "agent")
        self.outgoing: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._why_ended = ""
        self._nobody = False  # answered a question of ssh
        self._heard_s = time.monotonic()
        self._patience_s = getattr(transport, "patience_s", SILENCE_S)  # for the first byte
        self._writer = threading.Thread(target=self._write, name="session writer", daemon=True)
        self._writer.start()
        # while a person is asked nothing is read at the other end, and the writer may wait for that
        self._person = threading.Timer(self._patience_s, self._give_up)
        self._person.daemon = True
        if self._patience_s != SILENCE_S:
            self._person.start()

    def read(self) -> bytes:
        """Return the bytes that arrived; b"" when the link has ended."""
        try:
            data = self._transport.read()
        except (OSError, ValueError):  # closed under our hands
            return b""
        self._person.cancel()
        self._heard_s, self._patience_s = time.monotonic(), SILENCE_S
        return data

    @property
    def silent_s(self) -> float:
        """Time since the last byte arrived [s]."""
        return time.monotonic() - self._heard_s

    def ended(self) -> Ended | None:
        """Return the reason that the link ended, as far as this end knows; None where the other end closed it."""
        if self._why_ended:
            printed: Callable[[], str] | None = getattr(self._transport, "printed", None)
            words = printed() if printed else ""
            return Ended(f"{self._why_ended}; it printed: {words}" if words else self._why_ended, final=self._nobody)
        explain: Callable[[], Ended | None] | None = getattr(self._transport, "ended", None)
        return None if explain is None else explain()

    def hang_up(self) -> None:
        """End the link from any thread; `read` returns b"" soon."""
        self._transport.close()

    def close(self) -> None:
        """End the link and its writer; for the thread that reads."""
        self._person.cancel()
        self.outgoing.put(None)
        self._transport.close()
        for thread in (self._writer, self._person):
            if thread.is_alive():
                thread.join()
        while self.read():
            pass

    def _give_up(self) -> None:
        """End a link whose other end is silent."""
        asked: Callable[[], str] | None = getattr(self._transport, "unanswered", None)
        self._nobody = bool(asked and asked())
        whom = "nobody answered ssh within" if self._nobody else "the agent has been silent for"
        self._why_ended = f"{whom} {self._patience_s:g} s"
        self._transport.close()

    def _write(self) -> None:
        n_sent, n_pings = 0, 0
        try:
            while True:
                pause_s, began_s = _pause_s(n_pings), time.monotonic()
                try:
                    message = self.outgoing.get(timeout=pause_s)
                except queue.Empty:
                    if time.monotonic() - began_s > pause_s + SILENCE_S / 2:  # it was us who slept
                        self._heard_s = time.monotonic()
                    if time.monotonic() - self._heard_s > self._patience_s:
                        self._give_up()
                        return
                    n_pings += 1
                    message = {"op": "ping", "t1_ns": time.monotonic_ns()}
                if message is None:
                    return
                self._transport.write(encode_control(message, n_sent))
                n_sent += 1
        except (OSError, ValueError):  # the reader sees the end too, and reports it
            return


def _pause_s(n_pings: int) -> float:
    """Return the pause before the next ping [s]: none at first, short for a few, then constant."""
    if n_pings == 0:
        return 0.0
    return FAST_PING_S if n_pings < FAST_PINGS else PING_S
