"""Output of commands: one JSON document or aligned text; and the error for a user's mistake.

Names come from boards, runtimes and files of others. `printable_output` lets no character of them steer the terminal.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from core.catalogue.text_files import HIDDEN

_LONGEST = 2000


class UserError(Exception):
    """A user's request that cannot be done; the message is one sentence with place, value and expectation."""


class OutputError(Exception):
    """Standard output takes no more; the message is the system's reason."""


def visible(text: str) -> str:
    r"""Return a text with its hidden characters as escapes; ends of lines and tabs stay.

    Examples
    --------
    >>> visible("\x1b[2J\u202eboard")
    '\\x1b[2J\\u202eboard'
    """
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def one_line(sentence: object) -> str:
    """Return a sentence on one line, and not endless."""
    text = " ".join(filter(None, (line.strip() for line in str(sentence).splitlines())))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class _Printable:
    """A text stream whose hidden characters are escapes. Everything else is that of the stream."""

    def __init__(self, stream: TextIO, *, is_output: bool) -> None:
        self.stream, self._is_output = stream, is_output

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._failing():
            self.stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        with self._failing():
            self.stream.flush()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # the reader left, as `head` does
            if self._is_output:
                raise
        except OSError as error:
            if self._is_output:  # of a message there is no other place to write it to
                raise OutputError((error.strerror or str(error)).lower()) from error


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Let the standard streams show hidden characters as escapes inside the ``with`` block."""
    before = sys.stdout, sys.stderr
    sys.stderr = _Printable(sys.stderr, is_output=False)
    if sys.stdout is not None:
        sys.stdout = _Printable(sys.stdout, is_output=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def rewrite_line(line: str) -> None:
    """Write a line of standard error over the one that stands there."""
    stream = sys.stderr.stream if isinstance(sys.stderr, _Printable) else sys.stderr
    with contextlib.suppress(OSError):
        print("\r" + visible(line.replace("\n", " ")), end="", file=stream, flush=True)


def json_text(document: Any, *, indent: int | None = 2) -> str:
    """Return a JSON document without hidden characters. An absent value is ``{"absent": reason}``, and so is NaN."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    try:
        text = json.dumps(document, indent=indent, ensure_ascii=not unicode, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), indent=indent, ensure_ascii=not unicode, allow_nan=False)
    return HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _finite(value: Any) -> Any:
    """Return JSON values with a reason in place of each number that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"absent": f"not a finite number ({value})"}
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def print_json(document: Any) -> None:
    """Print one JSON document, as `json_text` makes it."""
    print(json_text(document))


def print_table(rows: Sequence[tuple[str, ...]], *, gap: int = 2) -> None:
    """Print rows of text in aligned columns."""
    shown = [[visible(one_line(cell)) if cell.strip() else cell for cell in row] for row in rows]
    if not shown:
        return
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    for row in shown:
        print((" " * gap).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
