"""Compensation parameters of a simulated board: kept in memory, gone when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.agent.slots import Slots


class MemorySlots(Slots):
    """Two slots and the live one of a board that writes no file."""

    def __init__(self) -> None:
        self._sets: dict[int, tuple[int, bytes]] = {}
        self._live: tuple[int, int] | None = None
        self._before = 0

    def live(self) -> tuple[int, int, bytes | None]:
        """Return slot, epoch and bytes of the live set; ``(1, 0, None)`` when there is none."""
        if self._live is None:
            return 1, 0, None
        slot, epoch = self._live
        return slot, epoch, self._sets[slot][1]

    def read(self, slot: int) -> tuple[int, bytes] | None:
        """Return epoch and bytes of a slot, None when it is empty."""
        return self._sets.get(slot)

    def write(self, slot: int, epoch: int, data: bytes) -> None:
        """Put a set into a slot."""
        self._sets[slot] = (epoch, data)

    def before(self) -> int:
        """Return the epoch of the set that was live before the live one, 0 for none."""
        return self._before

    def point(self, slot: int, epoch: int, before: int = 0) -> None:
        """Make a slot the live one; `before` is the epoch of the one that was."""
        self._live, self._before = (slot, epoch), before

    def clear(self) -> None:
        """Make no slot the live one."""
        self._live, self._before = None, 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes here."""
        yield
