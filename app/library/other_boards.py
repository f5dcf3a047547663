"""What was measured of boards that are not attached: on them when they were, and by others in imported tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from app.library.files import data_dir
from app.library.measurements import Measurement
from app.library.registry import KnownBoard
from core.spec import Catalogue, Provenance


def imported_file() -> Path:
    """Return the table whose rows appear beside measurements."""
    return data_dir() / "imported.csv"


def of_known(measurements: Iterable[Measurement], boards: Mapping[str, KnownBoard]) -> list[Measurement]:
    """Return the measurements of boards that were attached, with the board's key in their points."""
    keys: dict[str, list[str]] = {}
    for board in boards.values():
        keys.setdefault(board.machine, []).append(board.key)
    return [
        replace(measurement, point=replace(measurement.point, board=key))
        for measurement in measurements
        for key in keys.get(measurement.machine, ())
    ]


def basis(measurements: Sequence[Measurement], n_points: int, before: str) -> str:
    """Return in words what a calibration of a board rests on: its own measurements, imported ones, published rows.

    `n_points` is at how many points its own ones were made. `before` is what was known without them; "" where that is
    the runtime's prior.
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
    """Return the rows of a table as measurements of the boards that they name, in its order.

    Parameters
    ----------
    path
        A table that `trilemma data import` has written; none is the same as an empty one.
    catalogue
        With the boards that were attached before.
    boards
        Those.

    Returns
    -------
    measurements : list of Measurement
        Their `body` has the outputs and their ``source``; they are of no machine.
    notes : list of str
        Why a row is none, in a sentence each.

    Raises
    ------
    FileError
        It cannot be read, or is no such table.
    """
    if not path.exists():
        return [], []
    from app.library.table_points import measurements_in  # what reads tables is not imported where there is none

    return measurements_in(path, catalogue, boards)
