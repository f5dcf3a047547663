"""The data sheet of an attached board, recognised by the board's identity or chosen by hand.

Predictions for the board start from it before anything is measured: bandwidth, rates, power modes, energy, and the
posterior of published measurements of such a board. A board without one keeps generic priors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.library.files import FileError
from core.catalogue.identify import identify
from core.catalogue.load import load_catalogue
from core.catalogue.memory_reserve import reserve_of
from core.spec import Absent, Board, Catalogue, PowerMode
from core.spec.suggestions import suggestion

THIS = "this"
BY_HAND = "chosen by hand"
_MEMORY_TOLD = ("memory_byte", "available_byte", "gpu_limit_byte")
NONE_BY_HAND = Absent("none, chosen by hand")


@dataclass(frozen=True, slots=True)
class DataSheet:
    """Key of the board of a data sheet, the evidence for it, and the reported power mode of the board, if any."""

    key: str
    by: str
    mode: str = ""


def sheets() -> dict[str, Board]:
    """Return the boards with a data sheet, by key."""
    return {key: board for key, board in load_catalogue().boards.items() if key != THIS}


def check_choice(key: str) -> None:
    """Raise FileError unless a key chooses a data sheet: one of the catalogue, "this" for none, "" to recognise it."""
    known = [*sheets(), THIS]
    if key and key not in known:
        raise FileError(f"board {key!r} has no data sheet; {suggestion('board', key, known)}")


def data_sheet_of(chosen: str, hello: Mapping[str, Any]) -> DataSheet | Absent:
    """Return the data sheet of an attached machine: the key `chosen` by hand, or else the recognised one."""
    known = sheets()
    if not chosen:
        found = identify(hello.get("board", {}), known)
        if isinstance(found, Absent):
            return found
        key, by = found.key, found.by
    else:
        key, by = chosen, BY_HAND
        if key == THIS:
            return NONE_BY_HAND
        if key not in known:
            return Absent(f"the one chosen by hand, {key:.80}, is of another version of this program")
    mode, told = mode_told(hello, known[key]), _mode_text(hello)
    if told and not mode and "default" not in known[key].power_modes:
        by = f"{by}; it has no mode {told}"
    return DataSheet(key, by, mode)


def chosen_key(found: DataSheet | Absent) -> str:
    """Return the key of a data sheet that was chosen by hand; "" for a recognised one."""
    if isinstance(found, DataSheet):
        return found.key if found.by.startswith(BY_HAND) else ""
    return THIS if found == NONE_BY_HAND else ""


def sheet_sentence(found: DataSheet | Absent, where: str) -> str:
    """Return a sentence on a board's data sheet and the evidence for it; `where` names the place to choose another."""
    if isinstance(found, Absent):
        return f"No data sheet describes this board, {found.reason}: generic priors are used; {where} chooses one."
    name, how = sheets()[found.key].name, found_words(found.by)
    return f"Described by the data sheet of {name}, {how}; {where} chooses another."


def mode_told(hello: Mapping[str, Any], board: Board) -> str:
    """Return the power mode of a data sheet that a board reports; "" without a match."""
    words = re.split(r"[ _]+", _mode_text(hello).upper())
    return next((key for key in board.power_modes if key.upper() in words), "")


def _mode_text(hello: Mapping[str, Any]) -> str:
    return str(hello.get("state", {}).get("power_mode", {}).get("value", ""))


def found_words(by: str) -> str:
    """Return the evidence for a data sheet, as the end of a sentence about it."""
    return by if by.startswith(BY_HAND) else f"found {by}"


def described(catalogue: Catalogue, key: str, sheet: DataSheet | Absent, *, simulated: bool = False) -> Catalogue:
    """Return the catalogue in which a board with generic priors is described by a data sheet.

    The board keeps its name and everything that the data sheet lacks; a real board can also be limited to a number of
    threads.
    """
    if isinstance(sheet, Absent):
        return catalogue
    board = _as_told(catalogue.boards[key], sheets()[sheet.key], sheet, threads=not simulated)
    posteriors = {
        (key, runtime, mode): replace(posterior, board=key)
        for (of, runtime, mode), posterior in catalogue.board_posteriors.items()
        if of == sheet.key
    }
    return replace(
        catalogue,
        boards={**catalogue.boards, key: board},
        board_posteriors={**catalogue.board_posteriors, **posteriors},
    )


def with_memory(board: Board, hello: Mapping[str, Any]) -> Board:
    """Return a board with its reported memory and the part that programs can have, as far as it reports them.

    The system's memory says nothing about a card with its own memory.
    """
    told = {name: _byte(hello.get("board", {}).get(name)) for name in _MEMORY_TOLD}
    if told["memory_byte"] is None or reserve_of(board).own_memory:
        return board
    available = (told["gpu_limit_byte"] if board.unit == "gpu" else None) or told["available_byte"]
    reported = "reported by the board"
    sources = {**board.sources, "memory_byte": reported, "available_byte": reported}
    return replace(board, memory_byte=told["memory_byte"], available_byte=available, sources=sources)


def _byte(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _as_told(board: Board, sheet: Board, found: DataSheet, *, threads: bool) -> Board:
    plain = next(iter(board.power_modes.values()))
    order = sorted(sheet.power_modes, key=lambda key: key != found.mode)  # the one it is in is the default
    modes = {key: _with_rates(sheet.power_modes[key], plain, sheet.unit) for key in order}
    now = modes[order[0]]
    limited = [mode for mode in board.power_modes.values() if "thread" in mode.key and threads]
    modes |= {mode.key: _with_threads(mode, now, sheet.unit) for mode in limited}
    energy = board if sheet.system_energy_j_byte is None else sheet
    return replace(
        sheet,
        key=board.key,
        name=board.name,
        power_modes=modes,
        system_energy_j_byte=energy.system_energy_j_byte,
        system_energy_log_sd=energy.system_energy_log_sd,
        power_rail=energy.power_rail,
        rail_limit_frac=energy.rail_limit_frac,
        rail_limit_log_sd=energy.rail_limit_log_sd,
        identify=board.identify,
        listed=False,
        data_sheet=sheet.key,
        sources={**board.sources, **sheet.sources, "data_sheet": found.by},
    )


def _with_rates(mode: PowerMode, plain: PowerMode, unit: str) -> PowerMode:
    """Return a mode of a data sheet with the CPU's rate from the generic prior if no source states it."""
    if unit == "cpu":
        return replace(mode, compute_op_s=mode.compute_op_s or mode.vector_op_s or plain.compute_op_s)
    return replace(mode, cpu_vector_op_s=mode.cpu_vector_op_s or plain.compute_op_s)


def _with_threads(limited: PowerMode, now: PowerMode, unit: str) -> PowerMode:
    """Return a mode with limited threads on a memory of the data sheet's bandwidth."""
    if unit == "cpu":
        return replace(limited, bandwidth_byte_s=now.bandwidth_byte_s)
    return replace(now, key=limited.key, cpu_vector_op_s=limited.compute_op_s)
