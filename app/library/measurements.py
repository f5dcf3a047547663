"""Measured operating points and their file: one JSON line each, appended and never rewritten."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.axes import check_point
from app.library.files import DamagedFile, FileError, append, data_dir, reason
from app.library.records import PointRecord, point_record
from app.measurement_body import OUTPUTS_OF as OUTPUTS_OF
from app.measurement_body import BodyError, moment
from app.measurement_body import check_body as check
from core.spec import FIELDS, Absent, Catalogue, Estimate, OperatingPoint, Output, Provenance

MAX_READ_BYTE = 32 << 20
"""Only the end of a longer file is read."""
MAX_POINT = 1e18
"""Every number of an operating point is less, in SI units."""
MAX_NAMED = 5
"""Number of damaged lines that are named one by one."""
LEFT_OUT = "it was left out: correct or delete it, or measure the point again"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A finished run. `body` holds outputs by name: ``{median, q05, q95, n, provenance}`` or ``{absent: reason}``."""

    point: OperatingPoint
    body: Mapping[str, Any]
    time_utc: str  # ISO 8601, of this machine's clock
    machine: str  # key of the machine, runtime version and model file it holds for (app.library.machine)

    def output(self, name: str) -> Output:
        """Return one output, or Absent with the reason the board gave."""
        record = self.body.get(name)
        if not isinstance(record, Mapping):
            return Absent("not part of this measurement")
        if "absent" in record:
            return Absent(str(record["absent"]))
        return Estimate(
            float(record["median"]), float(record["q05"]), float(record["q95"]), Provenance(record["provenance"])
        )


def answers(body: Mapping[str, Any], what: Collection[str]) -> dict[str, Any]:
    """Return a result without the outputs that were not requested."""
    other = {name for part, names in OUTPUTS_OF.items() if part not in what for name in names}
    return {name: record for name, record in body.items() if name not in other}


def ran(point: OperatingPoint, body: Mapping[str, Any], catalogue: Catalogue) -> OperatingPoint:
    """Return the point of a run as it ran: the fields in its ``applied`` replace the requested ones.

    The power mode of a board with several modes is named. Formats in ``applied`` have the runtime's own names. A format
    missing from the catalogue keeps that name, so the measurement is kept and does not count for another format.

    Raises
    ------
    FileError
        A field is of another type, a number is out of range, or the board is another one.
    """
    told = body.get("applied", {})
    if not isinstance(told, Mapping) or any(not isinstance(name, str) for name in told):
        raise FileError("the result: $.applied: expected an object")
    if told.get("board", point.board) != point.board:  # another board's predictions would follow it
        raise FileError(f"the result: applied.board: got {told['board']!r:.40}, expected {point.board!r}")
    record = {**point_record(point), **told}
    actual = schema.convert(record, PointRecord, "the result: $.applied").point()
    _check_numbers(actual, "the result: applied")
    from core.catalogue.names.formats import format_key

    if "weights" in told:
        actual = replace(actual, weights=format_key(actual.weights, catalogue.weight_formats))
    if "kv" in told:
        actual = replace(actual, kv=format_key(actual.kv, catalogue.kv_formats, of_weights=False))
    board = catalogue.boards.get(actual.board)
    if board is not None and board.data_sheet and not actual.power_mode and "default" not in board.power_modes:
        return replace(actual, power_mode=next(iter(board.power_modes)))  # tomorrow it may be in another one
    return actual


def ran_elsewhere(asked: OperatingPoint, body: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    """Return in sentences which formats a run had instead of those asked for, and what the catalogue does not have."""
    actual, told = ran(asked, body, catalogue), body.get("applied", {})
    runtime = str(body.get("conditions", {}).get("runtime") or "the board")
    known: Mapping[str, Collection[str]] = {"weights": catalogue.weight_formats, "kv": catalogue.kv_formats}
    sentences = []
    for name, keys in known.items():
        key, wanted, words = getattr(actual, name), getattr(asked, name), told.get(name)
        if key in keys and key != wanted:
            sentences.append(f"{name} {wanted} was not applied: {runtime} says {words}, {key}.")
        elif key != wanted:
            sentences.append(
                f"{runtime} says {words} of its {name} format, not {wanted}; the catalogue has no such format: "
                "the measurement is kept under that name, and no calibration takes it."
            )
    try:
        check_point(replace(actual, weights=asked.weights, kv=asked.kv), catalogue)
    except ValueError as error:
        sentences.append(f"The measurement is kept, and no calibration takes it: {str(error).removeprefix('point.')}.")
    return sentences


def filed(measurement: Measurement, catalogue: Catalogue) -> Measurement:
    """Return a measurement of a requested point as one of the point that `ran`."""
    return replace(measurement, point=ran(measurement.point, measurement.body, catalogue))


def recorded_measurement(
    request: Mapping[str, Any], body: Mapping[str, Any], time_utc: str, machine: str, catalogue: Catalogue
) -> Measurement:
    """Return a measurement from a recording, with its original time, at the point that really ran.

    Raises
    ------
    FileError
        The record is no measurement; one sentence.
    """
    name = "a measurement of the recording"
    try:
        check_body(body, name)
        point = schema.convert(request.get("point", {}), PointRecord, name).point()
        moment(time_utc)
        return Measurement(ran(point, body, catalogue), answers(body, request.get("what", ())), time_utc, machine)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise FileError(f"{name}: {error}") from error


class _Line(msgspec.Struct):
    machine: str
    time_utc: str
    point: PointRecord
    body: dict[str, Any]


def check_body(body: Mapping[str, Any], name: str) -> None:
    """Check the body of a measurement (`app.measurement_body`).

    Raises
    ------
    FileError
        ``name: decode_s.median: ...`` for the first member that is not as expected.
    """
    try:
        check(body, tuple(Provenance))
    except BodyError as error:
        raise DamagedFile(f"{name}: {error}") from None
    except RecursionError:
        raise DamagedFile(f"{name}: got values nested too deep, expected a measurement") from None


def measurements_file(folder: Path | None = None) -> Path:
    """Return the path of the measurements of all machines; `folder` replaces the user's."""
    return (folder or data_dir()) / "measurements.jsonl"


def append_measurement(path: Path, measurement: Measurement) -> None:
    """Append one line to the file; a line torn by an earlier crash is ended first.

    Raises
    ------
    FileError
        The measurement is not sound, or the file cannot be written; earlier lines are unchanged.
    """
    name = f"{path}: the measurement cannot be saved"
    check_body(measurement.body, name)
    record = {
        "machine": measurement.machine,
        "time_utc": measurement.time_utc,
        "point": point_record(measurement.point),
        "body": measurement.body,
    }
    try:
        line = msgspec.json.encode(record)
        _measurement(line, name)
        append(path, line)
    except UnicodeEncodeError as error:
        raise FileError(f"{name}: got half of a character in a text, expected whole ones") from error
    except OSError as error:
        raise FileError(f"{name}: {reason(error)}") from error


def load_measurements(path: Path, machine: str | None) -> tuple[list[Measurement], list[str]]:
    """Read the measurements of one machine, or of all (None), oldest first.

    Returns
    -------
    measurements : list of Measurement
    notes : list of str
        One sentence for each line that is not a measurement, by its number, and for a start left out.

    Raises
    ------
    FileError
        There is a file and it cannot be read.
    """
    notes: list[str] = []
    try:
        if path.exists() and not path.is_file():
            raise FileError(f"{path}: cannot be read: expected a file, it is a folder, a device or a pipe")
        with path.open("rb") as file:
            start = max(file.seek(0, 2) - MAX_READ_BYTE, 0)
            file.seek(0)
            skipped = _count_lines(file, start)
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return [], notes
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {reason(error)}") from error
    if start:
        notes.append(f"{path.name}: only the last {MAX_READ_BYTE >> 20} MiB were read")
    found, damaged = [], list[str]()
    for number, line in enumerate(lines, skipped + 1):
        if not line or (start and number == skipped + 1):
            continue
        try:
            measurement = _measurement(line, f"{path.name}: line {number}")
        except FileError as error:
            damaged.append(f"{error}; {LEFT_OUT}")
            continue
        if machine in (None, measurement.machine):
            found.append(measurement)
    notes += damaged[:MAX_NAMED]
    if len(damaged) > MAX_NAMED:
        notes.append(f"{path.name}: {len(damaged) - MAX_NAMED} more lines are damaged; {LEFT_OUT}")
    return found, notes


def _count_lines(file: Any, end: int) -> int:
    """Return the number of line ends before `end`, and leave the file positioned there."""
    count = 0
    while file.tell() < end:
        count += file.read(min(1 << 20, end - file.tell())).count(b"\n")
    return count


def _measurement(line: bytes, name: str) -> Measurement:
    parsed = schema.convert(schema.decode_object(line, name), _Line, name)
    check_body(parsed.body, name)
    point = parsed.point.point()
    _check_numbers(point, f"{name}: point")
    try:
        moment(parsed.time_utc)
    except BodyError as error:
        raise DamagedFile(f"{name}: {error}") from None
    return Measurement(point, parsed.body, parsed.time_utc, parsed.machine)


def _check_numbers(point: OperatingPoint, name: str) -> None:
    """Raise DamagedFile unless every number of a point is in the range of its field and below `MAX_POINT`."""
    for field in FIELDS:
        value = getattr(point, field.name)
        if field.is_number and value is not None and not (field.holds(value) and value < MAX_POINT):
            wanted = f"a number below {MAX_POINT:g}" if field.holds(value) else field.expected
            raise DamagedFile(f"{name}.{field.name}: got {value:g}, expected {wanted}")
