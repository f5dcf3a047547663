"""Signals that end the program: Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed.

The exit status is 128 plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP. A signal
that was ignored when the program started, as ``nohup`` does with SIGHUP, stays ignored. Standard library only, Python
3.8: this file travels to the board.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Callable, Iterator, List, NoReturn, Optional, Union

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

Handler = Union[Callable[[int, Optional[FrameType]], Any], int]


def stopped(number: int) -> int:
    """Return the exit status of a program that a signal ended."""
    return 128 + number


class Stopped(KeyboardInterrupt):
    """A signal ends the command.

    Attributes
    ----------
    number, status
        The signal, and the exit status of the program.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.status = stopped(number)


def status_after(error: KeyboardInterrupt) -> int:
    """Return the exit status of a program that `Stopped` or Python's own exception of Ctrl-C has ended."""
    return error.status if isinstance(error, Stopped) else stopped(signal.SIGINT)


def end_at_once(number: int, frame: FrameType | None = None) -> NoReturn:
    """End the process without an exception, which code of libraries may lose or die of. A signal's handler.

    Children end with their standard input; a file that is being written is left as it was before.
    """
    with suppress(OSError):
        os.write(2, b"trilemma: stopped\n")
    os._exit(stopped(number))


def ignore() -> None:
    """Ignore the signals from now on: the command is done, and the interpreter ends."""
    handle(signal.SIG_IGN)


def handle(handler: Handler) -> None:
    """Handle the signals that are not ignored; in the main thread only."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


@contextmanager
def handled(handler: Handler) -> Iterator[None]:
    """Handle the signals inside the block, and as before after it."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handle(handler)
    try:
        yield
    finally:
        for number, earlier in before.items():
            if earlier is not None:  # None: installed outside of Python
                signal.signal(number, earlier)


@contextmanager
def raised() -> Iterator[None]:
    """Raise `Stopped` at the first signal inside the block, and end at once at the second."""

    def stop(number: int, frame: FrameType | None) -> None:
        handle(end_at_once)
        raise Stopped(number)

    def unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if isinstance(lost.exc_value, Stopped):  # raised where Python drops exceptions, as in a finalizer
            end_at_once(lost.exc_value.number)
        report(lost)

    report, sys.unraisablehook = sys.unraisablehook, unraisable
    try:
        with handled(stop):
            yield
    finally:
        sys.unraisablehook = report


@contextmanager
def deferred() -> Iterator[None]:
    """Let a signal wait until the block is done, then raise `Stopped`: a measurement is kept everywhere or nowhere."""
    came: List[int] = []
    with handled(lambda number, _frame: came.append(number)):
        yield
    if came:
        raise Stopped(came[0])
