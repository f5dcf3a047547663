"""Published factors of instruction sets, and which of them a name means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from core.catalogue.load import load_catalogue
from core.catalogue.names.boards import boards_called
from core.spec import Board

REFERENCE = "ARM SVE2"
"""The instruction set that the factors are relative to."""


class PublishedBeta(NamedTuple):
    """A published factor: its board and instruction set, and where it is printed."""

    board: str  # key; "" for the reference
    name: str
    beta: float
    source: str


def published_betas(boards: Mapping[str, Board]) -> list[PublishedBeta]:
    """Return the published factors of boards, the reference first."""
    found = [PublishedBeta("", REFERENCE, 1.0, "the reference of the published factors")]
    for key, board in boards.items():
        if board.published_beta is not None:
            name = f"{board.name}, {board.instruction_set}"
            found.append(PublishedBeta(key, name, board.published_beta, board.sources["published_beta"]))
    return found


def published_beta(name: str) -> float | None:
    """Return the factor that a name means: of a board or of its instruction set; None where it means none.

    >>> published_beta("MLU370"), published_beta("CANN"), published_beta("SVE2"), published_beta("2")
    (2.11, 1.83, 1.0, None)
    """
    boards = load_catalogue().boards
    words, known = set(_words(name)), published_betas(boards)
    if not re.search("[A-Za-z]", name):
        return None
    keys = boards_called(name, {one.board: boards[one.board] for one in known if one.board})
    found = [one for one in known if one.board in keys] or [one for one in known if words <= set(_words(one.name))]
    return found[0].beta if len(found) == 1 else None


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
