"""Limits on unauthenticated connections: concurrent handshakes, and lock-out after failed attempts."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Dict, Tuple

MAX_UNAUTHENTICATED = 16  # at once
MAX_UNAUTHENTICATED_EACH = 8  # of one address, so that it cannot keep the others out
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


class AuthLimits:
    """Unauthenticated connections: at most `MAX_UNAUTHENTICATED`, and `MAX_UNAUTHENTICATED_EACH` of one address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Dict[str, int] = {}

    def enter(self, address: str) -> bool:
        """Count one more; False where there are too many."""
        with self._lock:
            count = self._counts.get(address, 0)
            if count >= MAX_UNAUTHENTICATED_EACH or sum(self._counts.values()) >= MAX_UNAUTHENTICATED:
                return False
            self._counts[address] = count + 1
            return True

    def leave(self, address: str) -> None:
        """Count one less."""
        with self._lock:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]
