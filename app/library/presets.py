"""Presets as files: an operating point with its limits and the numbers that stood on the screen when it was saved.

A preset is versioned JSON in SI units. Reading it takes the point, the limits and the axis; the numbers are a record.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from app.library import axes, schema
from app.library.files import FileError, read_whole
from app.library.limits import Limits, check_limits
from app.library.records import LimitsRecord, PointRecord, point_record
from core.spec import BY_NAME, Catalogue, OperatingPoint

FORMAT = "trilemma-preset"
VERSION = 1


class PresetDocument(msgspec.Struct):
    """The keys of a preset."""

    format: str
    version: int
    point: PointRecord
    limits: LimitsRecord = msgspec.field(default_factory=LimitsRecord)
    axis: str = "point.alpha"
    outputs: dict[str, Any] = {}
    calibration: dict[str, Any] | None = None
    origin: dict[str, Any] = {}


@dataclass(frozen=True)
class Preset:
    """An opened preset. `document` is the file as read, `notes` what the user should know about it, in sentences."""

    point: OperatingPoint
    limits: Limits
    axis: str
    document: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def open_preset(path: Path, catalogue: Catalogue) -> Preset:
    """Read and check a preset. Unknown keys are kept, and named in `Preset.notes`.

    Raises
    ------
    FileError
        ``file: $.point.alpha: expected number, got string`` and the like: the first thing that is wrong.
    """
    parsed, document = _read(path)
    name = path.name
    point, limits = parsed.point.point(), parsed.limits.limits()
    try:
        axes.check_point(point, catalogue)
        check_limits(limits)
        axes.axis_of(parsed.axis, point, catalogue)
    except ValueError as error:
        raise FileError(f"{name}: {error}") from error
    unknown = list(schema.unknown_keys(document, PresetDocument))
    notes = (f"{name}: kept but not used: {', '.join(unknown)}",) if unknown else ()
    return Preset(point, limits, parsed.axis, document, notes)


def read_point(path: Path) -> OperatingPoint:
    """Read the point of a preset, unchecked against a catalogue.

    Raises
    ------
    FileError
        As `open_preset`.
    """
    return _read(path)[0].point.point()


def _read(path: Path) -> tuple[PresetDocument, dict[str, Any]]:
    name = path.name
    document = schema.decode_object(read_whole(path), name)
    if document.get("format") != FORMAT:
        got = repr(document["format"]) if "format" in document else "nothing"
        raise FileError(f"{name}: $.format: expected {FORMAT!r}, got {got}")
    if document.get("version") != VERSION:
        raise FileError(
            f"{name}: $.version: expected {VERSION}, got {document.get('version')!r}; from another version of Trilemma"
        )
    parsed = schema.convert(document, PresetDocument, name)
    return parsed, document


def measure_command(point: OperatingPoint, target: str = "") -> str:
    """Return the command that measures a point again, on the board that `target` attaches ("": on this machine)."""
    words = ["trilemma", "measure", *(["--attach", target] if target else [])]
    for option, text in option_texts(point).items():
        words += [f"--{option}", text]
    return shlex.join(words)


def option_texts(point: OperatingPoint) -> dict[str, str]:
    """Return the options of commands that name a point, by option; one that is unset is left out."""
    named = {BY_NAME[name]: value for name, value in point_record(point).items() if value not in ("", None)}
    return {field.option: _typed(value, field.unit) for field, value in named.items()}


def _typed(value: str | float, unit: str) -> str:
    """Return a value as the option of a command takes it; a bandwidth has its unit there."""
    number = repr(value).removesuffix(".0") if isinstance(value, float) else value
    return f"{number}B/s" if unit == "byte/s" else number
