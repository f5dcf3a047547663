"""Weights of the composite token score, as a text of four shares."""

from __future__ import annotations

import math
import re

SIGNS = ("mass", "small norm", "recency", "phase")
_EXPECTED = f"four shares of 0 to 1 that sum to 1, of {', '.join(SIGNS[:-1])} and {SIGNS[-1]}, such as 0.4/0.3/0.2/0.1"


def score_weights(text: str) -> tuple[float, ...]:
    """Return the four weights of a text, separated by slashes, commas or blanks.

    Raises
    ------
    ValueError
        It has no four shares from 0 to 1 that sum to 1.
    """
    parts = [part for part in re.split(r"[\s,/]+", str(text)) if part]
    try:
        weights = tuple(float(part) for part in parts)
    except ValueError:
        weights = ()
    if len(weights) != len(SIGNS) or not all(0.0 <= w <= 1.0 for w in weights) or abs(math.fsum(weights) - 1.0) > 1e-4:
        raise ValueError(f"score_weights: got {text!r:.60}, expected {_EXPECTED}")
    return tuple(weight / math.fsum(weights) for weight in weights)


def usual_writing(text: str) -> str:
    """Return the text of the same weights that compares equal: "0.4/0.3/0.2/0.1"."""
    return "/".join(f"{weight:g}" for weight in score_weights(text))
