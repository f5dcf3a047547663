"""The measured memory bandwidth of this machine: what it makes of board "this", and the file that keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.files import FileError, data_dir, put_aside, write_whole
from core.spec import Board, Catalogue
from core.units import Z90

QUIET_SHARE_WANTED, SPREAD_WANTED = 0.8, 1.5
"""With fewer undisturbed repeats than this share, and quantiles of 95 and 5 % further apart than this ratio, other
programs were measured too. Interruptions alone are usual where the threads fill all cores."""

_AGAIN = "`trilemma calibrate` measures the bandwidth again"

BUSY = "while other programs ran"
"""Ends the source of a disturbed bandwidth."""


class _Record(msgspec.Struct):
    median: float
    q05: float
    q95: float
    quiet_share: float = 1.0


def bandwidth_file() -> Path:
    """Return where the bandwidths of all machines are."""
    return data_dir() / "bandwidth.json"


def learned(board: Board, record: Mapping[str, Any], whose: str = "this machine") -> Board:
    """Return the board with its read bandwidth measured, ``{median, q05, q95}`` [byte/s], in place of the prior.

    Other power modes of a data sheet keep their ratio to the first. Where a GPU or NPU decodes, its own bandwidth stays
    that of the data sheet: the cores of the CPU have read.
    """
    measured, on_cpu = float(record["median"]), board.unit == "cpu"
    name = "bandwidth_byte_s" if on_cpu else "cpu_bandwidth_byte_s"
    first = next(iter(board.power_modes.values())).bandwidth_byte_s
    modes = {}
    for key, mode in board.power_modes.items():
        of_mode: dict[str, Any] = {name: measured * (mode.bandwidth_byte_s / first)}
        modes[key] = replace(mode, **of_mode)
    said = f"measured: read bandwidth of {whose}, all threads" + (f", {BUSY}" if disturbed(record) else "")
    log_sd = math.log(record["q95"] / record["q05"]) / (2.0 * Z90)
    return replace(
        board,
        power_modes=modes,
        bandwidth_log_sd=log_sd if on_cpu else board.bandwidth_log_sd,
        sources={**board.sources, **{f"{key}.{name}": said for key in modes}},
    )


def read_record(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the read bandwidth of a measured body with how quiet the machine was; None where it is absent."""
    record = body.get("read_byte_s", {})
    if "median" not in record:
        return None
    return {**record, "quiet_share": float(body.get("conditions", {}).get("quiet_share", 1.0))}


def disturbed(record: Mapping[str, Any]) -> bool:
    """Tell whether other programs ran while a bandwidth was measured, so that it is to be measured again."""
    interrupted = record.get("quiet_share", 1.0) < QUIET_SHARE_WANTED
    return bool(interrupted and record["q95"] > SPREAD_WANTED * record["q05"])


def better(found: Mapping[str, Any], known: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return which of two bandwidths of a machine counts: the new one, unless other programs slowed it."""
    slowed = known is not None and disturbed(found) and found["median"] < known["median"]
    return known if slowed and known is not None else found


def save_bandwidth(path: Path, machine: str, record: Mapping[str, Any]) -> None:
    """Keep the measured read bandwidth of a machine if it is better than an earlier one; nonsense is put aside.

    Raises
    ------
    FileError
        It cannot be written; the file is as it was.
    """
    kept = {field: float(record[field]) for field in ("median", "q05", "q95")}
    kept["quiet_share"] = float(record.get("quiet_share", 1.0))
    try:
        others, known = schema.read_object(path, _AGAIN), load_bandwidth(path, machine)
    except FileError:
        put_aside(path)
        others, known = {}, None
    document = {**others, machine: better(kept, known)}
    write_whole(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def load_bandwidth(path: Path, machine: str) -> dict[str, float] | None:
    """Return the measured read bandwidth of a machine, ``{median, q05, q95}`` [byte/s] and ``quiet_share``, or None.

    Raises
    ------
    FileError
        There is a file and it cannot be understood; one sentence.
    """
    found = schema.read_object(path, _AGAIN).get(machine)
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
