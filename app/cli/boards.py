"""`trilemma boards [KEY]`: boards of the catalogue and recent boards, with the source of each number."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import DASH, counted, quantity_text
from app.text.published import published_figures
from core.catalogue.names.boards import boards_called
from core.spec import Board, PowerMode
from core.spec.suggestions import suggestion

_MODE_UNITS = {
    "bandwidth_byte_s": "byte/s",
    "compute_op_s": "op/s",
    "clock_hz": "Hz",
    "power_limit_w": "W",
    "vector_op_s": "op/s",
    "cpu_vector_op_s": "op/s",
}
_BOARD_UNITS = {"memory_byte": "byte", "most_memory_byte": "byte", "idle_power_w": "W"}

EXAMPLES = """examples:
  trilemma boards
  trilemma boards rk3588
  trilemma boards "Orin Nano"
  trilemma boards jetson_agx_orin_64gb --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the one optional key."""
    parser.add_argument("key", nargs="?", help="show this board, by key or name, with the source of each number")


def run(args: argparse.Namespace) -> int:
    """Print all boards, or one board in detail."""
    library = open_library()
    catalogue = library.catalogue()
    boards = catalogue.boards
    keys = list(boards) if args.key is None else [args.key] if args.key in boards else boards_called(args.key, boards)
    if not keys:
        raise UserError(f"board: got {args.key!r}, {suggestion('board', args.key, boards)}")
    chosen = [boards[key] for key in keys]
    if args.json:
        measured = library.calibrations(catalogue)
        print_json([_document(board, [one for one in measured if one["board"] == board.key]) for board in chosen])
    elif len(chosen) > 1:
        print_table([("KEY", "BOARD", "UNIT", "MODES", "BANDWIDTH", "MEMORY"), *map(_row, chosen)])
    else:
        _print_one(chosen[0])
        for one in library.calibrations(catalogue):
            if one["board"] == chosen[0].key:
                print(f"\nMeasured with {one['runtime']} ({one['power_mode']}): {counted(one['n_points'], 'point')}.")
    return 0


def _document(board: Board, measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Return every number of a board, absent ones with the reason, and its possible calibrations."""
    document = {**asdict(board), "measured": measured}
    document["published"] = [one._asdict() for one in published_figures(board)]
    document["power_modes"] = [_stated(asdict(mode)) for mode in board.power_modes.values()]
    return _stated(document)


def _stated(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: {"absent": "no source states it"} if value is None else value for name, value in fields.items()}


def _row(board: Board) -> tuple[str, ...]:
    mode = next(iter(board.power_modes.values()))
    bandwidth = quantity_text(mode.bandwidth_byte_s, "byte/s")
    guessed = " (prior)" if board.bandwidth_log_sd else ""
    there = board.memory_byte or board.most_memory_byte
    memory = DASH if there is None else f"{'' if board.memory_byte else 'up to '}{quantity_text(there, 'byte')}"
    return board.key, board.name, board.unit, " ".join(board.power_modes), bandwidth + guessed, memory


def _print_one(board: Board) -> None:
    print(f"{board.name} ({board.key}), decodes on its {board.unit}")
    rows = [("QUANTITY", "VALUE", "SOURCE")]
    for mode in board.power_modes.values():
        rows += _mode_rows(board, mode)
    for name, unit in _BOARD_UNITS.items():
        rows.append(_line(name, getattr(board, name), unit, board.sources.get(name, "")))
    rows.append(_energy_line(board))
    rows += [(f"published: {one.name}", one.text, one.source) for one in published_figures(board)]
    print_table(rows)
    if board.identify:
        wanted = " or ".join(pattern for pattern in board.identify if not pattern.startswith("!"))
        refused = "".join(f", not {pattern[1:]}" for pattern in board.identify if pattern.startswith("!"))
        print(f"\nRecognised by {wanted}{refused}: {board.sources['identify']}.")


def _mode_rows(board: Board, mode: PowerMode) -> list[tuple[str, str, str]]:
    return [
        _line(f"{mode.key} {name}", getattr(mode, name), unit, board.sources.get(f"{mode.key}.{name}", ""))
        for name, unit in _MODE_UNITS.items()
    ]


def _energy_line(board: Board) -> tuple[str, str, str]:
    energy = board.system_energy_j_byte
    shown = DASH if energy is None else f"{energy * 1e12:.4g} pJ/B ({board.power_rail})"
    return "system_energy_j_byte", shown, board.sources.get("system_energy_j_byte", "no source states it")


def _line(name: str, value: float | None, unit: str, source: str) -> tuple[str, str, str]:
    if value is None:
        return name, DASH, "no source states it"
    return name, quantity_text(value, unit), source
