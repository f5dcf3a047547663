"""Presets of the dashboard: the current point with its limits and the numbers on the screen, written to a file.

`app.library.presets` reads them. The ``outputs`` of a preset are the predicted and measured values when it was saved,
each with its 90 % interval and provenance; ``origin`` says where they came from and how to measure them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.files import write_whole
from app.library.machine import why_not_measurable
from app.library.prediction_curves import OUTPUTS
from app.library.presets import FORMAT, VERSION, PresetDocument, measure_command
from app.library.records import limits_record, output_record, point_record
from app.model.store import Store


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
    content = schema.merged(document or {}, preset_document(store), PresetDocument)
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
