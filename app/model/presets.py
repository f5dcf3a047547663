"""Presets: an operating point with its limits and the numbers that stood on the screen, in a file that others can open.

A preset is versioned JSON in SI units. Its ``outputs`` are the predicted and measured values when it was saved, each
with its 90 % interval and provenance, and ``origin`` says where they came from and how to measure them again; opening a
preset reads the point, the limits and the axis and leaves the numbers as the record that they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from app.library import axes, schema
from app.library.files import FileError, read_whole, write_whole
from app.library.limits import Limits
from app.library.machine import why_not_measurable
from app.library.prediction_curves import OUTPUTS
from app.library.records import LimitsRecord, PointRecord, limits_record, output_record, point_record
from app.model.checks import check_limits
from app.model.store import Store
from core.spec import BY_NAME, Catalogue, OperatingPoint

FORMAT = "trilemma-preset"
VERSION = 1


class _Document(msgspec.Struct):
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
    name = path.name
    document = schema.decode_object(read_whole(path), name)
    if document.get("format") != FORMAT:
        got = repr(document["format"]) if "format" in document else "nothing"
        raise FileError(f"{name}: $.format: expected {FORMAT!r}, got {got}")
    if document.get("version") != VERSION:
        raise FileError(
            f"{name}: $.version: expected {VERSION}, got {document.get('version')!r}; from another version of Trilemma"
        )
    parsed = schema.convert(document, _Document, name)
    point, limits = parsed.point.point(), parsed.limits.limits()
    try:
        axes.check_point(point, catalogue)
        check_limits(limits)
        axes.axis_of(parsed.axis, point, catalogue)
    except ValueError as error:
        raise FileError(f"{name}: {error}") from error
    unknown = list(schema.unknown_keys(document, _Document))
    notes = (f"{name}: kept but not used: {', '.join(unknown)}",) if unknown else ()
    return Preset(point, limits, parsed.axis, document, notes)


def save_preset(path: Path, store: Store, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Save the current point and what is known of it; unknown keys of `document`, the preset it came from, are kept.

    Returns
    -------
    dict
        The document as written.

    Raises
    ------
    FileError
        It cannot be written; a file already there is as it was.
    """
    content = schema.merged(document or {}, preset_document(store), _Document)
    write_whole(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    return content


def preset_document(store: Store) -> dict[str, Any]:
    """Return the preset of the store's current point as JSON values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "point": point_record(store.point),
        "limits": limits_record(store.limits),
        "axis": store.axis,
        "outputs": {
            name: {
                "predicted": output_record(getattr(store.prediction, name)),
                "measured": output_record(store.measured(name)),
            }
            for name in OUTPUTS
        },
        "calibration": calibration_summary(store),
        "origin": _origin(store),
    }


def calibration_summary(store: Store) -> dict[str, Any] | None:
    """Return the basis of the calibration behind the numbers, or None without one."""
    calibration = store.calibration
    if calibration is None or store.not_measured_here:
        return None
    names = calibration.posterior.names
    mean, cov = calibration.posterior.log_mean, calibration.posterior.log_cov
    return {
        "parameters": {
            name: {"log_mean": float(mean[i]), "log_sd": float(cov[i, i]) ** 0.5} for i, name in enumerate(names)
        },
        "bandwidth_byte_s": calibration.posterior.bandwidth_byte_s,
        "n_decode": calibration.posterior.n_decode,
    }


def measure_command(point: OperatingPoint, target: str = "") -> str:
    """Return the command that measures a point again, on the board that `target` attaches ("": on this machine)."""
    words = ["trilemma", "measure", *(["--attach", target] if target else [])]
    for name, value in point_record(point).items():
        if value not in ("", None):
            words += [f"--{BY_NAME[name].option}", _typed(value, BY_NAME[name].unit)]
    return shlex.join(words)


def _typed(value: str | float, unit: str) -> str:
    """Return a value as the option of a command takes it; a bandwidth has its unit there."""
    number = repr(value).removesuffix(".0") if isinstance(value, float) else value
    return f"{number}B/s" if unit == "byte/s" else number


def _origin(store: Store) -> dict[str, Any]:
    board = store.catalogue.boards[store.point.board]
    matching = store.measurement
    why_not = why_not_measurable(store.point, store.catalogue, store.link.hello)
    return {
        "saved_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "board": board.name,
        "machine": store.machine,
        "measured_utc": matching.time_utc if matching else None,
        "conditions": matching.body.get("conditions") if matching else None,
        "measure_again": {"absent": why_not} if why_not else measure_command(store.point, store.link.target),
    }
