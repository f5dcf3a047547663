"""All sensors of one unit against time, such as the temperatures of a board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal

from app.text.format import quantity_text
from app.text.names import channel_name
from app.views.widgets.common import Card, ElidedLabel, PlotSpace, label, row, set_text
from app.views.widgets.curve_data import Floats, held_range
from app.views.widgets.live_card import SPAN_S
from app.views.widgets.plots import Figure, in_pen, line_pen, rule, show_rule
from app.views.widgets.theme import Palette, Theme

COLORS = ("measured", "accent", "ok", "published", "text", "dim")
DASHES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine)
MOST = len(COLORS) * len(DASHES)
"""Sensors that can be told apart by colour and dash; more are left out."""


class SensorPlot(Figure):
    """Traces over time; the wheel zooms, a drag pans."""

    moved = Signal()  # by hand

    def __init__(self, theme: Theme, unit: str, title: str) -> None:
        super().__init__(theme, f"plot.live.{unit}", f"{title} over time")
        self.box.setMouseEnabled(x=True, y=False)
        self.box.setLimits(minXRange=SPAN_S[0], maxXRange=SPAN_S[1])
        self.box.sigRangeChangedManually.connect(lambda _: self.moved.emit())
        self.bottom.describe("s", 1.0)
        self.traces: list[Any] = []
        self.cross = self.add(rule(90), in_pen("dim"))
        self.cross.hide()

    def show_traces(self, traces: Sequence[tuple[str, Floats, Floats]]) -> None:
        """Draw (name, times, values) of each sensor."""
        while len(self.traces) < len(traces):
            i = len(self.traces)
            item = self.add(pg.PlotDataItem(connect="finite"), lambda item, p, i=i: item.setPen(pen_of(p, i)))  # type: ignore[misc]
            item.setDownsampling(auto=True, method="peak")
            item.setClipToView(True)
            self.traces.append(item)
        for item in self.traces[len(traces) :]:
            item.setData(np.empty(0), np.empty(0))
        self.named = {}
        for item, (name, t, y) in zip(self.traces, traces, strict=False):
            item.setData(t, y)
            self.named[name] = item

    @property
    def x_range(self) -> tuple[float, float]:
        """The seconds shown."""
        left, right = self.box.viewRange()[0]
        return float(left), float(right)


def pen_of(palette: Palette, i: int) -> Any:
    """Return the pen of the sensor at an index."""
    return line_pen(palette, COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)])


class SensorCard(Card):
    """The sensors of one unit: their traces, and their values now or at the pointer, by colour."""

    def __init__(self, theme: Theme, unit: str, title: str) -> None:
        super().__init__()
        self.setObjectName(f"live.{unit}")
        self.unit, self._y_range = unit, (0.0, 1.0)
        self.origin = ""  # a word before the values, unless they are measured
        self.plot, space = SensorPlot(theme, unit, title), PlotSpace()
        space.take(self.plot)
        self._values = ElidedLabel("dim", Qt.AlignmentFlag.AlignRight)
        self._values.setAccessibleName(f"{title} of each sensor")
        self.body.setSpacing(4)
        line = row(label(title, "heading"), self._values)
        line.setStretch(1, 1)
        self.body.addLayout(line)
        self.body.addWidget(space, 1)
        self._traces: list[tuple[str, Floats, Floats]] = []

    def show_time(self, traces: Sequence[tuple[str, Floats, Floats]], at: float) -> None:
        """Draw (key, times, values) of each sensor, with values at a plotted time."""
        self._traces = [(channel_name(key), t, y) for key, t, y in traces]
        self.plot.show_traces(self._traces)
        self._y_range = held_range(self._y_range, [y for _, _, y in self._traces])
        self.plot.left.describe(self.unit, max(map(abs, self._y_range)))
        self.plot.show_ranges(None, self._y_range)
        set_text(self._values, f"{self.origin}  {self.reading(at)}".strip())

    def reading(self, x: float) -> str:
        """Return the value of each sensor at a plotted time, in words."""
        found = []
        for name, t, y in self._traces:
            i = int(np.searchsorted(t, x, side="right")) - 1
            if i >= 0 and np.isfinite(y[i]):
                found.append(f"{name} {quantity_text(float(y[i]), self.unit)}")
        return " · ".join(found)

    def point_at(self, x: float | None) -> None:
        """Show or hide the crosshair."""
        show_rule(self.plot.cross, x)
