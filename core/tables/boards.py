"""The boards of a table: which rows mean the same one, and what is known of the power mode each ran in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from core.catalogue.names.boards import board_called, spelled
from core.catalogue.typical_rates import with_rate_uncertainty
from core.spec import Board, PowerMode
from core.tables.rows import PublishedRow

UNKNOWN_BANDWIDTH_BYTE_S: Mapping[str, float] = {"cpu": 40e9, "gpu": 200e9, "npu": 60e9}
UNKNOWN_BANDWIDTH_LOG_SD = 1.0  # [prior] boards of one kind differ by a factor of 5 either way
UNLISTED_MODE_LOG_SD = 0.4  # [prior] a board's modes have two thirds of its bandwidth or all of it
SAME_FRAC = 0.01  # within which bandwidths are the same

_WATTS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)[ -]?w(?:atts?)?(?![a-z])")
_NOT_THE_MODE = re.compile(
    r"\d+ ?(?:[-–/~]|to) ?\d+w|\d+w (?:peak|burst|boost|turbo)|(?:peak|burst|boost|turbo):? \d+w"
)
_MOST = re.compile(r"(?<![a-z])max(?![ _-]?[pq](?![a-z]))")  # Max-Q and Max-P are modes that save power


class BoardOfRow(NamedTuple):
    """The board that a row ran on."""

    name: str  # what tells it from others: a key of the catalogue where it has the board, else in the table's words
    bandwidth_byte_s: float | None  # as the row states it, or another one of a board that the catalogue does not know


def boards_of(rows: Sequence[PublishedRow], known: Mapping[str, Board]) -> list[BoardOfRow]:
    """Return the board of each row.

    The catalogue's board of that key, else of that name, however it is spelled; not one of another bandwidth than
    the row states. Another key may stand for many boards: where rows of one name do not state a bandwidth, or those of
    the key not the same one in one power mode, their names tell them apart.

    Parameters
    ----------
    rows : sequence of PublishedRow
    known : mapping
        The catalogue's boards.
    """
    given = dict[tuple[str, str], set[float]]()
    for row in rows:
        given.setdefault(_called(row), set()).update({row.number.get("dram_bandwidth_gb_s", 0.0)} - {0.0})
    meant = {called: _known(*called, stated, known) for called, stated in given.items()}
    keys, many = [meant[_called(row)] for row in rows], _many(rows)
    names = [key or _name(row, many, given) for key, row in zip(keys, rows, strict=True)]
    at = [(name, row.text["compute"], row.text["power_mode"]) for name, row in zip(names, rows, strict=True)]
    stated = dict[tuple[str, str, str], float]()
    for one, key, row in zip(at, keys, rows, strict=True):
        if "dram_bandwidth_gb_s" in row.number and not key:
            stated.setdefault(one, row.number["dram_bandwidth_gb_s"])
    return [
        BoardOfRow(one[0], row.number.get("dram_bandwidth_gb_s", stated.get(one)))
        for one, row in zip(at, rows, strict=True)
    ]


def same_bandwidth(one: float, other: float) -> bool:
    """Tell whether two bandwidths are the same but for rounding."""
    return abs(one / other - 1.0) <= SAME_FRAC


def _many(rows: Sequence[PublishedRow]) -> set[str]:
    """Return the keys under which rows state bandwidths that differ in one power mode."""
    first, many = dict[tuple[str, ...], float](), set[str]()
    for row in rows:
        given = row.number.get("dram_bandwidth_gb_s")
        if given is not None:
            of = (row.text["board_key"], row.text["compute"], row.text["power_mode"])
            if not same_bandwidth(given, first.setdefault(of, given)):
                many.add(row.text["board_key"])
    return many


def _called(row: PublishedRow) -> tuple[str, str]:
    return row.text["board_key"], row.text["board"]


def _known(key: str, name: str, stated: set[float], known: Mapping[str, Board]) -> str:
    """Return the catalogue's key of the board of that key, else of that name unless its bandwidth is another's."""
    found = board_called(key, known)
    if found or not (named := board_called(name, known)):
        return found
    modes = [mode.bandwidth_byte_s for mode in known[named].power_modes.values()]
    return named if all(any(same_bandwidth(one, mode) for mode in modes) for one in stated) else ""


def _name(row: PublishedRow, many: set[str], given: Mapping[tuple[str, str], set[float]]) -> str:
    key, name = _called(row)
    return key if given[key, name] and key not in many else name or key


def mode_of_row(key: str, unit: str, board: Board | None, bandwidth_byte_s: float | None) -> PowerMode:
    """Return a power mode as the board's data sheet states it, or as a table does where that has none of the name.

    A mode that the data sheet lacks is taken to have the bandwidth of its first one where the table states none, surely
    so where all of them have the same.

    Parameters
    ----------
    key, unit : str
        The unit is the one that decodes.
    board : Board or None
        Of the catalogue.
    bandwidth_byte_s : float or None
        As stated [byte/s].
    """
    modes = board.power_modes if board is not None else {}
    listed = modes.get(key)
    nearest = listed or next(iter(modes.values()), None)
    guess, log_sd = UNKNOWN_BANDWIDTH_BYTE_S[unit], UNKNOWN_BANDWIDTH_LOG_SD
    if nearest is not None:
        sure = listed is not None or len({one.bandwidth_byte_s for one in modes.values()}) == 1
        guess, log_sd = nearest.bandwidth_byte_s, 0.0 if sure else UNLISTED_MODE_LOG_SD
    mode = replace(
        listed or PowerMode(key, guess),
        bandwidth_byte_s=guess if listed else bandwidth_byte_s or guess,
        bandwidth_log_sd=0.0 if bandwidth_byte_s else log_sd,
    )
    if board is None or board.unit != unit:  # the rates are those of the unit that decodes by the data sheet
        mode = replace(mode, compute_op_s=None, vector_op_s=mode.cpu_vector_op_s if unit == "cpu" else None)
    return with_rate_uncertainty(mode, unit)


def mode_key(name: str, modes: Mapping[str, PowerMode]) -> str:
    """Return the mode that a name means: the one it names, the first where it says nothing or "max", else its own.

    What stands in parentheses counts only where nothing outside them tells, neither a peak nor a range is a mode, and
    a number of watts that no mode has is a mode of its own.
    """
    said = _WATTS.sub(lambda match: f"{float(match[1]):g}w", name.lower())
    if modes and not any(letter.isalnum() for letter in said):
        return next(iter(modes))
    named = [mode for mode in modes if spelled(mode) == spelled(name)]
    for part in (said.partition("(")[0], said):
        text = _NOT_THE_MODE.sub(" ", part)
        named = named or _modes_in(text, modes)
        if not named and not re.search(r"\dw", text) and _MOST.search(text):
            named = list(modes)
        if named:
            return named[0]
        if re.search(r"\dw", part):
            break
    return name or "default"


def _modes_in(text: str, modes: Mapping[str, PowerMode]) -> list[str]:
    """Return the modes that a text names, those of its own words before those of their parts."""
    words = re.findall(r"\d+\.\d+w|[a-z0-9_]+", text)
    parts = [part for word in words for part in word.split("_")]
    return [mode for of in (words, parts) for mode in modes if mode.lower() in of]
