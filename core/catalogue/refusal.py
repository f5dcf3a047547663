"""The sentence that refuses a value of a file: ``file: key: got X, expected Y``."""

from __future__ import annotations

_LONGEST = 200


def refusal(where: str, got: object, expected: str) -> ValueError:
    """Return the error of a value; `where` names the file and the key or line."""
    return ValueError(f"{where}: got {shown(got)}, expected {expected}")


def shown(got: object) -> str:
    """Return a value as a sentence can hold it: on one line, and not endless."""
    if isinstance(got, int) and abs(got) >= 1 << 128:
        return "a number far too large"
    text = repr(got)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
