"""``trilemma data import FILE``: add llama-bench output, a CSV or the runs of a recording to a table.

A log of tegrastats becomes a recording.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.data.import_log import import_log, is_log
from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import board_key
from app.client.recorder import SUFFIX, RecordingError
from app.client.recording import Recording
from app.library.board_library import BoardLibrary
from app.library.files import FileError
from app.library.imported import add_rows, read_import
from app.library.imports import bandwidth_tools
from app.library.imports.bandwidth_tools import Bandwidth
from app.library.machine import machine_key, this_machine
from app.library.measurements import load_measurements, measurements_file
from app.library.other_boards import imported, imported_file
from app.library.recorded import measured
from app.library.registry import THIS
from app.protocol import MAGIC
from app.text.format import DASH, counted, quantity_text
from core.catalogue.text_files import text_of
from core.spec import Provenance

_LONGEST_OUTPUT = 1_000_000
_LINE = re.compile(r"^line (\d+)")
EXAMPLES = """examples:
  llama-bench -m model.gguf -o json > bench.json
  trilemma data import bench.json --board "Raspberry Pi 5"
  trilemma predict --board raspberry_pi_5 --runtime llamacpp_cpu --model qwen2.5-1.5b --weights q4_k_m
  trilemma data import night.trilemma --board orin         what was measured while it was recorded
  trilemma data import tegrastats.log --into orin.trilemma     a recording: to replay, draw, and fit its heat path
  ./stream_c.exe > stream.txt; trilemma data import stream.txt --board this     its Copy line is the bandwidth
  trilemma data import published.csv --into mine.csv
  trilemma data validate mine.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file, the table and what the file does not say."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="output of llama-bench (json, jsonl, csv, sql or md), of STREAM or of lmbench's bw_mem, CSV "
        "(trilemma data validate --help), a recording, or a log of tegrastats",
    )
    parser.add_argument(
        "--into",
        metavar="FILE",
        type=Path,
        help="the table to add to (imported.csv in the data folder, which predictions use); for a log of tegrastats, "
        "the new recording",
    )
    parser.add_argument(
        "--interval", metavar="TIME", help="time between the lines of a log of tegrastats (by its dates, else 1 s)"
    )
    parser.add_argument(
        "--board",
        default="",
        metavar="KEY",
        help="the board that llama-bench ran on, by key or name, see trilemma boards; "
        "for a recording, the name its board gets",
    )
    parser.add_argument(
        "--provenance",
        default="",
        choices=["", Provenance.MEASURED.value, Provenance.PUBLISHED.value],
        metavar="WORD",
        help="measured or published (measured for llama-bench, published for CSV)",
    )


def run(args: argparse.Namespace) -> int:
    """Read, add, and say what was taken."""
    if _is_recording(args.file):
        return _take_recording(args)
    if args.interval is not None or is_log(args.file):
        return import_log(args)
    if (found := _bandwidth(args.file)) is not None:
        return _take_bandwidth(args, found)
    table = args.into or imported_file()
    try:
        board = board_key(args.board, open_library().catalogue().boards) if args.board else ""
        rows, notes = read_import(args.file, board=board, provenance=args.provenance)
        if not rows:
            raise UserError(f"{args.file}: got no row that can be used ({' '.join(notes) or 'it has none'})")
        n_new = add_rows(table, rows)
        if table == imported_file():
            notes += _not_shown(rows)
    except FileError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json({"table": str(table), "n_read": len(rows), "n_new": n_new, "rows": rows, "notes": notes})
        return 0
    print(f"{table}: {counted(n_new, 'row')} added, {counted(len(rows) - n_new, 'row')} already there")
    shown: list[tuple[str, ...]] = [
        ("BOARD", "UNIT", "RUNTIME", "MODEL", "QUANT", "PROMPT", "CONTEXT", "DECODE", "FIRST TOKEN", "PROVENANCE")
    ]
    shown += [_line(row) for row in rows[:40]]
    print_table(shown)
    for note in notes:
        print(note, file=sys.stderr)
    return 0


def _not_shown(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the reasons why rows are only kept in the table and are no points for comparison and calibration."""
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "rows.csv"
        add_rows(alone, rows)
        library = open_library()
        notes = imported(alone, library.catalogue(), library.boards())[1]
    rows_of = dict[str, list[str]]()
    for note in notes:
        row, reason = _LINE.sub(_row_number, note).split(": ", 1)
        rows_of.setdefault(reason, []).append(row.removeprefix("row "))
    return [f"In the table only: row{'s' * (len(of) > 1)} {', '.join(of)}: {reason}." for reason, of in rows_of.items()]


def _row_number(line: re.Match[str]) -> str:
    """Return a message about a line of the table as one about a row; the heading is line 1."""
    return f"row {int(line[1]) - 1}"


def _bandwidth(path: Path) -> Bandwidth | None:
    """Return the bandwidth that STREAM or bw_mem printed into a file; None where it is another file."""
    try:
        if not path.is_file():  # what a pipe gave cannot be read again
            return None
        with path.open("rb") as file:
            content = file.read(_LONGEST_OUTPUT + 1)
        if len(content) > _LONGEST_OUTPUT:
            return None
        return bandwidth_tools.read(text_of(content))
    except OSError:
        return None
    except ValueError as error:
        if str(error).startswith(("line ", "STREAM", "bw_mem")):
            raise UserError(f"{path}: {error}") from error
        return None


def _take_bandwidth(args: argparse.Namespace, found: Bandwidth) -> int:
    """Keep a bandwidth as measured of this machine, or of a board attached before."""
    if args.into or args.provenance:
        raise UserError("--into and --provenance apply to tables: they cannot be combined with a bandwidth")
    library = open_library()
    boards = {board.key: board.machine for board in library.boards().values()}
    if args.board and args.board != THIS and args.board not in boards:
        known = ", ".join([THIS, *boards])
        raise UserError(
            f"--board {args.board}: expected a board attached before, one of {known}; of another give --bandwidth "
            f"{found.median / 1e9:.4g}GB/s to predict"
        )
    machine = this_machine() if args.board in ("", THIS) else boards[args.board]
    before = library.bandwidth(machine)
    record = {"median": found.median, "q05": found.q05, "q95": found.q95, "quiet_share": 1.0}
    try:
        library.set_bandwidth(machine, record)
    except FileError as error:
        raise UserError(str(error)) from error
    board = args.board or THIS
    if args.json:
        print_json({"board": board, "machine": machine, "tool": found.tool, "n": found.n,
                    "read_byte_s": record, "before": before, "notes": list(found.notes)})  # fmt: skip
        return 0
    low, high = quantity_text(found.q05, "byte/s", 4), quantity_text(found.q95, "byte/s", 4)
    print(f"{board}: {quantity_text(found.median, 'byte/s', 4)} [{low} – {high}] by {found.tool} is its bandwidth now")
    for note in found.notes:
        print(f"{note}.", file=sys.stderr)
    return 0


def _is_recording(path: Path) -> bool:
    if path.suffix == SUFFIX:
        return True
    try:
        if not path.is_file():  # what a pipe gave cannot be read again
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _take_recording(args: argparse.Namespace) -> int:
    """Keep what a recording holds of measurements as if its board had been attached then."""
    if args.into or args.provenance:
        raise UserError("--into and --provenance apply to tables: they cannot be combined with a recording")
    try:
        with Recording(args.file) as recording:
            hello = recording.hello
            library = open_library()
            found, bandwidth, notes = measured(recording, library.catalogue(hello))
        if not found:
            raise UserError(
                f"{args.file}: nothing was measured while it was recorded" + "".join(f"; {n}" for n in notes)
            )
        machine = machine_key(hello)
        have = {(m.time_utc, m.point) for m in load_measurements(measurements_file(), machine)[0]}
        new = [m for m in found if (m.time_utc, m.point) not in have]
        for measurement in new:
            library.add(measurement)
        if bandwidth and library.bandwidth(machine) is None:
            library.set_bandwidth(machine, bandwidth)
        key = _name(library, args, machine, hello)
    except (FileError, RecordingError) as error:
        raise UserError(str(error)) from error
    if args.json:
        about = {"board": key, "machine": machine, "simulated": bool(hello.get("simulated", False))}
        print_json({**about, "n_read": len(found), "n_new": len(new), "notes": notes})
        return 0
    print(f"{counted(len(new), 'measurement')} of {key} added, {len(found) - len(new)} already there")
    for note in notes:
        print(note, file=sys.stderr)
    return 0


def _name(library: BoardLibrary, args: argparse.Namespace, machine: str, hello: Mapping[str, Any]) -> str:
    """Return the name of a recording's board: the one that it has, else the one that is given, else the file's."""
    if machine == this_machine():
        return THIS
    known = [board.key for board in library.boards().values() if board.machine == machine]
    if args.board or not known:
        library.remember_target(args.board or args.file.stem, hello)
        return str(args.board or args.file.stem)
    return known[0]


def _line(row: dict[str, str]) -> tuple[str, ...]:
    def milliseconds(name: str) -> str:
        return quantity_text(1e-3 * float(row[name]), "s") if row.get(name) else DASH

    decode = milliseconds("decode_ms_per_tok")
    if not row.get("decode_ms_per_tok") and row.get("decode_tok_s"):
        decode = f"{float(row['decode_tok_s']):.3g} tokens/s"
    names = ("board_key", "compute", "runtime", "model", "quant", "prompt_tokens", "context_tokens")
    return (*(row.get(name) or DASH for name in names), decode, milliseconds("ttft_ms"), row["provenance"])
