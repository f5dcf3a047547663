"""Which boards of the catalogue a name may mean, however it is spelled."""

from __future__ import annotations

import re
from collections.abc import Mapping

from core.spec import Board


def spelled(name: str) -> str:
    """Return a name without case and marks: "RK-3588" and "rk3588" are one."""
    return "".join(_words(name))


def boards_called(name: str, boards: Mapping[str, Board]) -> list[str]:
    """Return the keys of the boards that a name may mean: the one of that key or name, else those that have its words.

    Parameters
    ----------
    name : str
        Such as "RK3588", "Raspberry Pi 5" or "Orin Nano"; the last may mean more than one.
    boards : mapping
        By key.
    """
    exact = [key for key, board in boards.items() if spelled(name) in (spelled(key), spelled(board.name))]
    words = set(_words(name))
    return exact or [key for key, board in boards.items() if words and words <= {*_words(key), *_words(board.name)}]


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
