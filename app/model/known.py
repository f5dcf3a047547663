"""The boards that were attached before, by what they were attached as: whose measurements are whose.

A measurement is filed under its machine (`app.model.machine`), which no one types. This file keeps which machine each
target was, so that what was learned of a board can be used by its name while it is not attached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from app.model import schema
from app.model.bandwidth import learned, load_bandwidth
from app.model.files import FileError, data_dir, put_aside, read_whole, write_whole
from app.model.machine import machine_key
from core.load import load_catalogue
from core.spec import Board, Catalogue

THIS = "this"


@dataclass(frozen=True, slots=True)
class KnownBoard:
    """A board that was attached: its key among the boards of a catalogue, and what it said of itself."""

    key: str
    machine: str
    name: str
    simulated: bool
    time_utc: str  # when it was attached last


class _Entry(msgspec.Struct):
    machine: str
    name: str
    time_utc: str
    simulated: bool = False


def known_file() -> Path:
    """Return where the boards are that were attached."""
    return data_dir() / "attached.json"


def remember(path: Path, target: str, hello: Mapping[str, Any]) -> None:
    """Keep which machine a target is, in place of what it was before; this machine and recordings have no need of it.

    Raises
    ------
    FileError
        It cannot be written; the file is as it was.
    """
    if target == THIS or hello.get("recording"):
        return
    entry = {
        "machine": machine_key(hello),
        "name": str(hello.get("board", {}).get("name", target)),
        "time_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "simulated": bool(hello.get("simulated", False)),
    }
    try:
        others = _read(path)
    except FileError:
        put_aside(path)
        others = {}
    write_whole(path, msgspec.json.format(msgspec.json.encode({**others, target: entry}), indent=2) + b"\n")


def known_boards(path: Path) -> dict[str, KnownBoard]:
    """Return the boards that were attached, by key: their target, as ``ssh://...`` where a board has that key already.

    Raises
    ------
    FileError
        There is a file and it cannot be understood; one sentence.
    """
    taken, found = load_catalogue().boards, {}
    for target, one in schema.convert(_read(path), dict[str, _Entry], path.name).items():
        key = f"ssh://{target}" if target in taken else target
        found[key] = KnownBoard(key, one.machine, one.name, one.simulated, one.time_utc)
    return found


def with_known(catalogue: Catalogue, boards: Mapping[str, KnownBoard], bandwidths: Path) -> Catalogue:
    """Return the catalogue with the boards that were attached, each with the bandwidth of a file if it is in there.

    Raises
    ------
    FileError
        As `load_bandwidth`.
    """
    made = {board.key: _board(board, load_catalogue().boards[THIS], bandwidths) for board in boards.values()}
    return replace(catalogue, boards={**catalogue.boards, **made})


def _board(known: KnownBoard, this: Board, bandwidths: Path) -> Board:
    board = replace(this, key=known.key, name=f"{known.key}: {known.name}")
    record = load_bandwidth(bandwidths, known.machine)
    return board if record is None else learned(board, record, "it")


def _read(path: Path) -> dict[str, Any]:
    return schema.decode_object(read_whole(path), str(path)) if path.exists() else {}
