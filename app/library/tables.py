"""Tables for other programs, CSV or Parquet: columns with unit, provenance and source; a recording's samples."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.client.recording import Recording
from app.library.files import FileError, reason

NO_PARQUET = "parquet: pyarrow is not installed: pip install 'trilemma[parquet]', or export to .csv"


@dataclass(frozen=True)
class Column:
    """A column: floats or texts, its unit ("" where it has none), where its numbers come from."""

    name: str
    values: NDArray[Any] | Sequence[str]
    unit: str = ""
    provenance: str = ""
    source: str = ""

    @property
    def heading(self) -> str:
        """Name, unit and provenance, as a CSV file has it."""
        about = ", ".join(part for part in (self.unit, self.provenance) if part)
        return f"{self.name} [{about}]" if about else self.name


@dataclass(frozen=True)
class Table:
    """Columns of one length, what they are about, and sentences on what is not in them."""

    columns: tuple[Column, ...]
    about: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.columns[0].values) if self.columns else 0

    def csv_lines(self) -> Iterator[str]:
        """Yield the lines of a CSV file; a cell without a value is empty."""
        to = io.StringIO()
        writer = csv.writer(to, lineterminator="\n")
        writer.writerow([column.heading for column in self.columns])
        for i in range(self.n_rows):
            writer.writerow([_cell(column.values[i]) for column in self.columns])
            if to.tell() > 1 << 16:
                yield to.getvalue()
                to.seek(0)
                to.truncate()
        yield to.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value != value else f"{value:.9g}" if isinstance(value, np.float32) else repr(float(value))


def recorded_samples(recording: Recording, keys: Collection[str] = ()) -> Table:
    """Return the samples of a recording: seconds since its beginning, the date, whether a gap precedes, the channels.

    Raises
    ------
    ValueError
        It has no channel of a given name.
    """
    present = [channel for channel in recording.channels if not channel.absent and (not keys or channel.key in keys)]
    missing = set(keys) - {channel.key for channel in present}
    if missing:
        known = ", ".join(channel.key for channel in recording.channels if not channel.absent)
        raise ValueError(f"channel: got {sorted(missing)[0]!r}, expected one of {known}")
    times, gaps, values = list[NDArray[np.int64]](), list[NDArray[np.float64]](), list[NDArray[np.float32]]()
    for piece in recording.pieces():
        times.append(piece.t_ns)
        gaps.append(np.r_[0.0 if piece.joined else 1.0, np.zeros(len(piece.t_ns) - 1)])
        at = {channel.key: i for i, channel in enumerate(piece.channels)}
        rows = np.full((len(piece.t_ns), len(present)), np.nan, np.float32)
        for i, channel in enumerate(present):
            if channel.key in at:
                rows[:, i] = piece.y[:, at[channel.key]]
        values.append(rows)
    t_ns = np.concatenate(times) if times else np.empty(0, np.int64)
    y = np.concatenate(values) if values else np.empty((0, len(present)), np.float32)
    simulated = bool(recording.hello.get("simulated", False))
    provenance = "simulated" if simulated else "measured"
    dates = [_date(recording.time_utc(int(t))) for t in t_ns]
    columns = [
        Column("time_s", (t_ns - recording.first_ns) * 1e-9, "s", source="since the recording began"),
        Column("time_utc", dates, source="of the recording machine's clock when it began"),
        Column("after_gap", np.concatenate(gaps) if gaps else np.empty(0), source="1 where records are missing before"),
        *(Column(c.key, y[:, i], c.unit, provenance, c.source) for i, c in enumerate(present)),
    ]
    board = recording.hello.get("board", {})
    about = {"board": str(board.get("name", "")), "file": recording.path.name, **_clock(recording)}
    return Table(tuple(columns), about, tuple(recording.warnings))


def _date(date: datetime | None) -> str:
    return "" if date is None else date.isoformat(timespec="microseconds")


def _clock(recording: Recording) -> dict[str, str]:
    bounds = [note.message["bound_s"] for note in recording.notes.get("clock", ()) if note.message.get("bound_s")]
    return {"clock_bound_s": repr(max(bounds))} if bounds else {}


def parquet(table: Table, path: Path) -> None:
    """Write a table as Parquet; unit, provenance and source of a column are its metadata.

    Raises
    ------
    FileError
        pyarrow is not installed, or the file cannot be written.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FileError(NO_PARQUET) from error
    arrays, fields = [], []
    for column in table.columns:
        array = pa.array(column.values)
        told = {"unit": column.unit, "provenance": column.provenance, "source": column.source}
        arrays.append(array)
        fields.append(pa.field(column.name, array.type, metadata={key: value for key, value in told.items() if value}))
    made = pa.table(arrays, schema=pa.schema(fields, metadata=table.about))
    try:
        buffer = pa.BufferOutputStream()
        pq.write_table(made, buffer)
        path.write_bytes(buffer.getvalue().to_pybytes())
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {reason(error)}") from error
