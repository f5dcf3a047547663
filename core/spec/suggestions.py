"""Suggestions for unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Collection

MOST_NAMED, MOST_NEAREST, NEAREST_RATIO = 16, 4, 0.3
LISTED_BY = {"board": "boards", "model": "models"}
"""Command that lists all names of a kind."""


def suggestion(kind: str, name: str, known: Collection[str]) -> str:
    """Return a suggestion for an unknown name as the end of a sentence: all known names if few, else the nearest.

    Parameters
    ----------
    kind : str
        Kind of record, such as "board".
    name : str
        The unknown name.
    known : collection of str
        At least one name.
    """
    if len(known) <= MOST_NAMED:
        return f"expected one of {', '.join(sorted(known))}"
    nearest = difflib.get_close_matches(name.lower(), known, MOST_NEAREST, NEAREST_RATIO)
    if not nearest:
        nearest = sorted(known)[:MOST_NEAREST]
    command = f"; see trilemma {LISTED_BY[kind]}" if kind in LISTED_BY else ""
    return f"expected one of {len(known)}, such as {', '.join(nearest)}{command}"
