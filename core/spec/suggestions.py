"""What to say of a name that nothing has: the names that there are if few, else the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection

MOST_NAMED, MOST_NEAREST, NEAREST_RATIO = 16, 4, 0.3
LISTED_BY = {"board": "boards", "model": "models"}
"""Which of the program's commands lists all names of a kind."""


def suggestion(kind: str, name: str, known: Collection[str]) -> str:
    """Return what there is instead of an unknown name, as the end of a sentence.

    Parameters
    ----------
    kind : str
        What the name is of, such as "board".
    name : str
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
