"""Operating points, limits and outputs as the JSON of files: presets, settings and measurements share these."""

from __future__ import annotations

from typing import Any

import msgspec

from app.library.limits import LIMITS, Limits
from core.spec import FIELDS, Absent, Field, OperatingPoint, Output


def _member(field: Field) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind = float if field.is_number else str
    if field.required:
        return field.name, kind
    return field.name, kind if field.default is not None else float | None, field.default


_POINT = msgspec.defstruct("_POINT", [_member(field) for field in FIELDS], kw_only=True)


class PointRecord(_POINT):  # type: ignore[misc, valid-type]  # its fields are those of the table
    """An operating point in a file, in SI units; missing fields have their defaults."""

    def point(self) -> OperatingPoint:
        """Return the point, unchecked against the catalogue."""
        return OperatingPoint(**msgspec.structs.asdict(self))


class LimitsRecord(msgspec.Struct):
    """Limits in a file."""

    latency_s: float | None = None
    power_w: float | None = None
    top1_agreement: float | None = None
    request_p99_s: float | None = None
    answer_tokens: float | None = None
    sustained_tokens_s: float | None = None

    def limits(self) -> Limits:
        """Return the limits, unchecked."""
        return Limits(**msgspec.structs.asdict(self))


def point_record(point: OperatingPoint) -> dict[str, Any]:
    """Return a point (scalars only) as JSON values by field; a rare field is left out at its default."""
    values = ((field, getattr(point, field.name)) for field in FIELDS)
    return {field.name: _plain(value) for field, value in values if not field.rare or value != field.default}


def limits_record(limits: Limits) -> dict[str, float | None]:
    """Return limits as JSON values, by field."""
    return {name: getattr(limits, name) for name in LIMITS.values()}


def output_record(output: Output) -> dict[str, Any]:
    """Return an output in the form of commands, presets and exports."""
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
