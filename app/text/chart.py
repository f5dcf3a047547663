"""Charts as plain data: curves, rules, single points and words; `app.views.widgets.chart_plot` draws them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.text.format import quantity_text
from core.spec import Provenance

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Series:
    """A curve (n,), dashed by its provenance, with a 90 % band where `low` and `high` are given."""

    x: Floats
    y: Floats
    provenance: Provenance
    name: str = ""  # written at its end
    color: str = "accent"
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A straight line across the chart at one value of an axis: "x" stands, "y" lies."""

    across: str
    at: float
    name: str = ""
    role: str = "dim"  # colour of the palette


@dataclass(frozen=True, slots=True)
class Points:
    """Single values (n,): dots of one colour; hollow ones mean less. `keys` are passed on by a click."""

    x: Floats
    y: Floats
    color: str = "accent"
    hollow: bool = False
    size_px: int = 7
    keys: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # written beside each


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: `x` and `y` are (name, SI unit) of its axes; a logarithmic axis is given in plain values."""

    title: str
    x: tuple[str, str]
    y: tuple[str, str]
    series: tuple[Series, ...] = ()
    rules: tuple[Rule, ...] = ()
    points: tuple[Points, ...] = ()
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)
    log: tuple[bool, bool] = (False, False)
    x_names: tuple[str, ...] = ()  # of an axis that has no numbers, at 0, 1, 2...
    words: tuple[tuple[float, float, str], ...] = ()  # (x, y, text): written above a place, where there is room
    message: str = ""  # said where there is nothing to draw
    description: str = ""  # in words, for those who cannot see it
    wash_from: float | None = field(default=None)  # from here on one should not go

    def reading(self, x: float) -> str:
        """Return the values of the named curves, or of the first one, at a position of the x axis."""
        parts = [quantity_text(x, self.x[1])]
        for line in self.series if len(self.series) > 1 else self.series[:1]:
            i = int(np.argmin(np.abs(line.x - x)))
            parts.append(f"{line.name} {quantity_text(float(line.y[i]), self.y[1])}".strip())
        return "  ".join(parts)
