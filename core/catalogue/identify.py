"""Which board of the catalogue an attached one is, by what it says of itself.

A data sheet names in its ``identify`` how such a board calls itself: shell patterns, each for a whole text and whatever
its case. A pattern behind "!" rules the board out. What remains undecided, such as the versions of a module, the amount
of memory decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from core.spec import Absent, Board

MEMORY_FRAC = (0.75, 1.02)
"""What a board tells of its memory, over what its data sheet states: the system keeps some for itself."""

_WORDS = {"name": "name", "cpu": "processor", "soc": "chip", "compatible": "device tree"}


@dataclass(frozen=True, slots=True)
class Identified:
    """The data sheet that a board has, and by what it was found, as words: "by its device tree, rockchip,rk3588"."""

    key: str
    by: str


def identify(facts: Mapping[str, Any], boards: Mapping[str, Board]) -> Identified | Absent:
    """Return which of the boards one is.

    Parameters
    ----------
    facts : mapping
        What it says of itself: ``name``, ``cpu``, ``soc`` (texts), ``compatible`` (a list of texts), ``n_threads``,
        ``memory_byte``; ``key`` of a simulated one. All are optional.
    boards : mapping
        The catalogue's.

    Returns
    -------
    Identified or Absent
        Absent with a reason where no data sheet fits, or more than one does.
    """
    if facts.get("key") in boards:
        return Identified(str(facts["key"]), "by its key")
    texts = list(_texts(facts))
    found = {board.key: at for board in boards.values() if (at := _match(board, texts)) is not None}
    fitting = {key: at for key, at in found.items() if _fits(boards[key], facts.get("memory_byte"))}
    surest = [key for key, at in fitting.items() if texts[at][0] == texts[min(fitting.values())][0]]
    if len(surest) == 1:
        kind, text = texts[fitting[surest[0]]]
        return Identified(surest[0], f"by its {_WORDS[kind]}, {text}")
    if surest:
        return Absent(f"it may be {' or '.join(boards[key].name for key in surest)}")
    if found:
        return Absent(f"its memory is not that of {' or '.join(boards[key].name for key in found)}")
    return Absent("none of the catalogue fits it")


def _texts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each text that may identify a board, behind what kind of text it is; the surest kind first."""
    of_tree = facts.get("compatible", ())
    texts = [("compatible", text) for text in (of_tree if isinstance(of_tree, list | tuple) else ())]
    texts += [(kind, facts[kind]) for kind in ("name", "cpu", "soc") if kind in facts]
    if "cpu" in facts and "n_threads" in facts:
        texts.append(("cpu", f"{facts['cpu']}, {facts['n_threads']} threads"))
    return [(kind, text) for kind, text in texts if isinstance(text, str)]


def _match(board: Board, texts: list[tuple[str, str]]) -> int | None:
    """Return which of the texts is the first that fits a board."""
    wanted = [pattern.lower() for pattern in board.identify if not pattern.startswith("!")]
    refused = [pattern[1:].lower() for pattern in board.identify if pattern.startswith("!")]
    if any(fnmatchcase(text.lower(), pattern) for _, text in texts for pattern in refused):
        return None
    for at, (_, text) in enumerate(texts):
        if any(fnmatchcase(text.lower(), pattern) for pattern in wanted):
            return at
    return None


def _fits(board: Board, memory_byte: object) -> bool:
    if board.memory_byte is None or not isinstance(memory_byte, int | float):
        return True
    low, high = MEMORY_FRAC
    return low * board.memory_byte <= memory_byte <= high * board.memory_byte
