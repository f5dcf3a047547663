"""Limits on unauthenticated connections: places for handshakes, and lock-out after failed attempts."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import OrderedDict
from typing import List, Optional, Tuple

MAX_UNAUTHENTICATED = 16  # at once
MAX_UNAUTHENTICATED_EACH = 8  # of one address, so that it cannot keep the others out
KEPT, MAX_PROVED = 4, 64
SOON_S = 1.0  # an honest handshake takes a few hundred milliseconds, on a slow board too
MAX_FAILURES, LOCK_S = 5, 30.0
MAX_ADDRESSES = 1024


class Locks:
    """Addresses that failed to prove the token: after `MAX_FAILURES` in a row one is locked for `LOCK_S`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, Tuple[int, float]] = OrderedDict()  # the count, and until when

    def locked_s(self, address: str) -> float:
        """Return the remaining lock-out of an address [s]; 0 when it is not locked."""
        with self._lock:
            count, until_s = self._failures.get(address, (0, 0.0))
            return max(0.0, until_s - time.monotonic()) if count >= MAX_FAILURES else 0.0

    def failed(self, address: str) -> None:
        """Count a failure."""
        with self._lock:
            count, until_s = self._failures.pop(address, (0, 0.0))
            if count >= MAX_FAILURES and until_s <= time.monotonic():
                count = 0  # the lock is over: five more
            self._failures[address] = (count + 1, time.monotonic() + LOCK_S)
            while len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)

    def proved(self, address: str) -> None:
        """Forget the failures of an address."""
        with self._lock:
            self._failures.pop(address, None)


class Place:
    """Place of a connection that has not proved itself yet.

    Attributes
    ----------
    connection
        Its socket: what is shut down when the place is given to another.
    """

    def __init__(self, connection: socket.socket, address: str) -> None:
        self.connection = connection
        self.address = address
        self.since_s = time.monotonic()

    def put_out(self) -> None:
        """End the connection from another thread; whoever reads it sees its end."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.connection, socket.SHUT_RDWR)  # that of a TLS socket is for its own thread


class Places:
    """Unauthenticated connections: `MAX_UNAUTHENTICATED`, `MAX_UNAUTHENTICATED_EACH` of one address.

    Where all places are taken, the connection that has been unauthenticated longest gives its own up after `SOON_S`.
    `KEPT` more places are for addresses that have proved themselves before.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: List[Place] = []  # the oldest first
        self._proved: OrderedDict[str, None] = OrderedDict()

    def enter(self, connection: socket.socket, address: str) -> Optional[Place]:
        """Take a place for a connection; None where there is none."""
        with self._lock:
            own = [place for place in self._taken if place.address == address]
            most = MAX_UNAUTHENTICATED + (KEPT if address in self._proved else 0)
            full = own if len(own) >= MAX_UNAUTHENTICATED_EACH else self._taken if len(self._taken) >= most else []
            if full:
                if time.monotonic() - full[0].since_s < SOON_S:
                    return None
                full[0].put_out()
                self._taken.remove(full[0])
            place = Place(connection, address)
            self._taken.append(place)
            return place

    def leave(self, place: Place) -> None:
        """Give a place up, one that was put out too."""
        with self._lock:
            if place in self._taken:
                self._taken.remove(place)

    def proved(self, address: str) -> None:
        """Keep places for an address from now on."""
        with self._lock:
            self._proved.pop(address, None)
            self._proved[address] = None
            while len(self._proved) > MAX_PROVED:
                self._proved.popitem(last=False)

    def put_out_older(self, age_s: float) -> None:
        """End the connections that have been unauthenticated for longer."""
        with self._lock:
            while self._taken and time.monotonic() - self._taken[0].since_s > age_s:
                self._taken.pop(0).put_out()
