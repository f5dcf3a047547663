"""``trilemma parameters``: show, install or roll back the compensation parameters that are live on a board."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.target import add_target_options, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.parameters import Installed, install
from app.parameter_set import MAX_CHANNELS, SCALE_RANGE, ParameterSet
from app.text.format import counted
from core.articles.as_printed.article_b import CALIBRATION, calibration_figures
from core.catalogue.inputs import read_text
from core.catalogue.schemas import AT_LEAST_ONE, Table, within
from core.catalogue.toml_files import converted, parse

EXAMPLES = """examples:
  trilemma parameters                                       those that are live on this machine
  trilemma parameters --install resources/examples/parameters.toml --attach user@orin
  trilemma parameters --rollback"""


class ParameterSetFile(Table):
    """A set of compensation parameters in its TOML file: one scale and one zero per channel."""

    gain: Annotated[float, within(1e-6, 2.0 - 1e-6)]
    scale: Annotated[tuple[Annotated[float, within(*SCALE_RANGE)], ...], AT_LEAST_ONE]
    zero: Annotated[tuple[Annotated[float, within(-1e30, 1e30)], ...], AT_LEAST_ONE]
    target_mean: Annotated[float, within(-1e30, 1e30)] = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action and the board."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--install", metavar="FILE", help="make this set live; resources/examples/parameters.toml documents the format"
    )
    what.add_argument("--rollback", action="store_true", help="restore the previous set")
    add_target_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action and print the live parameters."""
    wanted = None if args.install is None else read_parameters(Path(args.install))
    installed = None
    try:
        with AttachedBoard(target_from(args.attach, args.ssh_config)) as board:
            if wanted is not None:
                installed = install(board.parameters, wanted)
            status = board.parameters("rollback" if args.rollback else "status", {})
            provenance = "simulated" if board.hello.get("simulated") else "measured"
    except LinkError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json({"live": dict(status), "installed": None if installed is None else _record(installed, provenance)})
    else:
        _print(status, installed, provenance)
    return 0


def read_parameters(path: Path) -> ParameterSet:
    """Read a set from TOML: ``gain``, ``target_mean``, and ``scale`` and ``zero`` with one number per channel.

    Raises
    ------
    UserError
        One sentence: file, key, expected value.
    """
    try:
        made = converted(path.name, parse(path.name, read_text(path)), ParameterSetFile)
    except ValueError as error:
        raise UserError(str(error)) from error
    n_scale, n_zero = len(made.scale), len(made.zero)
    if n_scale != n_zero or n_scale > MAX_CHANNELS:
        raise UserError(
            f"{path.name}: got {n_scale} scales and {n_zero} zeros, expected equally many, at most {MAX_CHANNELS}"
        )
    return ParameterSet(made.gain, made.target_mean, tuple(zip(made.scale, made.zero, strict=True)))


def _record(found: Installed, provenance: str) -> dict[str, Any]:
    return {
        "epoch": found.epoch,
        "n_message": found.n_message,
        "payload_byte": found.payload_byte,
        "set_s": found.set_s,
        "verify_s": found.verify_s,
        "commit_s": found.commit_s,
        "verify_live_s": found.verify_live_s,
        "total_s": found.total_s,
        "rate_byte_s": found.payload_byte / found.set_s,
        "provenance": provenance,
    }


def _print(status: Mapping[str, Any], installed: Installed | None, provenance: str) -> None:
    if status["n_channels"] is None:
        print("No parameters are live on this board.")
    else:
        channels = counted(status["n_channels"], "channel")
        print(f"Live: {channels}, epoch {status['epoch']}, checksum {status['crc']:#010x}.")
    if installed is None:
        return
    messages = counted(installed.n_message, "message")
    print(
        f"{installed.payload_byte} bytes in {messages}: {installed.total_s * 1e3:.1f} ms, "
        f"of them {installed.set_s * 1e3:.1f} sending and {installed.verify_live_s * 1e3:.1f} verifying ({provenance})."
    )
    rows = [("published for", "payload", "time", "rate", "time-out over time")]
    for chip, (time_ms, payload_kib) in CALIBRATION.items():
        _, rate_mb_s, times = calibration_figures(chip)
        rows.append((chip, f"{payload_kib:g} KiB", f"{time_ms:g} ms", f"{rate_mb_s:.3f} MB/s", f"{times:.2f}"))
    print_table(rows)
