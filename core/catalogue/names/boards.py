"""Which boards of the catalogue a name may mean, however it is spelled.

Makers and kits tell no board from another: "Jetson AGX Thor Developer Kit", "M4 Pro" and "Raspberry Pi 4 Model B" are
read without them. The size of the memory and the number of cores do where the catalogue has versions of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from core.spec import Board

_SAYS_NOTHING = frozenset(
    re.findall(
        r"\w+",
        """
        nvidia jetson apple rockchip qualcomm intel amd huawei dell
        developer development dev kit devkit module board computer sbc soc edition revision gpu the
        """,
    )
)
"""Words of a name for a maker or for any board, which tell none from others."""

_WRITTEN_OTHERWISE = (
    (re.compile(r"\b(?:rpi|raspi|raspberrypi|pi)[ _-]?(?=[45]\b|[45]b\b)"), "raspberry pi "),
    (re.compile(r"\braspberry[ _-]raspberry\b"), "raspberry"),
    (re.compile(r"(?:raspberry[ _-]pi )?\b(?:compute module|cm)[ _-]?(?=[45]\b)"), "raspberry pi "),
    (re.compile(r"(?<=raspberry pi )([45])(?:00\b\+?|[ _-]?(?:model )?b\b)"), r"\1"),  # 400 and 500 are keyboards
    (re.compile(r"\brk-?(35\d\d)s?\b"), r"rk\1"),  # RK3588S has the memory and the units of RK3588
    (re.compile(r"\bhi3559a[ _-]?v100\b"), "hi3559a"),
    (re.compile(r"\b(\d+)[ _-]?gi?b\b"), r"\1gb"),
)
_MEMORY = re.compile(r"\d+gb")
_CORES = re.compile(r"\b\d+[ -]?core(?:s|\b)", re.IGNORECASE)  # of chips with fewer or more of them


def spelled(name: str) -> str:
    """Return a name without case and marks: "RK-3588" and "rk3588" are one."""
    return "".join(_words(name))


def board_called(name: str, boards: Mapping[str, Board]) -> str:
    """Return the key of the one board that a whole name means, whatever else it says; "" where none or several fit.

    Parameters
    ----------
    name : str
        Such as "rk3588s", "NVIDIA Jetson Orin NX 16 GB Developer Kit", "M4 Pro (20-core GPU)" or "RPi 5".
    boards : mapping
        By key.
    """
    exact = [key for key, board in boards.items() if spelled(name) in (spelled(key), spelled(board.name))]
    if exact or not spelled(name):
        return exact[0] if len(exact) == 1 else ""
    versions = (boards, name), (_of_any_cores(boards), _CORES.sub(" ", name))
    for among, called in versions:
        for read in (_bare, _without_memory):
            found = {key for key, board in among.items() if read(called) in map(read, _names(board))}
            if read(called) and found:
                return found.pop() if len(found) == 1 else ""
    return ""


def boards_called(name: str, boards: Mapping[str, Board]) -> list[str]:
    """Return the keys of the boards that a name may mean: the one that it is of, else those that have its words.

    Parameters
    ----------
    name : str
        Such as "RK3588", "Raspberry Pi 5" or "Orin Nano"; the last may mean more than one.
    boards : mapping
        By key.
    """
    one, words = board_called(name, boards), set(_told(name)) or set(_words(name))
    if one:
        return [one]
    return [key for key, board in boards.items() if words and words <= {*_words(key), *_words(board.name)}]


def _of_any_cores(boards: Mapping[str, Board]) -> dict[str, Board]:
    return {key: board for key, board in boards.items() if not _CORES.search(board.name)}


def _names(board: Board) -> Iterator[str]:
    """Yield what a board is called; "DGX Spark / GB10" is two names, and brackets tell more."""
    yield board.key.replace("_", " ")
    plain = re.sub(r"\([^)]*\)", "", board.name)
    yield from (name for name in (board.name, *plain.split(" / ")) if re.search(r"[A-Za-z]", name))


def _bare(name: str) -> str:
    return "".join(_told(name))


def _without_memory(name: str) -> str:
    return "".join(word for word in _told(name) if not _MEMORY.fullmatch(word))


def _told(name: str) -> list[str]:
    text = name.lower().replace("_", " ")
    for written, meant in _WRITTEN_OTHERWISE:
        text = written.sub(meant, text)
    return [word for word in _words(text) if word not in _SAYS_NOTHING]


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())
