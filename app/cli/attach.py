"""``trilemma attach``: open the dashboard on a board, or print its identity, state, sensors and clock."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from app.cli.doctor import channel_record, channel_rows, state_lines, words
from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.target import FORMS, add_board_as, add_ssh_config, check_board_as, choose_sheet, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.clock import Reading
from app.client.target import Target
from app.library.data_sheet import DataSheet, found_words, sheets
from app.library.files import FileError
from app.text.format import counted, quantity_text
from core.spec import Absent

CLOCK_S = 1.5
"""Time of a probe for pings: the first twenty take two seconds."""

EXAMPLES = """examples:
  trilemma attach user@orin                         the dashboard, on that board
  trilemma attach user@orin --probe --json          print its identity, state and abilities, then end
  trilemma attach user@orin --board-as jetson_orin_nx_16gb    with this data sheet, from now on
  trilemma attach tls://orin --probe                over TLS, after trilemma pair user@orin"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the target and the action."""
    parser.add_argument("target", metavar="TARGET", help=FORMS)
    add_ssh_config(parser)
    add_board_as(parser)
    parser.add_argument("--probe", action="store_true", help="print board, state, channels and clock bound, then end")


def run(args: argparse.Namespace) -> int:
    """Probe the board, or open the dashboard on it."""
    target = target_from(args.target, args.ssh_config)
    check_board_as(args.board_as)
    if not args.probe:
        if args.json:
            raise UserError("--json requires --probe")
        from app.cli.gui import open_gui
        from app.gui import Options

        return open_gui(Options(attach=args.target, ssh_config=args.ssh_config, board_as=args.board_as))
    try:
        report = probe(target, args.board_as)
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(report)
    else:
        _print(report)
    return 0


def probe(target: Target, board_as: str | None = None) -> dict[str, Any]:
    """Attach a board, read its identity, state and clock, and detach it; keep its data sheet for predictions.

    Raises
    ------
    LinkError
        The board cannot be attached.
    FileError
        The record of the board cannot be saved.
    """
    began_s = time.monotonic()
    with AttachedBoard(target) as board:
        attach_s = time.monotonic() - began_s
        board.wait_for_periods()
        board.wait_for_state()
        time.sleep(max(0.0, CLOCK_S - (time.monotonic() - began_s - attach_s)))
        reading = board.clock()
        hello, channels = board.hello, board.channels
    library = open_library()
    choose_sheet(library, board_as, hello)
    sheet = library.data_sheet(hello)
    try:
        if isinstance(sheet, DataSheet):
            library.remember_target(target.text, hello)
    except FileError as error:  # what was read is worth more than its record
        print(f"trilemma attach: {error}; predictions will not know this board", file=sys.stderr)
    return {
        "target": target.text,
        "attach_s": attach_s,
        "agent": {"version": hello["agent"], "protocol": f"{hello['protocol']}.{hello.get('minor', 0)}"},
        "simulated": bool(hello.get("simulated", False)),
        "board": hello["board"],
        "data_sheet": {"absent": sheet.reason} if isinstance(sheet, Absent) else asdict(sheet),
        "state": hello.get("state", {"absent": "its agent reports no state"}),
        "can": hello["can"],
        "models": hello["models"] or {"absent": "no model file"},
        "clock": _clock(hello, reading),
        "channels": [channel_record(channel) for channel in channels],
    }


def sheet_text(found: Mapping[str, Any]) -> str:
    """Return the data sheet of a board and the way it was found, in one line."""
    if "absent" in found:
        return f"absent: {found['absent']}; --board-as KEY chooses one"
    mode = f", in mode {found['mode']}" if found["mode"] else ""
    name = sheets()[found["key"]].name
    return f"{name}{mode}, {found_words(found['by'])}; --board-as KEY chooses another"


def _clock(hello: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Return the state of the board's clock, now or at the time of recording."""
    if "recording" in hello:
        return dict(hello["recording"].get("clock", {"absent": "no ping was answered during the recording"}))
    if reading.bound_s == float("inf"):
        return {"absent": "no ping was answered in time"}
    return {"offset_s": reading.offset_s, "bound_s": reading.bound_s}


def _print(report: Mapping[str, Any]) -> None:
    board, agent, clock = report["board"], report["agent"], report["clock"]
    name = str(board.get("name", "unknown"))
    threads = counted(board["n_threads"], "thread") if "n_threads" in board else ""
    rows = [
        ("board", ", ".join(part for part in (name, threads, board.get("os", "")) if part)),
        ("attached in", quantity_text(report["attach_s"], "s")),
        ("agent", f"{agent['version']}, protocol {agent['protocol']}"),
    ]
    if report["simulated"]:
        rows.append(("simulated", "every number of this board is simulated"))
    rows.append(("data sheet", sheet_text(report["data_sheet"])))
    state = report["state"]
    rows += [("state", words(state))] if "absent" in state else state_lines(state)
    rows += [(f"can {key}", words(value)) for key, value in report["can"].items() if isinstance(value, Mapping)]
    rows += [(f"can {key}", "yes") for key, value in report["can"].items() if value is True]
    bound = words(clock) if "absent" in clock else f"known within {quantity_text(clock['bound_s'], 's')}"
    rows.append(("clock", bound))
    print_table([(key.replace("_", " "), value) for key, value in rows] + channel_rows(report["channels"]))
