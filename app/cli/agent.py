"""`trilemma agent`: serve this machine over standard input and output or at a socket, or save the agent as a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.agent import entry
from app.cli.shared.output import UserError, print_json

EXAMPLES = """examples:
  trilemma agent serve                              at a Unix socket that only you can open
  trilemma agent serve --bind 0.0.0.0:7417          with TLS and token, after trilemma pair from the desktop
  trilemma agent --save trilemma-agent.pyz          one file that any Python 3.8 or newer runs
  trilemma agent --metrics                          the board's values once, as OpenMetrics text
  trilemma agent serve --metrics-port 9469          and the values at http://127.0.0.1:9469/metrics
  trilemma agent --otlp http://collector:4318       to an OpenTelemetry collector, until Ctrl-C"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `agent`."""
    entry.add_arguments(parser)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the agent as one file for a board, and end")
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="URL",
        help="send the board's values to an OpenTelemetry collector until Ctrl-C (of OTEL_EXPORTER_OTLP_ENDPOINT)",
    )
    parser.add_argument(
        "--interval", type=float, default=10.0, metavar="SECONDS", help="time between exports of --otlp (10)"
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="where the board's /sys and /proc are in a container")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # the agent's own measuring process


def run(args: argparse.Namespace) -> int:
    """Serve until standard input ends, or at a socket until stopped."""
    if args.save is not None:
        return _save(args.save, as_json=args.json)
    if args.metrics:
        return _print_metrics(args.root or Path("/"), as_json=args.json)
    if args.otlp is not None:
        from app.cli.shared.otlp import send

        return send(args.otlp, args.interval, args.root or Path("/"))
    mode = "worker" if args.worker else args.mode
    if mode != "serve":
        if args.bind is not None:
            raise UserError("--bind requires serve: expected trilemma agent serve --bind HOST:PORT")
        if args.metrics_port is not None:
            raise UserError("--metrics-port requires serve: expected trilemma agent serve --metrics-port PORT")
        if args.allow_control:
            raise UserError("--allow-control requires serve: expected trilemma agent serve --allow-control")
        _check_streams()
    if mode == "stdio" and args.root is not None:
        from app.agent.main import main

        return main(args.root)
    return entry.run(mode, args.bind, args.metrics_port, allow_control=args.allow_control)


def _print_metrics(root: Path, *, as_json: bool) -> int:
    from app.agent.serving.metrics import SCRAPE_HOLD_S, Meters, exposition

    meters = Meters(root, SCRAPE_HOLD_S)
    meters.settle()
    families = meters.families()
    meters.close()
    if as_json:
        print_json(
            [
                {**family._asdict(), "samples": [{"labels": labels, "value": value} for labels, value in samples]}
                for family, samples in families
                if samples
            ]
        )
    else:
        print(exposition(families), end="")
    return 0


def _check_streams() -> None:
    if sys.stdin is None or sys.stdout is None:
        raise UserError("standard input or output is closed: expected pipes from the program that attaches")
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UserError("standard input or output is a terminal: expected pipes from the program that attaches")


def _save(path: Path, *, as_json: bool) -> int:
    from app.client.agent_file import agent_bytes, agent_hash
    from app.library.files import FileError, write_whole

    try:
        write_whole(path, agent_bytes())
    except FileError as error:
        raise UserError(str(error)) from error
    if as_json:
        print_json({"file": str(path), "sha256": agent_hash()})
    else:
        print(f"{path}: the agent, SHA-256 {agent_hash()}; on a board: python3 {path.name} serve")
    return 0
