"""JSON values of a board without characters that steer a terminal or turn our own words around."""

from __future__ import annotations

from typing import Any

from core.catalogue.text_files import printable


def printable_tree(value: Any) -> Any:
    """Return JSON values with every text in them, keys too, made `printable`."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): printable_tree(item) for key, item in value.items()}
    return [printable_tree(item) for item in value] if isinstance(value, list) else value
