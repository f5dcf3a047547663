"""What the saved measurements of this machine teach, for commands that predict without attaching it."""

from __future__ import annotations

from pathlib import Path

from app.agent import board
from app.cli.output import UserError
from app.model.axes import canonical, check_point
from app.model.calibration import NEWEST
from app.model.files import FileError
from app.model.machine import machine_key
from app.model.measurements import Measurement, load_measurements, measurements_file
from core.calibrate import calibrate
from core.measured import MeasuredPoint, measured_point
from core.spec import Catalogue, OperatingPoint, Posterior


def this_machine() -> str:
    """Return the key under which measurements of this machine are saved, as its agent would be named."""
    return machine_key(
        {
            "board": board.describe(Path("/")),
            "can": {"torch": board.torch_version()},
            "models": board.model_files(),
        }
    )


def saved_measurements() -> tuple[list[Measurement], list[str]]:
    """Return this machine's saved measurements, oldest first, and a sentence for each line that is not one."""
    try:
        return load_measurements(measurements_file(), this_machine())
    except FileError as error:
        raise UserError(str(error)) from error


def points_of(measurements: list[Measurement], catalogue: Catalogue) -> list[MeasuredPoint]:
    """Return what calibration needs of the newest measurements."""
    known = [m for m in measurements if _is_known(m.point, catalogue)]
    return [measured_point(canonical(m.point, catalogue), m.body) for m in known[-NEWEST:]]


def _is_known(point: OperatingPoint, catalogue: Catalogue) -> bool:
    try:
        check_point(point, catalogue)
    except ValueError:  # saved by another version, with other models or formats
        return False
    return True


def posterior_for(point: OperatingPoint, catalogue: Catalogue) -> Posterior | None:
    """Return what this machine's measurements teach about the point's runtime and power mode; None where nothing."""
    if point.board != "this":
        return None
    at = catalogue.setting(point)
    points = [
        measured
        for measured in points_of(saved_measurements()[0], catalogue)
        if (measured.decode_s or measured.ttft_s) and _same(catalogue, measured.point, at.runtime.key, at.mode.key)
    ]
    return calibrate(points, catalogue, check=False).posterior if points else None


def _same(catalogue: Catalogue, point: OperatingPoint, runtime: str, mode: str) -> bool:
    there = catalogue.setting(point)
    return (there.board.key, there.runtime.key, there.mode.key) == ("this", runtime, mode)
