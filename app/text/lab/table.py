"""The rows of the lab by key."""

from __future__ import annotations

from collections.abc import Mapping

from app.text.lab.item import Lab
from app.text.lab.kernels import A06, A07, A08
from app.text.lab.memory import A03, A04, A11, A14
from app.text.lab.model import B02, B12
from app.text.lab.network import B15, B16

LABS: Mapping[str, Lab] = {one.key: one for one in (A03, A04, A06, A07, A08, A11, A14, B02, B12, B15, B16)}
"""Each row by the key of its item, in the order of the articles."""


def lab(key: str) -> Lab:
    """Return a row by its key.

    Raises
    ------
    ValueError
        There is none; the message lists the keys.
    """
    if key.upper() not in LABS:
        raise ValueError(f"lab: got {key[:40]!r}, expected one of {', '.join(LABS)}")
    return LABS[key.upper()]
