"""Operating points, limits and outputs as the JSON of files: presets, settings and measurements share these."""

from __future__ import annotations

from typing import Any

import msgspec

from app.library.axes import FIELDS
from app.library.limits import LIMITS, Limits
from core.spec import Absent, OperatingPoint, Output

_PLAIN = OperatingPoint()


class PointRecord(msgspec.Struct):
    """An operating point in a file, in SI units. What a hand-written file leaves out is the default."""

    board: str
    model: str
    weights: str
    context_tokens: float
    runtime: str = _PLAIN.runtime
    power_mode: str = _PLAIN.power_mode
    kv: str = _PLAIN.kv
    alpha: float = 0.0
    policy: str = _PLAIN.policy
    layout: str = _PLAIN.layout
    reselect_tokens: float = 0.0
    beta: float = 1.0
    bandwidth_byte_s: float | None = None

    def point(self) -> OperatingPoint:
        """Return it as the program holds it, unchecked against the catalogue."""
        return OperatingPoint(**msgspec.structs.asdict(self))


class LimitsRecord(msgspec.Struct):
    """Limits in a file."""

    latency_s: float | None = None
    power_w: float | None = None
    top1_agreement: float | None = None

    def limits(self) -> Limits:
        """Return them as the program holds them, unchecked."""
        return Limits(**msgspec.structs.asdict(self))


def point_record(point: OperatingPoint) -> dict[str, Any]:
    """Return a point (scalars only) as JSON values, by field."""
    return {name: _plain(getattr(point, name)) for name in FIELDS.values()}


def limits_record(limits: Limits) -> dict[str, float | None]:
    """Return limits as JSON values, by field."""
    return {name: getattr(limits, name) for name in LIMITS.values()}


def output_record(output: Output) -> dict[str, Any]:
    """Return an output as commands, presets and exports write it."""
    if isinstance(output, Absent):
        return {"absent": output.reason}
    return {
        "median": float(output.median),
        "q05": float(output.q05),
        "q95": float(output.q95),
        "provenance": output.provenance.value,
    }


def _plain(value: Any) -> Any:
    return float(value) if value is not None and not isinstance(value, str) else value
