"""How a command shows what runs, on standard error: one line rewritten on a terminal, elsewhere one for each step."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self


class ProgressLine:
    """Shows done share and text; the line is cleared on leaving the ``with`` block."""

    def __init__(self) -> None:
        self._text = ""
        self._length = 0
        self._rewrites = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._rewrites and self._length:
            print("\r" + " " * self._length + "\r", end="", file=sys.stderr, flush=True)

    def show(self, done_frac: float, text: str) -> None:
        """Show how far it is."""
        if self._rewrites:
            line = f"{done_frac:4.0%}  {text}"
            print("\r" + line.ljust(self._length), end="", file=sys.stderr, flush=True)
            self._length = len(line)
        elif text != self._text:
            print(text, file=sys.stderr, flush=True)
        self._text = text
