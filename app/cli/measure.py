"""`trilemma measure`: run an operating point on the board, this machine by default, and print the measurement."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign
from app.campaign.plan import Round, Run
from app.cli.predict import UNITS
from app.cli.shared.library import open_library
from app.cli.shared.model_file import add_model_file_argument, check_measurable, offered, with_model_file
from app.cli.shared.otlp_run import RunExport
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import add_board_as, add_target_options, check_board_as, choose_sheet, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.target import Target
from app.library.board_library import BoardLibrary
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.measurements import Measurement
from app.library.records import point_record
from app.text.energy_data import rail_rows
from app.text.format import DASH, estimate_text, output_text, quantity_text
from core.catalogue.load import load_catalogue
from core.physics.stages import stages_s
from core.predict.scenario import predict
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
"""Outputs that only a measurement has, with their units."""

EXAMPLES = """examples:
  trilemma measure --weights int8 --context 2048 --alpha 0.3
  trilemma measure --context 512 --stages --json            where a token's time goes
  trilemma measure --attach sim:rk3588,accelerate=20        on another board (simulated)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the operating point, and another model file."""
    add_target_options(parser)
    add_board_as(parser)
    add_point_arguments(parser)
    add_model_file_argument(parser)
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="URL",
        help="send trace, values and log of the run to an OpenTelemetry collector (of OTEL_EXPORTER_OTLP_ENDPOINT)",
    )
    parser.add_argument(
        "--stages", action="store_true", help="time the stages of a token too: projections, attention, feed-forward..."
    )


def run(args: argparse.Namespace) -> int:
    """Measure, print and save."""
    check_board_as(args.board_as)
    export = RunExport(args.otlp)
    catalogue = with_model_file(args, load_catalogue())
    point, library = point_from(args, catalogue), open_library()
    try:
        what = (*WHAT, "stages") if args.stages else WHAT
        target = target_from(args.attach, args.ssh_config)
        measurement, hello = _measure(library, target, point, what, args, catalogue, export)
        point = _usual_there(point, args, hello, catalogue)
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error
    notes = list(measurement.body.get("notes", []))
    try:
        library.add(measurement)
        if args.model_file is None:
            library.remember_target(target.text, hello)
    except FileError as error:  # the numbers are still worth showing
        notes.append(f"Not saved: {error}.")
    sent = export.send(measurement.body, point_record(point), notes)
    predicted = None
    if args.stages or not args.json:
        try:
            predicted = _predicted(library, point, catalogue, hello, measurement.machine)
        except ValueError as error:
            predicted = predict(point, catalogue)
            notes.append(f"Predicted from priors alone: {error}.")
    stages = _predicted_stages(predicted, point, catalogue) if args.stages and predicted else {}
    if args.json:
        about = {"notes": notes, "time_utc": measurement.time_utc, **sent}
        beside = {"predicted_stages_s": stages} if args.stages else {}
        print_json({"point": point_record(point), **measurement.body, **beside, **about})
    elif predicted is not None:
        _print(measurement, predicted, notes)
        if args.stages:
            _print_stages(measurement.body, stages)
    return 0


def _predicted_stages(predicted: Prediction, point: OperatingPoint, catalogue: Catalogue) -> dict[str, Any]:
    """Return the predicted time of each stage of a token, by the measurement's names."""
    at = catalogue.resolve(point)
    if isinstance(predicted.decode_s, Absent):
        return {}
    origin = predicted.decode_s.provenance.value
    seconds = stages_s(predicted.parts_s, at.model, at.weights)
    return {f"{name}_s": {"median": float(value), "provenance": origin} for name, value in seconds.items()}


def _print_stages(body: Mapping[str, Any], predicted: Mapping[str, Any]) -> None:
    """Print the stages of a token, measured and predicted, and those of a request."""
    measured = body.get("stages_s", {"absent": "the board does not report the stages of a token"})
    if "absent" in measured:
        print(f"\nStages: {measured['absent']}.")
        return
    rows: list[tuple[str, ...]] = [("STAGE OF A TOKEN", "MEASURED", "PREDICTED")]
    for name, value in measured.items():
        text = estimate_text(value["median"], value["q05"], value["q95"], "s")
        beside = quantity_text(predicted[name]["median"], "s") if name in predicted else DASH
        rows.append((name.removesuffix("_s").replace("_", " "), str(text), beside))
    print()
    print_table(rows)
    rows = [("STAGE OF A REQUEST", "MEASURED")]
    for name, value in body.get("request_stages_s", {}).items():
        said = value["absent"] if "absent" in value else quantity_text(value["median"], "s")
        rows.append((name.removesuffix("_s").replace("_", " "), str(said)))
    print()
    print_table(rows)


def _predicted(
    library: BoardLibrary, point: OperatingPoint, catalogue: Catalogue, hello: Mapping[str, Any], machine: str
) -> Prediction:
    """Return the prediction for the board, with its last measured bandwidth and kernels."""
    catalogue = library.catalogue(hello, machine, catalogue)
    return predict(point, catalogue, library.posterior(point, catalogue, machine))


def _measure(
    library: BoardLibrary,
    target: Target,
    point: OperatingPoint,
    what: tuple[str, ...],
    args: argparse.Namespace,
    catalogue: Catalogue,
    export: RunExport,
) -> tuple[Measurement, Mapping[str, Any]]:
    found: list[Measurement] = []
    with AttachedBoard(target) as board, ProgressLine() as line:
        choose_sheet(library, args.board_as, board.hello)
        point = _usual_there(point, args, board.hello, catalogue)
        check_measurable(point, catalogue, board.hello, args.model_file)
        machine = machine_key(offered(board.hello, args.model_file))
        of_board = library.catalogue(board.hello, machine, catalogue)
        campaign = Campaign([Round((point,), what)], catalogue, model_file=args.model_file)

        def keep(_: Run, measurement: Measurement) -> None:
            found.append(measurement)

        def show(_: Run, done_frac: float, text: str) -> None:
            line.show(done_frac, text)
            export.say(text)

        export.begin()
        carry_out(board, campaign, of_board, machine, keep, show)
        for time_s, log in board.log:
            export.say(log.text, log.level, time_s)
        if campaign.failure:
            raise UserError(campaign.failure)
    return found[0], board.hello


def _usual_there(
    point: OperatingPoint, args: argparse.Namespace, hello: Mapping[str, Any], catalogue: Catalogue
) -> OperatingPoint:
    """Return a point that names no runtime with the usual one of a simulated board; a real one runs Trilemma's own."""
    key = hello.get("board", {}).get("key")
    if args.runtime is not None or not hello.get("simulated") or key not in catalogue.boards:
        return point
    given = {} if args.weights is None else {"weights": point.weights}
    usual = catalogue.with_usual({"board": key, **given})
    return replace(point, runtime=usual["runtime"], weights=usual["weights"])


def _print(measurement: Measurement, predicted: Prediction, notes: list[str]) -> None:
    """Print the measurement; outputs without a sensor are printed as predicted."""
    rows = []
    for name, unit in {**UNITS, **MORE_UNITS}.items():
        text, instead = output_text(measurement.output(name), unit), getattr(predicted, name, None)
        if isinstance(measurement.output(name), Absent) and isinstance(instead, Estimate):
            text = f"{text}; {output_text(instead, unit)}"
        rows.append((name, text))
    print_table(rows)
    rails = rail_rows(measurement.body.get("rails", {}))
    if rails:
        print()
        print_table([("PART OF THE BOARD", "POWER", "A TOKEN", "A PROMPT"), *rails])
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
    if isinstance(value, dict) and {"median", "q05", "q95"} <= value.keys():
        return f"{value['median']:.3g} [{value['q05']:.3g} – {value['q95']:.3g}]"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
