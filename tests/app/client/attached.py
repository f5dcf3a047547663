"""A session to a real agent on this machine, and its events."""

import contextlib
import queue
import time

from app.client.events import Failed, Result
from app.client.session import Session
from app.client.transport import LocalTransport
from tests.waiting import PATIENCE_S

POINT = {
    "weights": "fp32",
    "kv": "bf16",
    "context_tokens": 2048,
    "alpha": 0.0,
    "policy": "sinks_recent",
    "layout": "compacted",
}


class Attached:
    """A started session whose events are waited for, and the process of its agent."""

    def __init__(self, open_transport=None):
        self.events = queue.Queue()
        self.transport = None
        self.session = Session(open_transport or self._open, self.events.put)

    def _open(self):
        self.transport = LocalTransport()
        return self.transport

    def wait(self, kind, check=lambda event: True):
        """Return the next event of a kind; what comes before it is dropped."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            event = self.events.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if isinstance(event, kind) and check(event):
                return event

    def ended(self, request_id):
        return self.wait((Result, Failed), lambda event: event.request_id == request_id)

    def children(self):
        pid = self.transport.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]


@contextlib.contextmanager
def attached(open_transport=None):
    made = Attached(open_transport)
    made.session.start()
    try:
        yield made
    finally:
        made.session.stop()
