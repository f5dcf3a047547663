"""``trilemma import FILE``: take llama-bench output or a CSV into a table that validate and learn read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.cli.output import UserError, print_json, print_table
from app.model.files import FileError, data_dir
from app.model.imported import add_rows, read_import
from app.views.format import counted
from core.spec import Provenance

EXAMPLE = """examples:
  llama-bench -m model.gguf -o json > bench.json
  trilemma import bench.json --board raspberry_pi_5
  trilemma import published.csv --into mine.csv
  trilemma validate mine.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file, the table and what the file does not say."""
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, EXAMPLE
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="llama-bench JSON or JSONL, or CSV (trilemma validate --help)"
    )
    parser.add_argument(
        "--into", metavar="TABLE.csv", type=Path, help="the table to add to (imported.csv beside the measurements)"
    )
    parser.add_argument(
        "--board", default="", metavar="KEY", help="the board that llama-bench ran on, see trilemma boards"
    )
    parser.add_argument(
        "--provenance",
        default="",
        choices=["", Provenance.MEASURED.value, Provenance.PUBLISHED.value],
        metavar="WORD",
        help="measured (llama-bench) or published (CSV) in place of what the file means",
    )


def run(args: argparse.Namespace) -> int:
    """Read, add, and say what was taken."""
    table = args.into or data_dir() / "imported.csv"
    try:
        rows, notes = read_import(args.file, board=args.board, provenance=args.provenance)
        n_new = add_rows(table, rows)
    except FileError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json({"table": str(table), "n_read": len(rows), "n_new": n_new, "rows": rows, "notes": notes})
        return 0
    print(f"{table}: {counted(n_new, 'row')} added, {counted(len(rows) - n_new, 'row')} there already")
    shown: list[tuple[str, ...]] = [
        ("BOARD", "UNIT", "RUNTIME", "MODEL", "QUANT", "PROMPT", "CONTEXT", "DECODE", "FIRST TOKEN", "PROVENANCE")
    ]
    shown += [_line(row) for row in rows[:40]]
    print_table(shown)
    for note in notes:
        print(note, file=sys.stderr)
    return 0


def _line(row: dict[str, str]) -> tuple[str, ...]:
    def cell(name: str, unit: str = "") -> str:
        return f"{row[name]:.9}{unit}" if row.get(name) else "–"

    decode = cell("decode_ms_per_tok", " ms") if row.get("decode_ms_per_tok") else cell("decode_tok_s", " tok/s")
    names = ("board_key", "compute", "runtime", "model", "quant", "prompt_tokens", "context_tokens")
    return (*(row.get(name) or "–" for name in names), decode, cell("ttft_ms", " ms"), row["provenance"])
