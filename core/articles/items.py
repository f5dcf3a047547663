"""The items of both articles by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from core.articles import a_kernels, a_memory, a_speed, b_model, b_network, b_system
from core.articles.item import Item
from core.articles.printed import PRINTED

ITEMS: Mapping[str, Callable[[], Item]] = dict(
    sorted(
        {
            **a_speed.ITEMS,
            **a_memory.ITEMS,
            **a_kernels.ITEMS,
            **b_model.ITEMS,
            **b_system.ITEMS,
            **b_network.ITEMS,
        }.items()
    )
)
"""Each item by key, evaluated when called."""


def item(key: str) -> Item:
    """Return one item, its values computed.

    Raises
    ------
    ValueError
        No such item; the message lists them.
    """
    if key.upper() not in ITEMS:
        raise ValueError(f"item: got {key!r}, expected one of {', '.join(ITEMS)}")
    made = ITEMS[key.upper()]()
    return replace(made, printed={**made.printed, **PRINTED[made.key]})
