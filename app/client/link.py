"""One open transport with the thread that writes to it: requests, and pings that also tell a dead link."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

from app.client.transport import Transport
from app.protocol import encode_control

SILENCE_S = 10.0  # without a byte from the agent the link counts as dead: it answers a ping each second
FAST_PINGS, FAST_PING_S, PING_S = 20, 0.1, 1.0


class Link:
    """A transport with a writer thread, so that whoever asks never waits for the board.

    Attributes
    ----------
    outgoing
        Messages to send.
    why_ended
        Why this end gave up; "" when the other end did.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.outgoing: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.why_ended = ""
        self._heard_s = time.monotonic()
        self._writer = threading.Thread(target=self._write, name="session writer", daemon=True)
        self._writer.start()

    def read(self) -> bytes:
        """Return what arrived; b"" when the link has ended."""
        try:
            data = self._transport.read()
        except (OSError, ValueError):  # closed under our hands
            return b""
        self._heard_s = time.monotonic()
        return data

    def hang_up(self) -> None:
        """End the link from any thread; `read` returns b"" soon."""
        self._transport.close()

    def close(self) -> None:
        """End the link and its writer; for the thread that reads."""
        self.outgoing.put(None)
        self._transport.close()
        self._writer.join()
        while self.read():
            pass

    def _write(self) -> None:
        n_sent, n_pings = 0, 0
        try:
            while True:
                try:
                    message = self.outgoing.get(timeout=_pause_s(n_pings))
                except queue.Empty:
                    if time.monotonic() - self._heard_s > SILENCE_S:
                        self.why_ended = f"the agent has been silent for {SILENCE_S:g} s"
                        self._transport.close()
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
    """Return how long after so many pings the next one follows: the first at once, then quickly, then steadily."""
    if n_pings == 0:
        return 0.0
    return FAST_PING_S if n_pings < FAST_PINGS else PING_S
