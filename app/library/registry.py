"""The boards that were attached before, by what they were attached as: whose measurements are whose.

A measurement is filed under its machine (`app.library.machine`), which no one types. This file keeps which machine each
target was, so that what was learned of a board can be used by its name while it is not attached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.bandwidth import learned, load_bandwidth
from app.library.data_sheet import THIS as THIS
from app.library.data_sheet import DataSheet, choices_file, data_sheet_of, described, sheets
from app.library.files import FileError, data_dir, put_aside, write_whole
from app.library.machine import machine_key
from core.catalogue.load import load_catalogue
from core.spec import Absent, Catalogue

NOT_LOOKED_FOR = Absent("none was looked for when it was attached")


@dataclass(frozen=True, slots=True)
class KnownBoard:
    """A board that was attached: its key among the boards of a catalogue, and what it said of itself."""

    key: str
    machine: str
    name: str
    simulated: bool
    time_utc: str  # when it was attached last
    sheet: DataSheet | Absent = NOT_LOOKED_FOR


class _Entry(msgspec.Struct):
    machine: str
    name: str
    time_utc: str
    simulated: bool = False
    data_sheet: str = ""
    data_sheet_by: str = ""
    power_mode: str = ""


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
    sheet = data_sheet_of(path.with_name(choices_file().name), machine_key(hello), hello)
    if isinstance(sheet, DataSheet):
        entry |= {"data_sheet": sheet.key, "data_sheet_by": sheet.by, "power_mode": sheet.mode}
    else:
        entry["data_sheet_by"] = sheet.reason
    try:
        others = schema.read_object(path)
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
    for target, one in schema.convert(schema.read_object(path), dict[str, _Entry], path.name).items():
        key = f"ssh://{target}" if target in taken else target
        found[key] = KnownBoard(key, one.machine, one.name, one.simulated, one.time_utc, _sheet(one))
    return found


def _sheet(entry: _Entry) -> DataSheet | Absent:
    if entry.data_sheet not in sheets():
        return Absent(entry.data_sheet_by) if entry.data_sheet_by else NOT_LOOKED_FOR
    return DataSheet(entry.data_sheet, entry.data_sheet_by, entry.power_mode)


def with_known(catalogue: Catalogue, boards: Mapping[str, KnownBoard], bandwidths: Path) -> Catalogue:
    """Return the catalogue with the boards that were attached, each as its data sheet says if it has one.

    The bandwidth is that of a file if it is in there.

    Raises
    ------
    FileError
        As `load_bandwidth`.
    """
    this = load_catalogue().boards[THIS]
    for known in boards.values():
        board = replace(this, key=known.key, name=f"{known.key}: {known.name}")
        catalogue = replace(catalogue, boards={**catalogue.boards, known.key: board})
        catalogue = described(catalogue, known.key, known.sheet, simulated=known.simulated)
        record = load_bandwidth(bandwidths, known.machine)
        if record is not None:
            board = learned(catalogue.boards[known.key], record, "it")
            catalogue = replace(catalogue, boards={**catalogue.boards, known.key: board})
    return catalogue
