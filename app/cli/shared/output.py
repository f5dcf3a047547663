"""Output of commands: one JSON document or aligned text; and the error for a user's mistake."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


class UserError(Exception):
    """A user's request that cannot be done; the message is one sentence with place, value and expectation."""


def print_json(document: Any) -> None:
    """Print one JSON document. NaN and infinity are refused: an absent value is ``{"absent": reason}``."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    print(json.dumps(document, indent=2, ensure_ascii=not unicode, allow_nan=False))


def print_table(rows: Sequence[tuple[str, ...]], *, gap: int = 2) -> None:
    """Print rows of text in aligned columns."""
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print((" " * gap).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
