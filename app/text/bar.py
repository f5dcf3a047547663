"""One row of a bar chart in words: name, value, text, provenance."""

from __future__ import annotations

from dataclasses import dataclass

from core.spec import Provenance


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: a name, a value >= 0 (below 0 it breaks a limit), its text, and where it comes from."""

    name: str
    value: float
    text: str
    provenance: Provenance = Provenance.PREDICTED
    bad: bool = False
