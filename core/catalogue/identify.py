"""Identification of an attached board by the names that it reports.

``identify`` of a data sheet has shell patterns of these names; each must match a whole text, without regard to case. A
pattern after "!" excludes the board. Where several boards remain, such as versions of a module, the size of the memory
decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from core.spec import Absent, Board

MEMORY_FRAC = (0.75, 1.02)
"""Range of the reported over the data sheet's memory: the system reserves some of it."""

_WORDS = {"name": "name", "cpu": "processor", "soc": "chip", "compatible": "device tree"}


@dataclass(frozen=True, slots=True)
class Identified:
    """The data sheet of a board, and the evidence in words, such as "by its device tree, rockchip,rk3588"."""

    key: str
    by: str


def identify(facts: Mapping[str, Any], boards: Mapping[str, Board]) -> Identified | Absent:
    """Return the data sheet of an attached board.

    Parameters
    ----------
    facts : mapping
        Reported by the board, all optional: ``name``, ``cpu``, ``soc`` (texts), ``compatible`` (a list of texts),
        ``n_threads``, ``memory_byte``; ``key`` of a simulated board.
    boards : mapping
        Boards of the catalogue by key.

    Returns
    -------
    Identified or Absent
        Absent with a reason where no data sheet or more than one matches.
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
    """Return the texts that can identify a board, each after its kind; the most specific kind first."""
    of_tree = facts.get("compatible", ())
    texts = [("compatible", text) for text in (of_tree if isinstance(of_tree, list | tuple) else ())]
    texts += [(kind, facts[kind]) for kind in ("name", "cpu", "soc") if kind in facts]
    if "cpu" in facts and "n_threads" in facts:
        texts.append(("cpu", f"{facts['cpu']}, {facts['n_threads']} threads"))
    return [(kind, text) for kind, text in texts if isinstance(text, str)]


def _match(board: Board, texts: list[tuple[str, str]]) -> int | None:
    """Return the index of the first text that matches a board; None where none does, or one excludes it."""
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
