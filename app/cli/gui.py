"""``trilemma gui``: open the dashboard, or save a picture of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.shared.output import UserError, print_json
from app.cli.shared.target import add_board_as, add_target_options, check_board_as, target_from
from app.gui import Options
from app.gui import run as run_dashboard
from app.qt_platform import CannotStart

THEMES = ("system", "light", "dark")

EXAMPLES = """examples:
  trilemma gui                                              on this machine
  trilemma gui --attach user@orin --theme dark              on a board over ssh
  trilemma gui --screenshot now.png --seconds 10            without a display: a picture after 10 s"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the dashboard."""
    add_target_options(parser)
    add_board_as(parser)
    parser.add_argument("--preset", type=Path, metavar="FILE", help="open this preset")
    parser.add_argument("--size", type=_size, metavar="WxH", help="size of the window in pixels, such as 1600x1000")
    parser.add_argument("--theme", choices=THEMES, help="colours; system follows the desktop")
    parser.add_argument("--screenshot", type=Path, metavar="FILE", help="save a PNG of the window and end")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="N", help="with --screenshot: wait this long instead of until calibrated"
    )


def run(args: argparse.Namespace) -> int:
    """Run the dashboard until it is closed or its picture is saved."""
    if args.seconds is not None and args.screenshot is None:
        raise UserError("--seconds requires --screenshot FILE")
    target_from(args.attach, args.ssh_config)  # what names no board is said before a window opens
    check_board_as(args.board_as)
    options = Options(
        args.screenshot,
        args.seconds,
        args.preset,
        args.size,
        args.theme,
        args.attach,
        args.ssh_config,
        args.board_as,
    )
    status = open_gui(options)
    if args.json and args.screenshot is not None and status == 0:
        print_json({"screenshot": str(args.screenshot)})
    return status


def open_gui(options: Options) -> int:
    """Run the dashboard and return its exit status.

    Raises
    ------
    UserError
        The dashboard cannot start.
    """
    from app.library.files import FileError

    try:
        return run_dashboard(options)
    except (CannotStart, FileError) as error:
        raise UserError(str(error)) from error


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and 200 <= int(width) <= 16384 and 200 <= int(height) <= 16384):
        raise argparse.ArgumentTypeError(f"{text!r}: expected WIDTHxHEIGHT in pixels, 200 to 16384 each")
    return int(width), int(height)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds, 0 to 3600")
    return value
