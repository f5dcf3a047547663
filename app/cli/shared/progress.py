"""Progress of a command on standard error: one rewritten line on a terminal, otherwise one line per step."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from app.cli.shared.output import one_line, rewrite_line

PATIENCE_S, LEAST_FRAC = 20.0, 0.01
"""The remaining time is shown after this time and this share of the work."""


class ProgressLine:
    """Line with the share done, a text and the remaining time; cleared on leaving the ``with`` block."""

    def __init__(self) -> None:
        self._text = ""
        self._start: tuple[float, float] | None = None
        self._length = 0
        self._rewrites = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._rewrites and self._length:
            rewrite_line(" " * self._length)
            rewrite_line("")

    def show(self, done_frac: float, text: str) -> None:
        """Show the progress."""
        if self._rewrites:
            line = f"{done_frac:4.0%}  {text}{self._left(done_frac)}"
            rewrite_line(line.ljust(self._length))
            self._length = len(line)
        elif text != self._text:
            print(one_line(text), file=sys.stderr, flush=True)
        self._text = text

    def _left(self, done_frac: float) -> str:
        """Return the remaining time at the present pace; "" while it is unknown."""
        now_s = time.monotonic()
        self._start = self._start or (now_s, done_frac)
        elapsed_s, gained_frac = now_s - self._start[0], done_frac - self._start[1]
        if elapsed_s < PATIENCE_S or gained_frac < LEAST_FRAC:
            return ""
        left_s = elapsed_s * (1.0 - done_frac) / gained_frac
        return f", {left_s / 60:.0f} min left" if left_s >= 90 else f", {left_s:.0f} s left"
