"""`trilemma measure`: run an operating point on the board, this machine by default, and print what it really does."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.cli.model_file import add_model_file_argument, check_measurable, offered, with_model_file
from app.cli.output import UserError, print_json, print_table
from app.cli.point import add_point_arguments, point_from
from app.cli.predict import UNITS
from app.cli.progress import ProgressLine
from app.cli.target import add_target_options, target_from
from app.cli.taught import posterior_for
from app.client.blocking import AttachedBoard, LinkError
from app.client.target import Target
from app.model.bandwidth import measured_here
from app.model.files import FileError
from app.model.machine import machine_key
from app.model.measurements import Measurement, append_measurement, measurements_file, ran
from app.model.records import point_record
from app.views.format import output_text
from core.load import load_catalogue
from core.scenario import predict
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Prediction

WHAT = ("decode", "ttft", "quality")
MORE_UNITS = {
    "prefill_power_w": "W",
    "prefill_energy_j": "J",
    "idle_power_w": "W",
    "tokens_per_s": "token/s",
    "perplexity": "1",
    "mean_kl": "nat",
}
"""What only a measurement has, with its unit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the operating point, and another model file."""
    add_target_options(parser)
    add_point_arguments(parser)
    add_model_file_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print and save."""
    catalogue = with_model_file(args, load_catalogue())
    point = point_from(args, catalogue)
    try:
        measurement = _measure(target_from(args.attach, args.ssh_config), point, args.model_file, catalogue)
    except LinkError as error:
        raise UserError(str(error)) from error
    notes = list(measurement.body.get("notes", []))
    try:
        append_measurement(measurements_file(), measurement)
    except FileError as error:  # the numbers are still worth showing
        notes.append(f"Not saved: {error}.")
    if args.json:
        print_json({"point": point_record(point), **measurement.body, "notes": notes, "time_utc": measurement.time_utc})
    else:
        _print(measurement, _predicted(point, catalogue, measurement.machine), notes)
    return 0


def _predicted(point: OperatingPoint, catalogue: Catalogue, machine: str) -> Prediction:
    """Return what the board is expected to do, with its bandwidth as it was measured last."""
    try:
        catalogue = measured_here(catalogue, machine)
    except FileError as error:
        raise UserError(str(error)) from error
    return predict(point, catalogue, posterior_for(point, catalogue, machine))


def _measure(target: Target, point: OperatingPoint, model_file: Path | None, catalogue: Catalogue) -> Measurement:
    with AttachedBoard(target) as board, ProgressLine() as line:
        check_measurable(point, catalogue, board.hello, model_file)
        path = None if model_file is None else str(model_file.resolve())
        body = board.measure(point_record(point), WHAT, line.show, model_file=path)
        machine = machine_key(offered(board.hello, model_file))
    return Measurement(ran(point, body, catalogue), body, datetime.now(UTC).isoformat(timespec="seconds"), machine)


def _print(measurement: Measurement, predicted: Prediction, notes: list[str]) -> None:
    """Print what was measured; what no sensor told, as it is predicted."""
    rows = []
    for name, unit in {**UNITS, **MORE_UNITS}.items():
        text, instead = output_text(measurement.output(name), unit), getattr(predicted, name, None)
        if isinstance(measurement.output(name), Absent) and isinstance(instead, Estimate):
            text = f"{text}; {output_text(instead, unit)}"
        rows.append((name, text))
    print_table(rows)
    conditions = measurement.body.get("conditions", {})
    if conditions:
        print(
            "\nConditions: "
            + ", ".join(f"{name.replace('_', ' ')} {_short(v)}" for name, v in conditions.items())
            + "."
        )
    for note in notes:
        print(note)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
