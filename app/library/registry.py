"""The boards that were attached before, by what they were attached as: whose measurements are whose.

A measurement is filed under its machine (`app.library.machine`), which no one types. A machine's document keeps which
targets it was, so that what was learned of a board can be used by its name while it is not attached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from app.library.bandwidth import learned
from app.library.board_document import Bandwidth, BoardDocument, Target
from app.library.data_sheet import THIS as THIS
from app.library.data_sheet import DataSheet, described, sheets
from core.catalogue.load import load_catalogue
from core.spec import Absent, Catalogue

NOT_LOOKED_FOR = Absent("none was searched for when it was attached")


@dataclass(frozen=True, slots=True)
class KnownBoard:
    """A board that was attached: its key among the boards of a catalogue, and what it said of itself."""

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
    """Return what to keep of a machine that said hello as a target; `documents` are those of all machines."""
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
    """Return the boards that were attached, by key, in the order in which they were attached first.

    A key is the target, or ``ssh://...`` where a board of the catalogue has that key already. Of several machines with
    one target the last attached counts.
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
    """Return the catalogue with the boards that were attached, each as its data sheet and its bandwidth say."""
    this = load_catalogue().boards[THIS]
    for known in boards.values():
        board = replace(this, key=known.key, name=f"{known.key}: {known.name}")
        catalogue = replace(catalogue, boards={**catalogue.boards, known.key: board})
        catalogue = described(catalogue, known.key, known.sheet, simulated=known.simulated)
        if known.bandwidth is not None:
            board = learned(catalogue.boards[known.key], msgspec.structs.asdict(known.bandwidth), "it")
            catalogue = replace(catalogue, boards={**catalogue.boards, known.key: board})
    return catalogue
