"""``trilemma parameters``: show, save, install or roll back the compensation parameters that are live on a board."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.target import add_target_options, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.library.files import FileError, reason, write_whole
from app.parameter_set import MAX_SET_BYTE, Installed, ParametersError, ParameterSet, decode, install
from app.text.compensation_text import live_sentence
from app.text.format import counted
from core.articles.as_printed.article_b import CALIBRATION, calibration_figures

EXAMPLES = """examples:
  trilemma parameters                                       those that are live on this machine
  trilemma parameters --save int4.set                       made here by trilemma compensate...
  trilemma parameters --install int4.set --attach user@orin ...installed there
  trilemma parameters --rollback"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action and the board."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--install", type=Path, metavar="FILE", help="make this set live, a file that --save has written")
    what.add_argument("--save", type=Path, metavar="FILE", help="write the live set to a file")
    what.add_argument("--rollback", action="store_true", help="restore the previous set, or none")
    add_target_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action and print the live parameters."""
    wanted = None if args.install is None else read_parameters(args.install)
    installed = None
    try:
        with AttachedBoard(target_from(args.attach, args.ssh_config)) as board:
            if wanted is not None:
                installed = install(board.parameters, wanted)
            if args.save is not None:
                write_whole(args.save, _live(board))
            status = board.parameters("rollback" if args.rollback else "status", {})
            provenance = "simulated" if board.hello.get("simulated") else "measured"
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json({"live": dict(status), "installed": None if installed is None else _record(installed, provenance)})
    else:
        _print(status, installed, provenance)
    return 0


def read_parameters(path: Path) -> ParameterSet:
    """Read a set from a file.

    Raises
    ------
    UserError
        One sentence: file and expected content.
    """
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path.name}: not a file (a folder, a pipe or a device), expected a parameter set")
        with path.open("rb") as file:
            return decode(file.read(MAX_SET_BYTE + 1))
    except OSError as error:
        raise UserError(f"{path.name}: cannot be read: {reason(error)}, expected a file of --save") from error
    except ParametersError as error:
        raise UserError(f"{path.name}: {error}: expected a file that trilemma parameters --save has written") from error


def _live(board: AttachedBoard) -> bytes:
    """Return the live set of a board, read in pieces and checked."""
    data, total = b"", 1
    while len(data) < total:
        answer = board.parameters("read", {"offset": len(data)})
        piece, total = bytes.fromhex(str(answer.get("data", ""))), int(answer.get("total", 0))
        if not piece or total > MAX_SET_BYTE:
            raise UserError("the board does not send its live set: it changed meanwhile, or its agent is older")
        data += piece
    try:
        decode(data)
    except ParametersError as error:
        raise UserError(f"the board sent a damaged set: {error}") from error
    return data


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
    print(live_sentence(status))
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
