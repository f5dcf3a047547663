"""Options that name a board to attach, shared by commands that measure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError
from app.client.target import THIS, Target, open_target
from app.library.board_library import BoardLibrary
from app.library.data_sheet import check_choice
from app.library.files import FileError
from app.library.machine import machine_key

FOUND = "found"
FORMS = "[user@]host, tls://host[:port], unix:PATH, sim:BOARD, a recording's FILE, or this"
"""Forms of a target, for help texts."""


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


def add_board_as(parser: argparse.ArgumentParser) -> None:
    """Declare ``--board-as``."""
    parser.add_argument(
        "--board-as",
        metavar="KEY",
        help="use this data sheet (trilemma boards) instead of the recognised one; this: none, found: recognise the "
        "board again. The choice is kept for the board",
    )


def choose_sheet(library: BoardLibrary, key: str | None, hello: Mapping[str, Any]) -> None:
    """Save the choice of ``--board-as`` for the attached board.

    Raises
    ------
    FileError
        The choice cannot be saved.
    """
    if key is not None:
        library.set_data_sheet(machine_key(hello), "" if key == FOUND else key)


def check_board_as(key: str | None) -> None:
    """Raise UserError unless ``--board-as`` names a data sheet."""
    try:
        check_choice("" if key in (None, FOUND) else str(key))
    except FileError as error:
        raise UserError(f"--board-as: {error}") from error


def target_from(text: str, ssh_config: Path | None) -> Target:
    """Return the board that a target names; ssh asks its questions on the terminal.

    Raises
    ------
    UserError
        The target is invalid.
    """
    try:
        if ssh_config is not None and ssh_config.exists() and not ssh_config.is_file():  # ssh would read it for ever
            raise UserError(f"{ssh_config}: not a file (a folder, a pipe or a device): expected ssh's configuration")
        target = open_target(text, ssh_config=ssh_config)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from error
    if target.text != THIS and sys.stderr.isatty():
        print(f"Attaching {target.name}.", file=sys.stderr)
    return target
