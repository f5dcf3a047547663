"""What the instruction sets of a machine were measured to be worth: the range of beta that is real on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.files import FileError, data_dir, put_aside, write_whole

_AGAIN = "`trilemma bench beta` measures it again"


class _Factor(msgspec.Struct):
    median: float
    q05: float
    q95: float


def beta_file() -> Path:
    """Return where the factors of all machines are."""
    return data_dir() / "beta.json"


def save_beta(path: Path, machine: str, factors: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep the factors of a machine by instruction set, in place of earlier ones; a file of nonsense is put aside.

    Raises
    ------
    FileError
        It cannot be written; the file is as it was.
    """
    kept = {
        name: {field: float(factor[field]) for field in ("median", "q05", "q95")} for name, factor in factors.items()
    }
    try:
        others = schema.read_object(path, _AGAIN)
    except FileError:
        put_aside(path)
        others = {}
    write_whole(path, msgspec.json.format(msgspec.json.encode({**others, machine: kept}), indent=2) + b"\n")


def load_beta(path: Path, machine: str) -> dict[str, float]:
    """Return the factors of a machine by instruction set, relative to its own; empty when none were measured.

    Raises
    ------
    FileError
        There is a file and it cannot be understood; one sentence.
    """
    found = schema.convert(
        schema.read_object(path, _AGAIN).get(machine, {}), dict[str, _Factor], f"{path.name}: {machine}"
    )
    for name, factor in found.items():
        if not 0.0 < factor.q05 <= factor.median <= factor.q95 < math.inf:
            raise FileError(f"{path.name}: {machine}: {name}: expected 0 < q05 <= median <= q95, got {factor}")
    return {name: factor.median for name, factor in found.items()}
