"""SIGTERM, Ctrl-C and SIGHUP, heard whatever the main thread waits for."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Callable

from app.stopping import handle


def when_told_to_end(act: Callable[[], object]) -> None:
    """Call `act`, in a thread of its own, at the first SIGTERM, Ctrl-C or SIGHUP from now on that is not ignored.

    Python runs a handler between two of its steps. A signal that comes just before a call that waits, or to another
    thread, does not end that call, and so would be heard with the next client, or never. The byte that Python writes
    at every signal is heard at once.

    Raises
    ------
    ValueError
        If the caller is not the main thread.
    """
    told, teller = socket.socketpair()
    teller.setblocking(False)

    def listen() -> None:
        told.recv(1)
        act()

    signal.set_wakeup_fd(teller.detach(), warn_on_full_buffer=False)  # first, or one that comes between is lost
    handle(lambda *_: None)
    threading.Thread(target=listen, name="ending", daemon=True).start()
