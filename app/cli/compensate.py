"""``trilemma compensate``: make a parameter set for an operating point, install it, measure without and with it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign
from app.campaign.plan import Round, Run
from app.cli.shared.library import open_library
from app.cli.shared.model_file import add_model_file_argument, check_measurable, offered, with_model_file
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import add_target_options, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.measurements import Measurement
from app.library.records import point_record
from app.text.compensation_text import AGAINST, HEADINGS, PUBLISHED, installed_sentence, live_sentence, rows, summary
from core.catalogue.load import load_catalogue
from core.spec import Catalogue, OperatingPoint

WHAT = ("compensation",)
MOST_WINDOWS = 32
"""Limit on windows, equal to that of the agent."""

EXAMPLES = """examples:
  trilemma compensate --weights int4_g128                    both loops; the parameter set stays live
  trilemma compensate --weights int8 --compensation offsets --windows 16 --rollback
  trilemma measure --weights int4_g128 --compensation both   later, with the live set"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the board, the amount of text and the operating point."""
    add_target_options(parser)
    parser.add_argument(
        "--windows", type=int, default=8, metavar="N", help="windows of text, 256 scored tokens each (8)"
    )
    parser.add_argument(
        "--rollback", action="store_true", help="afterwards restore the set that was live before, or none"
    )
    add_point_arguments(parser)
    add_model_file_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Compensate, measure and report."""
    if not 2 <= args.windows <= MOST_WINDOWS:
        raise UserError(f"windows: got {args.windows}, expected 2 to {MOST_WINDOWS}")
    catalogue = with_model_file(args, load_catalogue())
    point = point_from(args, catalogue)
    if args.compensation is None:
        point = replace(point, compensation="both")
    for name, refused, expected in (
        ("compensation", "none", "offsets, feedback or both"),
        ("weights", "fp32", "a quantised format: it is the reference"),
    ):
        if getattr(point, name) == refused:
            raise UserError(f"{name}: got {refused}, expected {expected}")
    library = open_library()
    try:
        with AttachedBoard(target_from(args.attach, args.ssh_config)) as board:
            machine = machine_key(offered(board.hello, args.model_file))
            check_measurable(point, catalogue, board.hello, args.model_file)
            measurement = _measure(board, point, library.catalogue(board.hello, machine, catalogue), machine, args)
            found = measurement.body["compensation"]
            if args.rollback and found.get("installed"):
                board.parameters("rollback", {})
            live = board.parameters("status", {})
        notes = list(measurement.body.get("notes", ()))
        try:
            library.add(measurement)
        except FileError as error:  # the numbers are still worth showing
            notes.append(f"Not saved: {error}.")
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error
    if args.json:
        record = {"point": point_record(measurement.point), **found, "live": dict(live), "published": PUBLISHED}
        print_json({**record, "conditions": measurement.body.get("conditions", {}), "notes": notes})
    else:
        _print(found, live, notes)
    return 0


def _measure(
    board: AttachedBoard, point: OperatingPoint, catalogue: Catalogue, machine: str, args: argparse.Namespace
) -> Measurement:
    found: list[Measurement] = []
    options = {"n_compared": args.windows}
    campaign = Campaign([Round((point,), WHAT, options)], catalogue, model_file=args.model_file)
    with ProgressLine() as line:

        def keep(_: Run, measurement: Measurement) -> None:
            found.append(measurement)

        def show(_: Run, done_frac: float, text: str) -> None:
            line.show(done_frac, text)

        carry_out(board, campaign, catalogue, machine, keep, show)
    if campaign.failure:
        raise UserError(campaign.failure)
    return found[0]


def _print(found: Mapping[str, Any], live: Mapping[str, Any], notes: list[str]) -> None:
    print(summary(found))
    print(f"{AGAINST} {PUBLISHED}")
    print()
    print_table([tuple(heading.upper() for heading in HEADINGS), *rows(found)])
    print()
    for sentence in (installed_sentence(found), live_sentence(live), *notes):
        if sentence:
            print(sentence)
