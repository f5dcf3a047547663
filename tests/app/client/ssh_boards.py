"""Boards behind the tests' OpenSSH server."""

import contextlib
import queue
import time
from pathlib import Path

from app.client.agent_file import agent_hash
from app.client.events import Catalogue, Samples
from app.client.session import Session
from tests.waiting import PATIENCE_S


class Board:
    """A session over a target, whose events are waited for; keeps the transports it opened."""

    def __init__(self, target):
        self.events = queue.Queue()
        self.transports = []
        self._target = target
        self.session = Session(self, self.events.put, target.reachable)

    def __call__(self):
        self.transports.append(self._target())
        return self.transports[-1]

    @property
    def attended(self):
        return self._target.attended

    def wait(self, kind, check=lambda event: True):
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            event = self.events.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if isinstance(event, kind) and check(event):
                return event

    def ready(self):
        self.channels = self.wait(Catalogue).channels
        self.wait(Samples)
        return self


@contextlib.contextmanager
def attached(target):
    board = Board(target)
    board.session.start()
    try:
        yield board
    finally:
        board.session.stop()


def agents(ssh_server):
    """Return the processes that run the agent which this program sends, in a session of the tests' own server."""
    session = f" {ssh_server.port}\0".encode()  # the end of SSH_CONNECTION: other servers on this machine have others
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ours = session in (folder / "environ").read_bytes()
            sent = any(agent_hash().encode() in word for word in words)
            if ours and sent and b"-S" in words and b"ssh" not in words[0]:
                found.append(int(folder.name))
    return found
