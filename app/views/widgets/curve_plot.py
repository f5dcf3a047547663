"""The plot of a curve card. A press or drag in it moves the slider of its axis."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent

from app.text.quantities import WORDS, Quantity
from app.views.widgets.curve_data import CurveData
from app.views.widgets.marks import COLORS, DASHES, ELSEWHERE
from app.views.widgets.plots import (
    Band,
    Figure,
    Marks,
    color_wash,
    in_pen,
    line_pen,
    log_ticks,
    rule,
    show_curve,
    show_rule,
)
from app.views.widgets.theme import Palette, Theme
from core.spec import Provenance

_ENDLESS = 1e6  # of plotted positions: the far end of the wash


class CurvePlot(Figure):
    """Prediction with its band, measured dots, the ghost of A, the limit, and where one is."""

    pressed = Signal(float, bool)  # plot position; whether it begins a drag

    def __init__(self, theme: Theme, quantity: Quantity) -> None:
        super().__init__(theme, f"plot.{quantity.output}", quantity.title)
        self._provenance = Provenance.PREDICTED
        self.wash = self.add(pg.LinearRegionItem(movable=False), color_wash)
        self.band = Band(self)
        self.ghost = self.add(pg.PlotCurveItem(antialias=True, connect="finite"), in_pen("dim"), "A, pinned")
        as_published = in_pen(COLORS[Provenance.AS_PUBLISHED], DASHES[Provenance.AS_PUBLISHED])
        self.golden = self.add(
            pg.PlotCurveItem(antialias=True, connect="finite"), as_published, WORDS[Provenance.AS_PUBLISHED]
        )
        self.curve = self.add(pg.PlotCurveItem(antialias=True, connect="finite"), self._color_curve, "predicted")
        self.bound = self.add(rule(0), in_pen("bad", Qt.PenStyle.DashDotDotLine, 0.7))
        self.pin = self.add(rule(90), in_pen("dim", Qt.PenStyle.DashLine))
        self.here = self.add(rule(90), in_pen("text", Qt.PenStyle.DotLine))
        self.cross = self.add(rule(90), in_pen("dim"))
        self.cross.hide()
        self.marks = Marks(self)
        self.named["measured"] = self.marks.dots
        self.elsewhere: dict[Provenance, Marks] = {}  # made when there is the first

    def _color_curve(self, item: pg.PlotCurveItem, palette: Palette) -> None:
        item.setPen(line_pen(palette, "accent", DASHES[self._provenance]))

    def show_data(self, data: CurveData, y_range: tuple[float, float]) -> None:
        """Draw everything of the current point."""
        self._show_axes(data, y_range)
        if data.provenance is not self._provenance:
            self._provenance = data.provenance
            self._color_curve(self.curve, self._theme.palette)
        show_curve(self.curve, data.x, data.median)
        self.band.set_data(data.x, data.q05, data.q95)
        self.marks.show_provenance(data.measured)
        self.marks.set_data(*data.dots)
        self._show_elsewhere(data)
        self.ghost.setVisible(data.ghost_stands_apart)
        if data.ghost is not None:
            show_curve(self.ghost, data.x, data.ghost)
        self.golden.setVisible(data.golden is not None)
        if data.golden is not None:
            show_curve(self.golden, data.x, data.golden.decode_s)
        show_rule(self.pin, data.pin)
        show_rule(self.here, data.here)
        show_rule(self.bound, None if data.message else data.limit)
        self.wash.setVisible(data.wash_from is not None)
        if data.wash_from is not None:
            self.wash.setRegion((data.wash_from, _ENDLESS))

    def _show_elsewhere(self, data: CurveData) -> None:
        nothing = (np.empty(0),) * 4
        for origin in {**self.elsewhere, **data.elsewhere}:
            if origin not in self.elsewhere:
                self.elsewhere[origin] = Marks(self, origin, ELSEWHERE)
                self.named[f"{WORDS[origin]} elsewhere"] = self.elsewhere[origin].dots
            self.elsewhere[origin].set_data(*data.elsewhere.get(origin, nothing))

    def point_at(self, x: float | None) -> None:
        """Stand the crosshair at a plotted position, or hide it."""
        show_rule(self.cross, x)

    def _show_axes(self, data: CurveData, y_range: tuple[float, float]) -> None:
        axis, (low, high) = data.axis, data.x_range
        ticks = [(float(i), name) for i, name in enumerate(data.names)]
        if axis.log:
            ticks = log_ticks(10.0 ** data.x[0], 10.0 ** data.x[-1], axis.unit)
        self.bottom.describe(axis.unit, high, ticks)
        self.left.describe(data.quantity.unit, max(map(abs, y_range)))
        self.left.show_texts(not data.message)
        self.show_ranges((low, high), y_range)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a drag."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.pressed.emit(self.x_at(event.position()), True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go on with a drag, and point."""
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.pressed.emit(self.x_at(event.position()), False)
        super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a drag."""
