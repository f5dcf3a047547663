"""The agent's command line, one for ``trilemma agent`` and for its zipapp."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Sequence

from app.secure import SecurityError

MODES = ("stdio", "serve", "install", "worker")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the agent is to do."""
    from app.agent.serving.serve import add_arguments as add_serve

    parser.add_argument(
        "mode",
        nargs="?",
        choices=MODES,
        default="stdio",
        metavar="serve",
        help="serve at a socket, in place of standard input and output",
    )
    add_serve(parser)
    parser.add_argument("--metrics", action="store_true", help="print the board's values once as OpenMetrics text")


def main(argv: Sequence[str]) -> int:
    """Do what the words ask: serve standard input and output by default. Return the exit status."""
    from app.agent.launch import see_site_packages

    see_site_packages()
    if not argv:  # the usual way, without the time that a parser takes
        return run("stdio")
    parser = argparse.ArgumentParser(prog="trilemma-agent", description="The agent of Trilemma, on the board.")
    add_arguments(parser)
    words = parser.parse_args(argv)
    if words.metrics:
        from app.agent.serving.metrics import scrape

        print(scrape(Path("/")), end="")
        return 0
    return run(words.mode, words.bind, words.metrics_port, allow_control=words.allow_control)


def run(mode: str, bind: "str | None" = None, metrics_port: "str | None" = None, *, allow_control: bool = False) -> int:
    """Run one of `MODES`; return the exit status."""
    if mode == "worker":
        from app.agent.worker import main as work

        return work()
    if mode == "install":
        from app.agent.serving.install import main as install

        return install()
    if mode == "serve":
        from app.agent.serving.serve import run as serve

        try:
            return serve(bind, metrics_port, allow_control=allow_control)
        except (SecurityError, ValueError) as error:
            words = str(error)
        except OSError as error:
            words = error.strerror or str(error)
        print(f"trilemma agent: {words}", file=sys.stderr)
        return 2
    from app.agent.main import main as talk

    return talk()
