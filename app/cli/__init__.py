"""The command line: one module a command, imported only when it runs.

A command module has `EXAMPLES` for its help, `add_arguments(parser)` and `run(args) -> int`. It prints through
`app.cli.output`, takes `--json` (added here for all), and reports what the user got wrong by raising `UserError` with
one sentence.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import keyword
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from app import VERSION
from app.cli.output import UserError

COMMANDS = {
    "gui": "open the dashboard (the default)",
    "predict": "predict latency, power and accuracy of an operating point",
    "measure": "run an operating point on the board and measure it",
    "calibrate": "measure a handful of points and fit the model to this board",
    "simulate": "simulate power, heat, throttling and battery of an operating point over hours",
    "knee": "find the clock that is worth it: four knees of a table or of a board, and its power modes",
    "schedule": "schedule a graph of operations or a chain of stages from a file",
    "realtime": "bound the responses of real-time tasks from a file, and check them by simulation",
    "clock": "work out clock offsets, bounds and drift, a time stamp's reach, and the quorum of a group",
    "scenario": "judge an operating point, figures or a table by an application's limits",
    "quality": "measure what pruning and small formats cost in accuracy on this model",
    "explain": "say what limits an operating point, what would help, and where each number comes from",
    "sweep": "predict a grid of operating points, and which of them no other beats",
    "validate": "compare predictions with a table of published measurements, by honest splits",
    "learn": "learn the priors of runtimes and the fits of boards from a table of published measurements",
    "boards": "list the boards in the catalogue, with the source of each number",
    "models": "list the models in the catalogue, with the source of each number",
    "published": "list what the two articles print, what it gives as written, and what physics says",
    "attach": "open the dashboard on a board, or probe it: what it is, its state, its sensors, its clock",
    "record": "write everything a board says to a file, over reconnects, until stopped",
    "replay": "say what a recording holds, or print its samples in its own time",
    "import": "take llama-bench output or a CSV of measurements into a table that validate and learn read",
    "export": "write the samples of a recording or measured points as CSV or Parquet, units with every column",
    "simulate-board": "serve a board of the catalogue, simulated with heat, throttling and noise, as if it were there",
    "pair": "hand a board its certificate and token once through ssh, to attach it over TLS",
    "runtimes": "list the runtimes that are configured on a board",
    "parameters": "show, install or roll back the compensation parameters that are live on a board",
    "doctor": "say what this machine can run and measure, and what is missing",
    "agent": "serve this machine's sensors and measurements over standard input and output, or at a socket",
    "bench": "time Trilemma itself: engine, start, agent",
}
"""Every command with the line that `--help` shows, in the order it shows them."""
TALK = ("agent", "simulate-board")
"""Those that need somebody at their output."""


def _module(command: str) -> Any:
    name = command.replace("-", "_")
    return importlib.import_module(f"app.cli.{name}{'_' if keyword.iskeyword(name) else ''}")


def _parsers(name: str | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """Return the parser of everything, and that of the command's own words; None where no command is named."""
    parser = argparse.ArgumentParser(
        prog="trilemma",
        description="Latency, power and accuracy of a language model on an edge board: prediction beside measurement.",
        epilog="trilemma COMMAND --help tells more of one, such as trilemma predict --help",
    )
    parser.add_argument("--version", action="version", version=f"trilemma {VERSION}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    own = None
    for key, text in COMMANDS.items():
        if key == name:
            own = subparsers.add_parser(
                key,
                help=text,
                description=textwrap.fill(f"{text[0].upper()}{text[1:]}.", 79),
                epilog=_module(key).EXAMPLES,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            own.add_argument("--json", action="store_true", help="print one JSON document")
            _module(key).add_arguments(own)
        else:
            subparsers.add_parser(key, help=text)
    return parser, own


def _parsed(name: str | None, words: list[str]) -> argparse.Namespace:
    """Parse the words. Only a command's own parser takes options before, between and after a list of words."""
    parser, own = _parsers(name)
    if own is None:
        return parser.parse_args(words)
    return own.parse_intermixed_args(words[1:], argparse.Namespace(command=name))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 failed, 2 asked for wrongly."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help", "--version")):
        words.insert(0, "gui")
    name = words[0] if words[0] in COMMANDS else None
    if sys.stdout is None and name not in TALK:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # closed by whoever started us
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal lacks is no reason to stop
    try:
        _refuse_no_value(words)
        args = _parsed(name, words)
        status = int(_module(args.command).run(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UserError as error:
        print(f"trilemma {name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output left, as `head` does
        _discard_output()
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _discard_output()
        print(f"trilemma {name}: no space left on device for the output", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"trilemma {name}: stopped", file=sys.stderr)
        return 130


def _refuse_no_value(words: Sequence[str]) -> None:
    for word in words:
        if word.startswith("--") and word.endswith("=--"):  # argparse makes an empty list of it
            raise UserError(f"{word[2:-3]}: got '--', expected a value")


def _discard_output() -> None:
    """Let the output that still waits go nowhere, so that the interpreter's end does not trip over it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
