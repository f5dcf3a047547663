"""The bench of a machine's kernels, kept so that its calibration starts from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.files import FileError, data_dir, put_aside, write_whole
from app.library.registry import THIS
from core.calibrate.bench_priors import taught
from core.spec import Catalogue

_AGAIN = "`trilemma bench kernels` measures it again"
RUNTIME = "builtin"


class _Row(msgspec.Struct):
    name: str
    dtype: str
    shape: list[int]
    read_share: float
    trap: bool = False


def bench_file() -> Path:
    """Return where the benches of all machines are."""
    return data_dir() / "bench.json"


def save_bench(path: Path, machine: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep the rows of a machine that have a number, beside those of kernels benched before; nonsense is put aside.

    Raises
    ------
    FileError
        It cannot be written; the file is as it was.
    """
    fields = ("name", "dtype", "shape", "read_share", "trap")
    new = [
        {field: row[field] for field in fields if field in row}
        for row in rows
        if isinstance(row.get("read_share"), int | float)
    ]
    try:
        all_machines = schema.read_object(path, _AGAIN)
    except FileError:
        put_aside(path)
        all_machines = {}
    names = {row["name"] for row in new}
    kept = [row for row in all_machines.get(machine, []) if row.get("name") not in names]
    write_whole(path, msgspec.json.encode({**all_machines, machine: kept + new}) + b"\n")


def load_bench(path: Path, machine: str) -> list[dict[str, Any]]:
    """Return the rows of a machine's kernels; none where they were not benched.

    Raises
    ------
    FileError
        There is a file and it cannot be understood; one sentence.
    """
    rows = schema.convert(schema.read_object(path, _AGAIN).get(machine, []), list[_Row], f"{path.name}: {machine}")
    return [msgspec.structs.asdict(row) for row in rows]


def benched(catalogue: Catalogue, machine: str) -> Catalogue:
    """Return the catalogue whose decoder has on this machine the priors that its bench found, if there was one.

    Raises
    ------
    FileError
        As `load_bench`.
    """
    runtime = taught(catalogue.runtimes[RUNTIME], load_bench(bench_file(), machine))
    return replace(catalogue, benched={**catalogue.benched, (THIS, RUNTIME): runtime})
