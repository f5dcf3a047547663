"""What the saved measurements of this machine teach, for commands that predict without attaching it."""

from __future__ import annotations

from pathlib import Path

from app.agent import board
from app.cli.output import UserError
from app.model.bandwidth import measured_here
from app.model.bench import benched
from app.model.calibration import measured_points
from app.model.files import FileError
from app.model.machine import machine_key
from app.model.measurements import load_measurements, measurements_file
from core.calibrate import calibrate
from core.load import load_catalogue
from core.spec import Catalogue, OperatingPoint, Posterior


def this_machine() -> str:
    """Return the key under which measurements of this machine are saved, as its agent would be named."""
    described = {"torch": board.torch_version()}
    return machine_key({"board": board.describe(Path("/")), "can": described, "models": board.model_files()})


def catalogue_here() -> Catalogue:
    """Return the catalogue, with the memory bandwidth that was measured on this machine if it was.

    Raises
    ------
    UserError
        The file that keeps it cannot be read.
    """
    try:
        machine = this_machine()
        return benched(measured_here(load_catalogue(), machine), machine)
    except FileError as error:
        raise UserError(str(error)) from error


def posterior_for(point: OperatingPoint, catalogue: Catalogue, machine: str = "") -> Posterior | None:
    """Return what a machine's measurements teach about the point's runtime and power mode; None where nothing.

    `machine` is its key; this machine by default.

    Raises
    ------
    UserError
        The file of measurements cannot be read.
    """
    if point.board != "this":
        return None
    try:
        saved, _ = load_measurements(measurements_file(), machine or this_machine())
    except FileError as error:
        raise UserError(str(error)) from error
    points = [p for p in measured_points(saved, catalogue) if _same(p.point, point, catalogue)]
    return calibrate(points, catalogue).posterior if points else None


def _same(one: OperatingPoint, other: OperatingPoint, catalogue: Catalogue) -> bool:
    a, b = catalogue.setting(one), catalogue.setting(other)
    return (a.board, a.runtime, a.mode) == (b.board, b.runtime, b.mode)
