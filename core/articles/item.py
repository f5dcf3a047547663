"""What is said of one item of an article."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = float | int | bool | str | Sequence["Value"] | Mapping[str, "Value"]


@dataclass(frozen=True, slots=True)
class Item:
    """One formula, fragment or table. Values by name; the unit is in the name where there is one."""

    key: str
    title: str
    verdict: str  # which check it fails and what to use instead
    printed: Mapping[str, Value] = field(default_factory=dict)
    as_written: Mapping[str, Value] = field(default_factory=dict)
    physical: Mapping[str, Value] = field(default_factory=dict)
    checks: Mapping[str, Value] = field(default_factory=dict)
