"""Measurements of boards that are not attached: earlier ones, and those of imported tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from app.library.files import data_dir
from app.library.measurements import Measurement
from app.library.registry import THIS, KnownBoard
from core.spec import Catalogue, Provenance


def imported_file(folder: Path | None = None) -> Path:
    """Return the table whose rows count as measurements; `folder` replaces the user's."""
    return (folder or data_dir()) / "imported.csv"


def under_names(
    saved: Iterable[Measurement],
    rows: Iterable[Measurement],
    boards: Mapping[str, KnownBoard],
    attached: str,
    here: str,
) -> tuple[list[Measurement], list[Measurement]]:
    """Return the measurements of machines under every name of these machines.

    Parameters
    ----------
    saved
        Measured by this program.
    rows
        Imported: their points have the table's names of boards.
    boards
        Those attached before.
    attached, here
        The machines of board "this": in the operating point, and in an imported table.

    Returns
    -------
    own : list of Measurement
        Saved ones of the machine of "this".
    elsewhere : list of Measurement
        Saved ones of boards attached before, then all imported ones. A row of a machine counts under each of its names,
        like a saved measurement; a row of a board of the catalogue that is no machine counts for that board.
    """
    names: dict[str, list[str]] = {}
    for board in boards.values():
        names.setdefault(board.machine, []).append(board.key)
    machine_of = {**{key: board.machine for key, board in boards.items()}, THIS: here}
    own, others = list[Measurement](), list[Measurement]()
    for measurement in saved:
        if measurement.machine == attached:
            own.append(measurement)
        others += [_at(measurement, key) for key in names.get(measurement.machine, ())]
    for row in rows:
        machine = machine_of.get(row.point.board)
        keys = [row.point.board] if machine is None else names.get(machine, [])
        others += [_at(row, key) for key in ([THIS] if machine == attached else []) + keys]
    return own, others


def _at(measurement: Measurement, board: str) -> Measurement:
    return replace(measurement, point=replace(measurement.point, board=board))


def basis(measurements: Sequence[Measurement], n_points: int, before: str) -> str:
    """Return the basis of a board's calibration in words: its own measurements, imported ones, published rows.

    `n_points` is the number of its own points. `before` describes the prior; "" for the prior of the runtime.
    """
    own = [measurement for measurement in measurements if measurement.machine]
    others = [measurement for measurement in measurements if not measurement.machine]
    parts = []
    if own:
        simulated = any(_origin(measurement) == Provenance.SIMULATED.value for measurement in own)
        kind = "simulated measurements" if simulated else "measurements"
        parts.append(f"{kind} at {_counted(n_points, 'point')}, the last of {max(m.time_utc for m in own)[:10]}")
    if others:
        sources = sorted({str(m.body["source"]) for m in others} - {""})
        parts.append(f"{_counted(len(others), 'imported value')} ({'; '.join(sources) or 'of a table'})")
    return ", and ".join([*parts, before] if before else parts)


def _origin(measurement: Measurement) -> str:
    record = measurement.body.get("decode_s")
    return str(record.get("provenance")) if isinstance(record, Mapping) else ""


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def imported(path: Path, catalogue: Catalogue, boards: Mapping[str, KnownBoard]) -> tuple[list[Measurement], list[str]]:
    """Return the rows of a table as measurements of the boards that they name, in table order.

    Parameters
    ----------
    path
        A table written by `trilemma data import`; a missing one counts as empty.
    catalogue
        With the boards attached before.
    boards
        Those boards.

    Returns
    -------
    measurements : list of Measurement
        Their `body` has the outputs and their ``source``; they belong to no machine.
    notes : list of str
        One sentence for each row that is no measurement, with the reason.

    Raises
    ------
    FileError
        The table cannot be read or is invalid.
    """
    if not path.exists():
        return [], []
    from app.library.table_points import measurements_in  # what reads tables is not imported where there is none

    return measurements_in(path, catalogue, boards)
