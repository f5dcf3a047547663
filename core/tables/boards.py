"""The boards of a table: identity of the board of each row, and its power mode."""

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
SAME_FRAC = 0.01  # relative difference of equal bandwidths

_WATTS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)[ -]?w(?:atts?)?(?![a-z])")
_NOT_THE_MODE = re.compile(
    r"\d+ ?(?:[-–/~]|to) ?\d+w|\d+w (?:peak|burst|boost|turbo)|(?:peak|burst|boost|turbo):? \d+w"
)
_MOST = re.compile(r"(?<![a-z])max(?![ _-]?[pq](?![a-z]))")  # Max-Q and Max-P save power


class BoardOfRow(NamedTuple):
    """The board that a row ran on."""

    name: str  # unique: a key of the catalogue where it has the board, else in the table's words
    bandwidth_byte_s: float | None  # of the row, or for boards that are not in the catalogue of another row


def boards_of(rows: Sequence[PublishedRow], known: Mapping[str, Board]) -> list[BoardOfRow]:
    """Return the board of each row.

    It is the board of the catalogue with the row's key, else that with its name in any spelling and with its bandwidth.
    Any other key may stand for several boards: they are distinguished by name where rows of one name have no bandwidth,
    or where rows of the key have different ones in one power mode.

    Parameters
    ----------
    rows : sequence of PublishedRow
    known : mapping
        Boards of the catalogue by key.
    """
    given = dict[tuple[str, str], set[float]]()
    for row in rows:
        given.setdefault(_names(row), set()).update({row.number.get("dram_bandwidth_gb_s", 0.0)} - {0.0})
    meant = {called: _catalogue_key(*called, stated, known) for called, stated in given.items()}
    keys, many = [meant[_names(row)] for row in rows], _ambiguous_keys(rows)
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
    """Return True if two bandwidths are equal up to rounding."""
    return abs(one / other - 1.0) <= SAME_FRAC


def _ambiguous_keys(rows: Sequence[PublishedRow]) -> set[str]:
    """Return the keys whose rows have different bandwidths in one power mode."""
    first, many = dict[tuple[str, ...], float](), set[str]()
    for row in rows:
        given = row.number.get("dram_bandwidth_gb_s")
        if given is not None:
            of = (row.text["board_key"], row.text["compute"], row.text["power_mode"])
            if not same_bandwidth(given, first.setdefault(of, given)):
                many.add(row.text["board_key"])
    return many


def _names(row: PublishedRow) -> tuple[str, str]:
    return row.text["board_key"], row.text["board"]


def _catalogue_key(key: str, name: str, stated: set[float], known: Mapping[str, Board]) -> str:
    """Return the catalogue's key of the board with that key, else with that name and bandwidth; "" for none."""
    found = board_called(key, known)
    if found or not (named := board_called(name, known)):
        return found
    modes = [mode.bandwidth_byte_s for mode in known[named].power_modes.values()]
    return named if all(any(same_bandwidth(one, mode) for mode in modes) for one in stated) else ""


def _name(row: PublishedRow, many: set[str], given: Mapping[tuple[str, str], set[float]]) -> str:
    key, name = _names(row)
    return key if given[key, name] and key not in many else name or key


def mode_of_row(key: str, unit: str, board: Board | None, bandwidth_byte_s: float | None) -> PowerMode:
    """Return the power mode of a row: that of the data sheet, or a new one where the data sheet does not have it.

    A new mode without a bandwidth is assumed to have that of the first mode of the data sheet; the assumption is
    certain where all modes have the same.

    Parameters
    ----------
    key, unit : str
        Key of the mode, and the unit that decodes.
    board : Board or None
        Of the catalogue.
    bandwidth_byte_s : float or None
        Of the table [byte/s].
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
    """Return the key of the mode that a name means: a known one, the first for an empty name or "max", else a new one.

    Text in parentheses is used only if the rest names no mode. A peak or a range of watts is no mode. A number of watts
    without a known mode is a new mode.
    """
    lower = _WATTS.sub(lambda match: f"{float(match[1]):g}w", name.lower())
    if modes and not any(letter.isalnum() for letter in lower):
        return next(iter(modes))
    named = [mode for mode in modes if spelled(mode) == spelled(name)]
    for part in (lower.partition("(")[0], lower):
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
    """Return the modes that a text names, matches of whole words before matches of their parts."""
    words = re.findall(r"\d+\.\d+w|[a-z0-9_]+", text)
    parts = [part for word in words for part in word.split("_")]
    return [mode for of in (words, parts) for mode in modes if mode.lower() in of]
