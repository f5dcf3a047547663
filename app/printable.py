"""Text from elsewhere, a board or a file, without the characters that steer a terminal or turn our own words around."""

from __future__ import annotations

from typing import Any

_C0_C1 = (*range(32), *range(127, 160))
_DIRECTIONS = (
    0x061C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_LINES = (0x2028, 0x2029)
_HALVES = range(0xD800, 0xE000)
_REMOVED = {code: None for code in (*_C0_C1, *_DIRECTIONS, *_LINES, *_HALVES) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Return a text without control characters, marks of direction, separators of lines and halves of characters.

    A new line and a tab stay.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_REMOVED)


def printable_tree(value: Any) -> Any:
    """Return JSON values with every text in them, keys too, made `printable`."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): printable_tree(item) for key, item in value.items()}
    return [printable_tree(item) for item in value] if isinstance(value, list) else value
