"""The measured memory bandwidth of a machine: its effect on the board, and the better of two measured values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.spec import Board
from core.units import Z90

QUIET_SHARE_WANTED, SPREAD_WANTED = 0.8, 1.5
"""Limits of the quiet share and of q95 / q05. A bandwidth beyond both is disturbed: other programs were measured too.

Interruptions alone are usual if the threads fill all cores.
"""

BUSY = "while other programs ran"
"""End of the source of a disturbed bandwidth."""


def with_bandwidth(board: Board, record: Mapping[str, Any], whose: str = "this machine") -> Board:
    """Return the board with a measured read bandwidth, ``{median, q05, q95}`` [byte/s], in place of the prior.

    Other power modes of a data sheet keep their ratio to the first. If a GPU or NPU decodes, its bandwidth stays that
    of the data sheet, because the cores of the CPU did the reading.
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
    """Return the read bandwidth and the quiet share of a measured body; None if it is absent."""
    record = body.get("read_byte_s", {})
    if "median" not in record:
        return None
    return {**record, "quiet_share": float(body.get("conditions", {}).get("quiet_share", 1.0))}


def disturbed(record: Mapping[str, Any]) -> bool:
    """Return True if other programs ran during a bandwidth measurement, so that it should be repeated."""
    interrupted = record.get("quiet_share", 1.0) < QUIET_SHARE_WANTED
    return bool(interrupted and record["q95"] > SPREAD_WANTED * record["q05"])


def better(found: Mapping[str, Any], known: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the valid one of two bandwidths of a machine: the new one, unless other programs slowed it down."""
    slowed = known is not None and disturbed(found) and found["median"] < known["median"]
    return known if slowed and known is not None else found
