"""The boards attached before, by target.

A measurement is filed under its machine (`app.library.machine`), whose key is no name to type. A machine's document
keeps its targets, so the measurements of a board are found by its name while it is not attached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from app.library.bandwidth import with_bandwidth
from app.library.board_document import Bandwidth, BoardDocument, Target
from app.library.data_sheet import THIS as THIS
from app.library.data_sheet import DataSheet, described, sheets
from core.catalogue.load import load_catalogue
from core.spec import Absent, Catalogue

NOT_LOOKED_FOR = Absent("none was searched for when it was attached")


@dataclass(frozen=True, slots=True)
class KnownBoard:
    """A board attached before: its key among the boards of a catalogue, and its identity."""

    key: str
    machine: str
    name: str
    simulated: bool
    time_utc: str  # when it was attached last
    sheet: DataSheet | Absent = NOT_LOOKED_FOR
    bandwidth: Bandwidth | None = None


def target_record(
    target: str, hello: Mapping[str, Any], sheet: DataSheet | Absent, documents: Iterable[BoardDocument]
) -> Target:
    """Return the record of a machine as a target; `documents` are those of all machines."""
    numbers = {name: one.number for document in documents for name, one in document.targets.items()}
    found = Target(
        number=numbers.get(target, max(numbers.values(), default=-1) + 1),
        name=str(hello.get("board", {}).get("name", target)),
        time_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
        simulated=bool(hello.get("simulated", False)),
    )
    if isinstance(sheet, Absent):
        found.data_sheet_by = sheet.reason
    else:
        found.data_sheet, found.data_sheet_by, found.power_mode = sheet.key, sheet.by, sheet.mode
    return found


def known_boards(documents: Iterable[BoardDocument]) -> dict[str, KnownBoard]:
    """Return the boards attached before, by key, in the order of their first attachment.

    A key is the target, or ``ssh://...`` if a board of the catalogue has that key. Of several machines with one target
    the last attached counts.
    """
    taken, found = load_catalogue().boards, dict[str, KnownBoard]()
    attached = [(target, name, document) for document in documents for name, target in document.targets.items()]
    for one, name, document in sorted(attached, key=lambda each: (each[0].number, each[0].time_utc)):
        key = f"ssh://{name}" if name in taken else name
        found[key] = KnownBoard(
            key, document.machine, one.name, one.simulated, one.time_utc, _sheet(one), document.bandwidth
        )
    return found


def _sheet(target: Target) -> DataSheet | Absent:
    if target.data_sheet not in sheets():
        return Absent(target.data_sheet_by) if target.data_sheet_by else NOT_LOOKED_FOR
    return DataSheet(target.data_sheet, target.data_sheet_by, target.power_mode)


def with_known(catalogue: Catalogue, boards: Mapping[str, KnownBoard]) -> Catalogue:
    """Return the catalogue with the boards attached before, with their data sheets and bandwidths."""
    this = load_catalogue().boards[THIS]
    for known in boards.values():
        board = replace(this, key=known.key, name=f"{known.key}: {known.name}")
        catalogue = replace(catalogue, boards={**catalogue.boards, known.key: board})
        catalogue = described(catalogue, known.key, known.sheet, simulated=known.simulated)
        if known.bandwidth is not None:
            board = with_bandwidth(catalogue.boards[known.key], msgspec.structs.asdict(known.bandwidth), "it")
            catalogue = replace(catalogue, boards={**catalogue.boards, known.key: board})
    return catalogue
