"""How much of a board's memory a model and its cache can have: what the board says, else a prior by its class."""

from __future__ import annotations

import functools
from typing import NamedTuple

from core.catalogue.power_classes import fits
from core.catalogue.schemas import MemoryReserve, MemoryReserveTable
from core.catalogue.toml_files import converted, resource
from core.spec import Board

_FILE = "memory_reserve.toml"
AS_TOLD = "free as the board says"


class UsableMemory(NamedTuple):
    """Bytes that a model and its cache can have, of how many, and why not all; `source` is "" where the board tells."""

    usable_byte: float
    memory_byte: float
    of_largest_version: bool  # versions of the board differ in memory and this is the most
    words: str
    source: str = ""


def usable_memory(board: Board) -> UsableMemory | None:
    """Return how much of a board's memory can be had by the unit that decodes; None where no source states its size.

    Examples
    --------
    >>> board = Board("mac", "Apple M2 Max 64GB", "gpu", {}, memory_byte=64e9)
    >>> usable_memory(board).usable_byte
    48000000000.0
    """
    memory_byte = board.memory_byte or board.most_memory_byte
    if board.available_byte is not None:
        return UsableMemory(board.available_byte, memory_byte or board.available_byte, False, AS_TOLD)
    if memory_byte is None:
        return None
    kept = reserve_of(board)
    system_byte = min(kept.system_byte, _table().small.most_system_frac * memory_byte)
    usable_byte = kept.usable_frac * memory_byte - system_byte
    return UsableMemory(usable_byte, memory_byte, not board.memory_byte, kept.words, kept.source)


def reserve_of(board: Board) -> MemoryReserve:
    """Return the entry of ``memory_reserve.toml`` that holds for a board."""
    size = board.memory_byte or board.most_memory_byte or 0.0
    return _reserve(f"{board.key}\n{board.data_sheet}\n{board.name}", board.unit, size)


@functools.lru_cache(maxsize=512)
def _reserve(names: str, unit: str, memory_byte: float) -> MemoryReserve:
    return next(
        one
        for one in _table().reserve
        if memory_byte <= one.up_to_byte and fits(one.boards, one.units, unit, names.split("\n"))
    )


@functools.cache
def _table() -> MemoryReserveTable:
    made = converted(_FILE, resource(_FILE), MemoryReserveTable)
    last = made.reserve[-1]
    if last.boards or last.units or last.up_to_byte < last.LARGEST_BYTE:
        raise ValueError(f"{_FILE}: reserve {len(made.reserve)}: got one of some boards, expected one of any board")
    return made
