"""Typical vector rates of boards whose data sheets do not state one, and how uncertain they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from core.spec import PowerMode

USUAL_OP_PER_BYTE: Mapping[str, float] = {"cpu": 7.0, "gpu": 30.0}
"""Vector operations per byte of peak bandwidth of the boards that rho's priors are of, by unit; any scale would do."""

UNKNOWN_VECTOR_LOG_SD = 0.6  # [prior] of vector rate over bandwidth between boards of one unit: the catalogue's is 0.55


def with_rate_uncertainty(mode: PowerMode, unit: str) -> PowerMode:
    """Return a power mode that carries the log-sd of its vector rate: zero where a source states the rate."""
    unknown = unit in USUAL_OP_PER_BYTE and mode.vector_op_s is None
    return replace(mode, vector_log_sd=UNKNOWN_VECTOR_LOG_SD if unknown else 0.0)
