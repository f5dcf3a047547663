"""Tables for other programs, CSV or Parquet: columns with unit, provenance and source; a recording's samples.

The module imports pandas, so commands import it only to make a table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.client.recording import Recording
from app.library.files import FileError, write_whole

NO_PARQUET = "parquet: pyarrow is not installed: pip install 'trilemma[parquet]', or export to .csv"


@dataclass(frozen=True)
class Column:
    """A column: its unit ("" without one) and the provenance of its numbers."""

    unit: str = ""
    provenance: str = ""
    source: str = ""

    def heading(self, name: str) -> str:
        """Return name, unit and provenance as the heading of a CSV file."""
        about = ", ".join(part for part in (self.unit, self.provenance) if part)
        return f"{name} [{about}]" if about else name


@dataclass(frozen=True)
class Table:
    """A data frame, the descriptions of its columns and of the whole, and sentences on omitted data."""

    frame: pd.DataFrame
    columns: Mapping[str, Column] = field(default_factory=dict)  # those that say more than their name
    about: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    number: str | None = None  # how a CSV file has a float, such as "%.6g"; None: with all its digits

    def column(self, name: str) -> Column:
        """Return the description of a column."""
        return self.columns.get(name, Column())

    def csv(self) -> str:
        """Return a CSV file; an absent value is an empty cell."""
        frame = self.frame.copy()
        for name in frame.select_dtypes("float32"):
            frame[name] = frame[name].map("{:.9g}".format, na_action="ignore")
        frame.columns = [self.column(name).heading(name) for name in frame.columns]
        return str(frame.to_csv(index=False, float_format=self.number, lineterminator="\n"))

    def write_parquet(self, path: Path) -> None:
        """Write a Parquet file; unit, provenance and source of a column are its metadata.

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
        made = pa.Table.from_pandas(self.frame, preserve_index=False)
        fields = [one.with_metadata({k: v for k, v in vars(self.column(one.name)).items() if v}) for one in made.schema]
        made = made.cast(pa.schema(fields, metadata={**made.schema.metadata, **self.about}))
        buffer = pa.BufferOutputStream()
        pq.write_table(made, buffer)
        write_whole(path, buffer.getvalue().to_pybytes())


def recorded_samples(recording: Recording, keys: Collection[str] = ()) -> Table:
    """Return the samples of a recording: seconds since its start, the date, a mark after gaps, the channels.

    Raises
    ------
    ValueError
        The recording has no channel with a given name.
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
    frame = pd.DataFrame(y, columns=[channel.key for channel in present])
    frame.insert(0, "time_s", (t_ns - recording.first_ns) * 1e-9)
    frame.insert(1, "time_utc", pd.Series([_date(recording.time_utc(int(t))) for t in t_ns], dtype=str))
    frame.insert(2, "after_gap", np.concatenate(gaps) if gaps else np.empty(0))
    columns = {
        "time_s": Column("s", source="since the recording began"),
        "time_utc": Column(source="of the recording machine's clock when it began"),
        "after_gap": Column(source="1 where records are missing before"),
        **{channel.key: Column(channel.unit, provenance, channel.source) for channel in present},
    }
    board = recording.hello.get("board", {})
    about = {"board": str(board.get("name", "")), "file": recording.path.name, **_clock(recording)}
    return Table(frame, columns, about, tuple(recording.warnings))


def _date(date: datetime | None) -> str:
    return "" if date is None else date.isoformat(timespec="microseconds")


def _clock(recording: Recording) -> dict[str, str]:
    bounds = [note.message["bound_s"] for note in recording.notes.get("clock", ()) if note.message.get("bound_s")]
    return {"clock_bound_s": repr(max(bounds))} if bounds else {}
