"""Draws a chart (`app.views.chart`) with pyqtgraph. Imported when the first one is shown (docs/adr/0003-plots.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent, QPen

from app.views.chart import Chart, Points, Rule, Series
from app.views.marks import DASHES
from app.views.plots import Band, Figure, line_pen, log_ticks
from app.views.theme import HEADING_PX, Palette, Theme, font

_REACH_PX = 12.0  # a click nearer than this to a dot is on it
_ENDLESS = 1e6


class ChartPlot(Figure):
    """A chart. A new one of the same make reuses nothing: these are not drawn while something moves."""

    picked = Signal(int)  # the key of the dot that was clicked

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        super().__init__(theme, path, name)
        self._chart: Chart | None = None
        self.cross = self.add(pg.InfiniteLine(angle=90), lambda item, p: item.setPen(line_pen(p, "dim")))
        self.cross.hide()
        self._n_kept = len(self._colored)

    def show_chart(self, chart: Chart) -> None:
        """Draw a chart in place of the one before."""
        for item, _ in self._colored[self._n_kept :]:
            self.removeItem(item)
        del self._colored[self._n_kept :]
        self._chart = chart
        self._show_axes(chart)
        if chart.message:
            return
        if chart.wash_from is not None:
            self.add(pg.LinearRegionItem((chart.wash_from, _ENDLESS), movable=False), _color_wash)
        for line in chart.series:
            self._draw_series(line)
        for rule in chart.rules:
            self._draw_rule(rule)
        for dots in chart.points:
            self._draw_points(dots)

    def _show_axes(self, chart: Chart) -> None:
        for axis, (_, unit), span, log in zip(
            (self.bottom, self.left), (chart.x, chart.y), (chart.x_range, chart.y_range), chart.log, strict=True
        ):
            names = chart.x_names if axis is self.bottom else ()
            ticks = [(float(i), name) for i, name in enumerate(names)]
            axis.describe(unit, max(map(abs, span)), log_ticks(*span, unit) if log else ticks)
            axis.show_texts(not chart.message)
        x, y = (
            (float(np.log10(span[0])), float(np.log10(span[1]))) if log else span
            for span, log in zip((chart.x_range, chart.y_range), chart.log, strict=True)
        )
        self.show_ranges(x, y)

    def _placed(self, x: Any, y: Any) -> tuple[Any, Any]:
        assert self._chart is not None
        log_x, log_y = self._chart.log
        return (np.log10(x) if log_x else x), (np.log10(y) if log_y else y)

    def _draw_series(self, line: Series) -> None:
        x, y = self._placed(line.x, line.y)
        if line.low is not None and line.high is not None:
            band = Band(self)
            band.set_data(x, self._placed(line.x, line.low)[1], self._placed(line.x, line.high)[1])

        def color(item: Any, p: Palette) -> None:
            item.setPen(line_pen(p, line.color, DASHES[line.provenance]))

        self.add(pg.PlotCurveItem(x, y, antialias=True, connect="finite"), color)
        if line.name and len(x):
            self._write(line.name, float(x[-1]), float(y[-1]), line.color, (1.0, 1.0))

    def _write(self, text: str, x: float, y: float, color: str, anchor: tuple[float, float]) -> None:
        made = pg.TextItem(text, anchor=anchor)
        made.setFont(font(HEADING_PX))
        made.setPos(x, y)
        self.add(made, lambda item, p: item.setColor(p.color(color)))

    def _draw_rule(self, rule: Rule) -> None:
        stands = rule.across == "x"
        at, _ = self._placed(rule.at, 1.0) if stands else (self._placed(1.0, rule.at)[1], 0)
        line = pg.InfiniteLine(float(at), angle=90 if stands else 0)
        if rule.name:
            low, high = self.box.viewRange()[0 if stands else 1]
            late = (at - low) > 0.6 * (high - low)  # the text lies on the side that has room
            where = {"position": 0.93, "anchors": [(1, 0.5)] * 2 if late else [(0, 0.5)] * 2}
            lying = {"position": 0.02, "anchors": [(0, 0)] * 2 if late else [(0, 1)] * 2}
            line.label = pg.InfLineLabel(line, rule.name, **(where if stands else lying))
            line.label.setFont(font(HEADING_PX))

        def color(item: Any, p: Palette) -> None:
            item.setPen(line_pen(p, rule.role, Qt.PenStyle.DotLine if rule.role != "bad" else Qt.PenStyle.SolidLine))
            if rule.name:
                item.label.setColor(p.color(rule.role))

        self.add(line, color)

    def _draw_points(self, dots: Points) -> None:
        x, y = self._placed(dots.x, dots.y)

        def color(item: Any, p: Palette) -> None:
            pen = QPen(p.color(dots.color) if dots.hollow else p.color("panel"), 1)
            pen.setCosmetic(True)
            item.setPen(pen)
            item.setBrush(p.color("panel") if dots.hollow else p.color(dots.color))

        self.add(pg.ScatterPlotItem(x, y, size=dots.size_px, antialias=True), color)
        for name, a, b in zip(dots.names, np.atleast_1d(x), np.atleast_1d(y), strict=False):
            self._write(name, float(a), float(b), "dim", (-0.08, 0.5))

    def point_at(self, x: float | None) -> None:
        """Stand the crosshair at a plotted position, or hide it."""
        self.cross.setVisible(x is not None)
        if x is not None:
            self.cross.setValue(x)

    def plain_x(self, x: float) -> float:
        """Return the value of the x axis at a plotted position."""
        return float(10.0**x) if self._chart is not None and self._chart.log[0] else x

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Pick the dot under the pointer."""
        if event.button() is Qt.MouseButton.LeftButton and self._chart is not None:
            self._pick(event)

    def _pick(self, event: QMouseEvent) -> None:
        assert self._chart is not None
        room, (span_x, span_y) = self.box.sceneBoundingRect(), self.box.viewRange()
        best, reach = None, _REACH_PX
        for dots in self._chart.points:
            if not dots.keys:
                continue
            x, y = (np.atleast_1d(part) for part in self._placed(dots.x, dots.y))
            there_x = room.left() + (x - span_x[0]) / (span_x[1] - span_x[0]) * room.width()
            there_y = room.bottom() - (y - span_y[0]) / (span_y[1] - span_y[0]) * room.height()
            away = np.hypot(there_x - event.position().x(), there_y - event.position().y())
            nearest = int(np.argmin(away))
            if away[nearest] < reach:
                best, reach = dots.keys[nearest], float(away[nearest])
        if best is not None:
            self.picked.emit(best)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a press; nothing is dragged here."""


def _color_wash(item: pg.LinearRegionItem, palette: Palette) -> None:
    item.setBrush(palette.color("bad", 0.10))
    for edge in item.lines:
        edge.setPen(line_pen(palette, "bad"))
