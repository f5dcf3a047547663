"""The measured memory bandwidth of this machine: what it makes of board "this", and the file that keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from app.model import schema
from app.model.files import FileError, data_dir, put_aside, read_whole, write_whole
from core.spec import Board, Catalogue
from core.units import Z90


class _Record(msgspec.Struct):
    median: float
    q05: float
    q95: float


def bandwidth_file() -> Path:
    """Return where the bandwidths of all machines are."""
    return data_dir() / "bandwidth.json"


def learned(board: Board, record: Mapping[str, Any], whose: str = "this machine") -> Board:
    """Return the board with its read bandwidth measured, ``{median, q05, q95}`` [byte/s], in place of the prior."""
    measured = float(record["median"])
    modes = {key: replace(mode, bandwidth_byte_s=measured) for key, mode in board.power_modes.items()}
    said = f"measured: read bandwidth of {whose}, all threads"
    return replace(
        board,
        power_modes=modes,
        bandwidth_log_sd=math.log(record["q95"] / record["q05"]) / (2.0 * Z90),
        sources={**board.sources, **{f"{key}.bandwidth_byte_s": said for key in modes}},
    )


def save_bandwidth(path: Path, machine: str, record: Mapping[str, Any]) -> None:
    """Keep the measured read bandwidth of a machine, in place of an earlier one; a file of nonsense is put aside.

    Raises
    ------
    FileError
        It cannot be written; the file is as it was.
    """
    kept = {field: float(record[field]) for field in ("median", "q05", "q95")}
    try:
        others = _read(path)
    except FileError:
        put_aside(path)
        others = {}
    document = {**others, machine: kept}
    write_whole(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def load_bandwidth(path: Path, machine: str) -> dict[str, float] | None:
    """Return the measured read bandwidth of a machine, ``{median, q05, q95}`` [byte/s]; None when it has none.

    Raises
    ------
    FileError
        There is a file and it cannot be understood; one sentence.
    """
    found = _read(path).get(machine)
    if found is None:
        return None
    record = schema.convert(found, _Record, f"{path.name}: {machine}")
    if not 0.0 < record.q05 <= record.median <= record.q95 < math.inf:
        raise FileError(f"{path.name}: {machine}: expected 0 < q05 <= median <= q95, got {found}")
    return msgspec.structs.asdict(record)


def measured_here(catalogue: Catalogue, machine: str) -> Catalogue:
    """Return the catalogue with the bandwidth that was last measured on this machine, if one was."""
    record = load_bandwidth(bandwidth_file(), machine)
    if record is None:
        return catalogue
    return replace(catalogue, boards={**catalogue.boards, "this": learned(catalogue.boards["this"], record)})


def _read(path: Path) -> dict[str, Any]:
    try:
        return schema.decode_object(read_whole(path), str(path)) if path.exists() else {}
    except FileError as error:
        raise FileError(f"{error}; `trilemma calibrate` measures the bandwidth again") from error
