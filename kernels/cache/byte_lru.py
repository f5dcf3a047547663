"""A mapping that forgets what was not used for longest once it holds too many bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Values by key, `max_byte` in all; the one put in last is kept even when it alone is larger.

    Parameters
    ----------
    max_byte : int
        Bytes to hold at most.
    byte_of : callable
        Tells the bytes of a value.
    """

    def __init__(self, max_byte: int, byte_of: Callable[[V], int]) -> None:
        self._max_byte, self._byte_of = max_byte, byte_of
        self._values: dict[K, V] = {}  # in order of use

    def get(self, key: K) -> V | None:
        """Return the value of a key and mark it used; None when there is none."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def put(self, key: K, value: V) -> None:
        """Hold a value, forgetting older ones as needed."""
        self._values.pop(key, None)
        self._values[key] = value
        while len(self._values) > 1 and sum(map(self._byte_of, self._values.values())) > self._max_byte:
            del self._values[next(iter(self._values))]

    def items(self) -> list[tuple[K, V]]:
        """List what is held, the one used last at the end."""
        return list(self._values.items())
