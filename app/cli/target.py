"""The options that name a board to attach, shared by the commands that measure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.cli.output import UserError
from app.client.target import THIS, Target, open_target

FORMS = "[user@]host, tls://host[:port], unix:PATH, sim:BOARD, a recording's FILE, or this"
"""What a target may be, for help texts."""


def add_target_options(parser: argparse.ArgumentParser) -> None:
    """Declare ``--attach`` and ``--ssh-config``."""
    parser.add_argument(
        "--attach", metavar="TARGET", default=THIS, help=f"the board, in place of this machine: {FORMS}"
    )
    add_ssh_config(parser)


def add_ssh_config(parser: argparse.ArgumentParser) -> None:
    """Declare ``--ssh-config``."""
    parser.add_argument(
        "--ssh-config", type=Path, metavar="FILE", help="ssh's configuration, in place of ~/.ssh/config (ssh -F)"
    )


def target_from(text: str, ssh_config: Path | None) -> Target:
    """Return the board that a target names; ssh asks its questions on the terminal.

    Raises
    ------
    UserError
        If it names none.
    """
    try:
        target = open_target(text, ssh_config=ssh_config)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from error
    if target.text != THIS and sys.stderr.isatty():
        print(f"Attaching {target.name}.", file=sys.stderr)
    return target
