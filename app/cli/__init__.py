"""The command line: one module a command, imported only when it runs.

This folder holds the commands of everyday use. `lab`, `data` and `bench` hold the groups of that name; `shared` holds
the options and output that commands have in common. A command module has `EXAMPLES` for its help,
`add_arguments(parser)` and `run(args) -> int`. It prints through `app.cli.shared.output`, takes `--json` (added here
for all), and reports a user's mistake by raising `UserError` with one sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import keyword
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from app import RESOURCES, VERSION, stopping
from app.cli.shared.output import OutputError, UserError, one_line, printable_output

COMMANDS = {
    "gui": "open the dashboard (the default)",
    "attach": "open the dashboard on a board, or probe it: identity, state, sensors, clock",
    "measure": "measure an operating point on the board",
    "predict": "predict latency, power and accuracy of an operating point",
    "calibrate": "measure a handful of points and fit the model to this board",
    "loop": "follow a board: drift, alarm, corrected predictions, next measurement",
    "explain": "name the bottleneck of an operating point, the best changes, and the source of each number",
    "sweep": "predict a grid of operating points and find the Pareto front",
    "quality": "measure the accuracy cost of pruning and small formats on this model",
    "simulate": "simulate power, heat, throttling and battery of an operating point over hours (SITSEnergy)",
    "record": "write everything a board reports to a file, over reconnects, until stopped",
    "replay": "summarise a recording, or print its samples in its own time",
    "boards": "list the boards in the catalogue, with the source of each number",
    "models": "list the models in the catalogue, with the source of each number",
    "runtimes": "list the runtimes that are configured on a board",
    "doctor": "check which runs and measurements this machine supports, and name what is missing",
    "agent": "serve this machine's sensors and measurements over standard input and output, or at a socket",
    "pair": "give a board its certificate and token once through ssh, to attach it over TLS",
    "compensate": "compensate quantised weights: make a parameter set, install it, measure without and with it",
    "parameters": "show, save, install or roll back the compensation parameters live on a board (SITS-Calib)",
    "simulate-board": "serve a simulated board of the catalogue, with heat, throttling and noise, behind the protocol",
}
"""Command -> its line in `--help`, in that order."""

GROUPS = {
    "lab": (
        "calculators that need no board: heat, schedules, real-time tasks, clocks, knees, scenarios, the two articles",
        {
            "knee": "find the most efficient clock: four knees of a table or of a board, and its power modes",
            "thermal": "fit the heat path of a board to a recording of its temperature after a step of power",
            "sampling": "tell the rhythms of a recording, and as what a faster load appears in its samples",
            "fit": "fit a curve to two columns of a table: ridge polynomial, decay, knee, each with its left-out error",
            "schedule": "schedule a graph of operations (LLMCompiler) or a chain of stages from a file",
            "realtime": "bound the responses of real-time tasks from a file, and simulate them (RT-LLM Scheduler)",
            "clock": "compute clock offset, bounds and drift, timestamp range, fault tolerance and quorum size",
            "scenario": "judge an operating point, figures or a table by an application's limits",
            "formula": "list the formulas of the engine, or evaluate one with your own numbers",
            "items": "list the items of the articles that take your numbers, each a command: lab A03 --latency 40ns",
            "published": "list the items of the two articles (QK-Dispatch, Edge-LoRA...), as printed and by physics",
        },
    ),
    "data": (
        "tables of measurements: import, export, validate, learn",
        {
            "import": "add llama-bench output, a CSV or a recording to a table that validate and learn read",
            "export": "write a recording or measured points as CSV or Parquet, or a point as settings of a runtime",
            "validate": "compare predictions with a table of published measurements on held-out data",
            "learn": "learn the priors of runtimes and the fits of boards from a table of published measurements",
        },
    ),
}
"""Group -> its line in `--help`, and its commands."""
_ITEM = re.compile(r"[ABab]\d{1,3}")
"""An item of an article: a command of the group `lab` for each row of `app.text.lab.table`."""
BENCH = "time Trilemma itself: engine, start, agent, kernels, decoder"
_NEVER_MOVED = ("thermal", "sampling", "formula", "fit", "items")  # had their group from the first day
MOVED = {name: group for group, (_, commands) in GROUPS.items() for name in commands if name not in _NEVER_MOVED}
"""Formerly ungrouped command -> its group; the old names still work."""
TALK = ("agent", "simulate-board")
"""Commands that check their streams themselves."""
SILENT = ("gui", "attach", *TALK)
"""Commands that may start without an output."""


class Parser(argparse.ArgumentParser):
    """Parser whose help names the files of the resources where they are, and that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and one line, and exit."""
        super().error(one_line(message))

    def format_help(self) -> str:
        """Return the help; ``resources/`` in it is a path that can be typed here, in a wheel too."""
        text = super().format_help()
        return (
            text if Path("resources/examples").is_dir() else re.sub(r"(?<![\w/])resources(?=/)", str(RESOURCES), text)
        )


def known(words: Sequence[str]) -> tuple[str, ...]:
    """Return the command that words name, as ("predict",) or ("lab", "knee"); () for an unknown command.

    The old, ungrouped name of a command is accepted too.
    """
    first, second = [*words[:2], "", ""][:2]
    if first in MOVED:
        return (MOVED[first], first)
    if first == "lab" and _ITEM.fullmatch(second):
        return (first, second.upper())
    if first in GROUPS:
        return (first, second) if second in GROUPS[first][1] else ()
    return (first,) if first in COMMANDS or first == "bench" else ()


def _module(name: Sequence[str]) -> Any:
    """Import the module of a command, named as `known` returns it."""
    if list(name) == ["bench"]:
        return importlib.import_module("app.cli.bench.subjects")
    if _ITEM.fullmatch(name[-1]):
        return importlib.import_module("app.cli.lab.items").Item(name[-1])
    path = ".".join(name).replace("-", "_")
    return importlib.import_module(f"app.cli.{path}{'_' if keyword.iskeyword(name[-1]) else ''}")


def _add(subparsers: Any, name: Sequence[str], text: str, chosen: Sequence[str]) -> argparse.ArgumentParser | None:
    """Add a command and return its parser; the chosen command gets its options."""
    if tuple(name) != tuple(chosen):
        subparsers.add_parser(name[-1], help=text)
        return None
    module = _module(name)
    own: argparse.ArgumentParser = subparsers.add_parser(
        name[-1],
        help=text,
        description=textwrap.fill(f"{text[0].upper()}{text[1:]}.", 79),
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.add_argument("--json", action="store_true", help="print one JSON document")
    module.add_arguments(own)
    return own


def _parsers(name: Sequence[str]) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    """Return the main parser and the parser of the named command, None without a command."""
    parser = Parser(
        prog="trilemma",
        description="Latency, power and accuracy of a language model on an edge board, predicted and measured.",
        epilog="trilemma COMMAND --help describes one command, such as trilemma predict --help",
    )
    parser.add_argument("--version", action="version", version=f"trilemma {VERSION}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    found = [_add(subparsers, (key,), text, name) for key, text in COMMANDS.items()]
    for group, (text, commands) in GROUPS.items():
        group_parser = subparsers.add_parser(group, help=text, description=f"{text[0].upper()}{text[1:]}.")
        inside = group_parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
        found += [_add(inside, (group, key), line, name) for key, line in commands.items()]
        if name[:1] == (group,) and name[1] not in commands:
            found.append(_add(inside, name, _module(name).title, name))
    found.append(_add(subparsers, ("bench",), BENCH, name))
    return parser, next((own for own in found if own is not None), None)


def _parsed(name: Sequence[str], words: list[str]) -> argparse.Namespace:
    """Parse the words; only a command's own parser takes options before, between and after a list of words."""
    parser, own = _parsers(name)
    if own is None:
        return parser.parse_args(words)
    n_names = 1 if words[0] in MOVED else len(name)
    return own.parse_intermixed_args(words[n_names:], argparse.Namespace(command=" ".join(name)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 failed, 2 usage error, `app.stopping` after a signal."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help", "--version")):
        words.insert(0, "gui")
    name = known(words)
    closed = sys.stdout is None
    _prepare_output(name)
    with printable_output():
        return _run(words, name, " ".join(("trilemma", *(name or words[:1]))), closed=closed)


def _run(words: list[str], name: tuple[str, ...], title: str, *, closed: bool) -> int:
    """Run a command; an error is one sentence after the title."""

    def failed(sentence: object, status: int = 1) -> int:
        print(f"{one_line(title)}: {one_line(sentence)}", file=sys.stderr)
        return status

    if closed and " ".join(name) not in SILENT:
        return failed("standard output is closed: expected a terminal, a file or a pipe")
    try:
        if words[0] in MOVED:
            print(f"trilemma {words[0]} is now {title}", file=sys.stderr)
        _refuse_no_text(words)
        args = _parsed(name, words)
        command = _module(name)
        with stopping.raised():
            status = int(command.run(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UserError as error:
        return failed(error, 2)
    except (OutputError, BrokenPipeError) as error:
        _discard_output()
        return 1 if isinstance(error, BrokenPipeError) else failed(f"{error} for the output")  # as `head` does
    except (OSError, MemoryError) as error:
        return failed(_reason(error))
    except KeyboardInterrupt as error:
        return failed("stopped", stopping.status_after(error))


def _reason(error: OSError | MemoryError) -> str:
    """Return the sentence on an error of the system that no command has words for."""
    if isinstance(error, MemoryError):
        return "memory is exhausted: expected more of it, or smaller inputs"
    said = error.strerror or str(error)
    return f"{error.filename}: {said.lower()}" if error.filename else said


def _prepare_output(name: Sequence[str]) -> None:
    """Open an output for a command started without one, and let it encode any character.

    No file of ours may take the place of a standard descriptor that is closed: what is printed would land in it.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.dup(2), "w")
    if sys.stdout is None and " ".join(name) not in TALK:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _refuse_no_text(words: Sequence[str]) -> None:
    for word in words:
        if word.startswith("--") and word.endswith("=--"):  # argparse makes an empty list of it
            raise UserError(f"{word[2:-3]}: got '--', expected a value")
        try:
            whole = b"\0" not in os.fsencode(word)
        except UnicodeEncodeError:
            whole = False
        if not whole:
            raise UserError(f"argument: got {word[:100]!r}, expected text without NUL and halves of characters")


def _discard_output() -> None:
    """Discard pending output, so that the interpreter exits without an error."""
    with contextlib.suppress(OSError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
