"""`trilemma agent`: serve this machine over standard input and output."""

from __future__ import annotations

import argparse
import sys

from app.cli.output import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `agent`."""
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # the agent's own measuring process


def run(args: argparse.Namespace) -> int:
    """Serve until standard input ends."""
    if sys.stdin is None or sys.stdout is None:
        raise UserError("standard input or output is closed: expected the two ends of the program that attaches")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UserError("standard input or output is a terminal: expected the two ends of the program that attaches")
    if args.worker:
        from app.agent.worker import main
    else:
        from app.agent.main import main
    return main()
