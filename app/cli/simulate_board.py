"""``trilemma simulate-board KEY``: a board of the catalogue, simulated behind the protocol of the agent."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import parse_quantity, quantity_text

EXAMPLES = """examples:
  trilemma attach sim:rk3588                          the dashboard on a simulated board
  trilemma record sim:raspberry_pi_5 x.trilemma       record one
  trilemma simulate-board rk3588 --seed 3 --json      what it is and how it differs from its priors
  trilemma simulate-board rk3588 --stdio              serve it over standard input and output"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the board and its surroundings."""
    parser.add_argument("key", metavar="KEY", help="key of the board, see trilemma boards")
    parser.add_argument("--stdio", action="store_true", help="serve it over standard input and output")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of its speed within the priors and of its noise (0)"
    )
    parser.add_argument("--ambient", default="25", metavar="C", help="ambient temperature in deg C (25)")
    parser.add_argument("--cooling", default="heatsink", metavar="KEY", help="bare, heatsink or fan (heatsink)")
    parser.add_argument("--battery", metavar="ENERGY", help="energy of its full battery, such as 56Wh (mains)")
    parser.add_argument(
        "--accelerate",
        default="1",
        metavar="X",
        help="run its clock X times as fast, 1 to 1000 (1); its name shows the factor",
    )


def run(args: argparse.Namespace) -> int:
    """Serve the board, or describe it."""
    from app.simulator.board import SimulatedBoard

    try:
        if args.seed < 0:
            raise ValueError(f"seed: got {args.seed}, expected 0 or more")
        ambient = parse_quantity(args.ambient, "degC", name="ambient", low=-40.0, high=85.0)
        accelerate = parse_quantity(args.accelerate, "1", name="accelerate", low=1.0, high=1000.0)
        battery = None
        if args.battery is not None:
            battery = parse_quantity(args.battery, "J", name="battery", low=36.0, high=3.6e8, bare="Wh")
        board = SimulatedBoard(
            args.key, seed=args.seed, ambient_temp_c=ambient, cooling=args.cooling, battery_j=battery
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.stdio:
        return _serve(board, accelerate)
    report = _report(board)
    if args.json:
        print_json(report)
    else:
        _print(report)
    return 0


def _serve(board: Any, accelerate: float) -> int:
    from app.simulator.server import Server

    if sys.stdin is None or sys.stdin.isatty() or sys.stdout is None or sys.stdout.isatty():
        raise UserError("standard input or output is a terminal: expected pipes from the program that attaches")
    sys.stdout.flush()
    write_fd = os.dup(1)
    os.dup2(2, 1)  # from now on prints go to standard error
    Server(0, write_fd, board, accelerate).serve()
    return 0


def _report(board: Any) -> dict[str, Any]:
    work = board.work({})
    levels = work.speeds.levels
    return {
        "board": board.facts(),
        "simulated": True,
        "channels": board.channels(),
        "default_point": {
            "decode_s": work.decode_s(len(levels.clock_hz) - 1),
            "idle_w": work.speeds.idle_w,
            "decoding_w": float(work.speeds.idle_w + levels.core_w[-1] + levels.dram_w[-1]),
            "clock_hz": [float(levels.clock_hz[0]), float(levels.clock_hz[-1])],
        },
        "notes": list(work.speeds.notes),
    }


def _print(report: dict[str, Any]) -> None:
    point = report["default_point"]
    rows = [
        ("board", report["board"]["name"]),
        *([("mode", report["board"]["power_mode"])] if "power_mode" in report["board"] else []),
        ("default point", f"{quantity_text(point['decode_s'], 's')} a token"),
        ("power", f"{quantity_text(point['idle_w'], 'W')} idle, {quantity_text(point['decoding_w'], 'W')} decoding"),
        ("clock", " to ".join(quantity_text(clock, "Hz") for clock in point["clock_hz"])),
    ]
    print_table(rows)
    print(f"Attach it: trilemma attach sim:{report['board']['key']}")
    for note in report["notes"]:
        print(f"- {note}")
