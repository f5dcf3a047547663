"""``trilemma data export SOURCE FILE``: samples or measured points as CSV or Parquet; a point as runtime settings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.shared.measured_table import NUMBER, measured_frame
from app.cli.shared.output import UserError, print_json
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.client.recorder import RecordingError
from app.client.recording import Recording
from app.library.files import FileError, write_whole
from app.library.measurements import Measurement, check_body, load_measurements, measurements_file
from app.library.records import PointRecord
from app.library.schema import convert
from app.text.format import counted
from app.text.settings_files.writers import WRITERS, settings_of
from core.catalogue.load import load_catalogue
from core.spec import Catalogue

if TYPE_CHECKING:
    from app.library.tables import Table

SETTINGS = "settings"
"""The source that is an operating point."""

EXAMPLES = """examples:
  trilemma data export night.trilemma night.csv                     its samples
  trilemma data export night.trilemma night.parquet --channel board.power_w --channel package.temp_c
  trilemma data export night.trilemma runs.csv --runs               its measured points, for trilemma data validate
  trilemma data export measurements points.csv                      every point measured on this computer
  trilemma data export settings - --board rk3588 --model qwen2-1.5b --weights w8a8 --context 4096
  trilemma data export settings Modelfile --runtime-settings ollama --preset edge.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare source, file and selection."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a recording, measurements (all points measured here), or settings (a point as settings of a runtime)",
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="*.csv or *.parquet (needs the extra parquet), or - for CSV here; of settings any name, or - for here",
    )
    parser.add_argument(
        "--runs", action="store_true", help="the measured points of a recording, in the columns of validate"
    )
    parser.add_argument("--channel", action="append", metavar="KEY", help="only this channel; may be repeated")
    names = ", ".join(WRITERS)
    parser.add_argument(
        "--runtime-settings", metavar="NAME", help=f"of settings: {names} (that of the point's runtime)"
    )
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Build the table or the settings, and write them."""
    if args.source == SETTINGS:
        return _export_settings(args)
    return _export_table(args)


def _export_table(args: argparse.Namespace) -> int:
    """Build the table and write it."""
    if args.runtime_settings is not None:
        raise UserError(f"--runtime-settings applies to {SETTINGS}: it cannot be combined with {args.source}")
    if args.json and str(args.file) == "-":
        raise UserError("--json: got -, expected a file: - prints CSV")
    try:
        table = _table(args)
        if not args.json:
            for note in table.notes:
                print(note, file=sys.stderr)
        if str(args.file) == "-":
            print(table.csv(), end="")
            return 0
        if args.file.suffix == ".parquet":
            table.write_parquet(args.file)
        elif args.file.suffix == ".csv":
            write_whole(args.file, table.csv().encode())
        else:
            raise UserError(f"{args.file}: expected a name that ends in .csv or .parquet")
    except (FileError, RecordingError, ValueError) as error:
        raise UserError(str(error)) from error
    columns = [{"name": name, **asdict(table.column(name))} for name in table.frame.columns]
    if args.json:
        print_json({"file": str(args.file), "n_rows": len(table.frame), "columns": columns, "notes": list(table.notes)})
    else:
        print(f"{args.file}: {counted(len(table.frame), 'row')}, {counted(len(columns), 'column')}")
    return 0


def _export_settings(args: argparse.Namespace) -> int:
    """Write the settings of a point; what they cannot express goes to standard error."""
    if args.runs or args.channel:
        raise UserError(f"--runs and --channel apply to recordings: they cannot be combined with {SETTINGS}")
    catalogue = with_described(args, load_catalogue())
    point = point_from(args, catalogue)
    try:
        made = settings_of(point, catalogue, args.runtime_settings or "")
        if str(args.file) != "-":
            write_whole(args.file, made.content.encode())
    except (FileError, ValueError) as error:
        raise UserError(str(error)) from error
    if args.json:
        about = {"runtime_settings": made.writer.key, "reference": made.writer.reference, "text": made.text}
        print_json({"file": str(args.file), **about, "not_expressed": list(made.not_expressed)})
        return 0
    for sentence in made.not_expressed:
        print(f"not expressed: {sentence}", file=sys.stderr)
    if str(args.file) == "-":
        print(made.text)
    else:
        print(f"{args.file}: settings of {made.writer.name}, by {made.writer.reference}")
    return 0


def _table(args: argparse.Namespace) -> Table:
    if args.source == "measurements":
        if args.channel:
            raise UserError("--channel applies to recordings: it cannot be combined with measurements")
        return _measured(load_catalogue())
    with Recording(Path(args.source)) as recording:
        if args.runs:
            return _recorded_runs(recording, load_catalogue())
        from app.library.tables import recorded_samples

        return recorded_samples(recording, args.channel or ())


def _recorded_runs(recording: Recording, catalogue: Catalogue) -> Table:
    """Return the measured points of a recording, in the columns that validate reads."""
    board = recording.hello.get("board", {})
    found, notes = list[Measurement](), list[str]()
    for note in recording.notes.get("measured", ()):
        message = note.message
        if "point" not in message["request"]:
            continue
        try:
            check_body(message["body"], "a run")
            point = convert(message["request"]["point"], PointRecord, "a run").point()
            catalogue.resolve(point)
        except (FileError, ValueError) as error:
            notes.append(f"{message['time_utc']}: left out: {error}.")
            continue
        found.append(Measurement(point, message["body"], message["time_utc"], str(board.get("name", "board"))))
    return _points(found, catalogue, (*recording.warnings, *notes))


def _measured(catalogue: Catalogue) -> Table:
    """Return every point measured on this computer, in the columns that validate reads."""
    found, notes = load_measurements(measurements_file(), None)
    known = [measurement for measurement in found if _exists(measurement, catalogue)]
    if len(known) < len(found):
        notes.append(
            f"{len(found) - len(known)} measurements name what the catalogue no longer has; they were left out."
        )
    return _points(known, catalogue, notes)


def _exists(measurement: Measurement, catalogue: Catalogue) -> bool:
    try:
        catalogue.resolve(measurement.point)
    except ValueError:
        return False
    return True


def _points(found: Sequence[Measurement], catalogue: Catalogue, notes: Sequence[str]) -> Table:
    from app.library.tables import Table

    return Table(measured_frame(found, catalogue), notes=tuple(notes), number=NUMBER)
