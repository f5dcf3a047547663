"""Draws a chart (`app.text.chart`) with pyqtgraph. Imported when the first one is shown (docs/adr/0003-plots.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import ArrayLike
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent, QPen

from app.text.chart import Chart, Floats, Points, Rule, Series
from app.views.widgets.label_place import crosses, overlap, places
from app.views.widgets.marks import DASHES
from app.views.widgets.plots import Band, Figure, color_wash, line_pen, log_ticks, show_curve
from app.views.widgets.theme import HEADING_PX, Palette, Theme, font

_REACH_PX = 12.0  # a click nearer than this to a dot is on it
_ENDLESS = 1e6
_ABOVE, _BESIDE_PX = 1.2, 6.0  # how far a word stands from its place: in its heights, in pixels
_HEIGHTS = 0.93 - 0.08 * np.arange(12)  # of the names of standing rules, as shares of the plot's


_Painter = Callable[[Palette], object]
_Anchor = tuple[float, float]


class _Pool:
    """Items of one kind, kept from chart to chart: making one costs several times what changing it does."""

    def __init__(self, figure: Figure, make: Callable[[], Any]) -> None:
        self._figure, self._make = figure, make
        self._items: list[Any] = []
        self._painters: dict[int, _Painter] = {}
        self._n_used = 0

    def begin(self) -> None:
        """Take all items back."""
        self._n_used = 0

    def take(self, paint: _Painter) -> Any:
        """Return an item for this chart, coloured by `paint` now and whenever the theme changes."""
        if self._n_used == len(self._items):
            self._items.append(self._figure.add(self._make(), self._color))
        item = self._items[self._n_used]
        self._n_used += 1
        item.setVisible(True)
        self._painters[id(item)] = paint
        return item

    def end(self) -> None:
        """Hide what was not taken."""
        for item in self._items[self._n_used :]:
            item.setVisible(False)

    @property
    def shown(self) -> list[Any]:
        """The items of this chart."""
        return self._items[: self._n_used]

    def _color(self, item: Any, palette: Palette) -> None:
        if id(item) in self._painters:
            self._painters[id(item)](palette)


class ChartPlot(Figure):
    """A chart; another one takes over its items."""

    picked = Signal(int)  # the key of the dot that was clicked
    hovered = Signal(int)  # the key of the dot under the pointer; -1 where there is none

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        super().__init__(theme, path, name)
        self._chart: Chart | None = None
        self._hovered = -1
        self._beside: list[tuple[Any, float, float, tuple[_Anchor, ...]]] = []  # texts at places, and how they may lie
        self._named: list[tuple[float, float, float]] = []  # dots that have a name, and their radius in pixels
        self._written: list[Floats] = []  # boxes of both
        self._standing: list[tuple[Any, float, bool]] = []  # names of rules: label, position, whether left of it
        self.wash = self.add(pg.LinearRegionItem(movable=False), color_wash)
        self._bands: list[Band] = []
        self._curves = _Pool(self, lambda: pg.PlotCurveItem(antialias=True, connect="finite"))
        self._rules = {across: _Pool(self, partial(_labelled_rule, angle)) for across, angle in (("x", 90), ("y", 0))}
        self._dots = _Pool(self, lambda: pg.ScatterPlotItem(antialias=True))
        self._texts, self._names = _Pool(self, _text), _Pool(self, _text)
        self.cross = self.add(pg.InfiniteLine(angle=90), lambda item, p: item.setPen(line_pen(p, "dim")))
        self.cross.hide()
        self.box.sigResized.connect(lambda _box: self._place())

    def show_chart(self, chart: Chart) -> None:
        """Draw a chart in place of the one before."""
        pools = (self._curves, *self._rules.values(), self._dots, self._texts)
        self._chart = chart
        self._show_axes(chart)
        for pool in pools:
            pool.begin()
        shown = not chart.message
        self.wash.setVisible(shown and chart.wash_from is not None)
        if shown and chart.wash_from is not None:
            self.wash.setRegion((chart.wash_from, _ENDLESS))
        self._draw_bands(chart.series if shown else ())
        for line in chart.series if shown else ():
            self._draw_series(line)
        self._standing, self._beside, self._named = [], [], []
        for rule in chart.rules if shown else ():
            self._draw_rule(rule)
        for dots in chart.points if shown else ():
            self._draw_points(dots)
        self._write_words(chart if shown else None)
        for pool in pools:
            pool.end()
        self._place()

    def _place(self) -> None:
        """Place all labels where they have room; repeated when the size changes."""
        self._place_texts()
        self._place_names()

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

    def _draw_bands(self, series: Sequence[Series]) -> None:
        banded = [line for line in series if line.low is not None and line.high is not None]
        while len(self._bands) < len(banded):
            self._bands.append(Band(self))
        for band, line in zip(self._bands, banded, strict=False):
            x, low = self._placed(line.x, line.low)
            band.set_data(x, low, self._placed(line.x, line.high)[1])
        for i, band in enumerate(self._bands):
            band.item.setVisible(i < len(banded))

    def _draw_series(self, line: Series) -> None:
        x, y = self._placed(line.x, line.y)
        item = self._curves.take(lambda p: item.setPen(line_pen(p, line.color, DASHES[line.provenance])))
        item.setPen(line_pen(self._theme.palette, line.color, DASHES[line.provenance]))
        show_curve(item, x, y)

    def _pixels(self, x: Any, y: Any) -> tuple[Floats, Floats]:
        """Return plotted positions in pixels of the plot, y downwards."""
        (left, right), (low, high) = self.box.viewRange()
        return (
            (np.asarray(x, dtype=float) - left) / (right - left) * self.box.width(),
            (high - np.asarray(y, dtype=float)) / (high - low) * self.box.height(),
        )

    def _lines(self, series: Sequence[Series]) -> list[tuple[Floats, Floats]]:
        found = [self._pixels(*self._placed(line.x, line.y)) for line in series]
        fine = [np.flatnonzero(np.isfinite(x) & np.isfinite(y)) for x, y in found]
        order = [at[np.argsort(x[at], kind="stable")] for (x, _), at in zip(found, fine, strict=True)]
        return [(x[at], y[at]) for (x, y), at in zip(found, order, strict=True) if at.size]

    def _place_names(self) -> None:
        """Write the names of curves, then of rules, where they stand on nothing else."""
        self._names.begin()
        if self._chart is not None and not self._chart.message:
            named = [line for line in self._chart.series if line.name and np.isfinite(line.y).any()]
            plain = [line for line in self._chart.series if not line.name]
            made = [self._take_name(line) for line in named]
            sizes = [(item.boundingRect().width(), item.boundingRect().height()) for item in made]
            lying = self._rules["y"].shown
            taken: list[ArrayLike] = [
                self.box.mapRectFromScene(line.label.sceneBoundingRect()).getCoords() for line in lying
            ]
            room = (float(self.box.width()), float(self.box.height()))
            boxes = places(self._lines(named), sizes, room, taken, self._lines(plain))
            (x0, x1), (y0, y1) = self.box.viewRange()
            for item, (left, top, *_) in zip(made, boxes, strict=True):
                item.setPos(x0 + left / room[0] * (x1 - x0), y1 - top / room[1] * (y1 - y0))
            taken += boxes
            for standing in self._standing:
                taken.append(self._free_height(*standing, taken))
        self._names.end()

    def _take_name(self, line: Series) -> Any:
        made = self._names.take(lambda p: made.setColor(p.color(line.color)))
        if made.toPlainText() != line.name:
            made.setText(line.name)
            made.setAnchor((0.0, 0.0))
        made.setColor(self._theme.palette.color(line.color))
        return made

    def _write(self, text: str, x: float, y: float, gap_px: float) -> None:
        """Add a label next to a dot."""
        made, width = self._grounded(text, x, y)
        self._beside.append((made, x, y, ((-gap_px / width, 0.5),)))

    def _grounded(self, text: str, x: float, y: float) -> tuple[Any, float]:
        """Write a text on a ground of its own: dots and curves around it are many; return it and its width."""

        def paint(p: Palette) -> None:
            made.fill = pg.mkBrush(p.color("panel", 0.85))
            made.setColor(p.color("dim"))

        made = self._texts.take(paint)
        paint(self._theme.palette)
        made.setText(text)
        made.setPos(x, y)
        return made, max(float(made.boundingRect().width()), 1.0)

    def _anchor(self, made: Any, anchor: tuple[float, float], x: float, y: float) -> bool:
        """Place a label next to a plotted point; return True if it lies inside the plot and overlaps no other."""
        (at_x, at_y), size = self._pixels(x, y), made.boundingRect()
        left, top = at_x - anchor[0] * size.width(), at_y - anchor[1] * size.height()
        box = np.array((left, top, left + size.width(), top + size.height()), dtype=float)
        free = top >= 0.0 and left >= 0.0 and not any(overlap(box, other) for other in self._written)
        made.setAnchor(anchor)
        if free:
            self._written.append(box)
        return free

    def _write_words(self, chart: Chart | None) -> None:
        """Write words at their places, above or at a side."""
        for x, y, text in chart.words if chart is not None else ():
            at = self._placed(x, y)
            made, width = self._grounded(text, *at)
            beside = _BESIDE_PX / width
            self._beside.append((made, *at, ((0.5, _ABOVE), (1.0 + beside, 0.5), (-beside, 0.5))))

    def _place_texts(self) -> None:
        """Place labels clear of each other and of named dots; leave out labels without room."""
        at = [(*map(float, self._pixels(x, y)), radius) for x, y, radius in self._named]
        self._written = [np.array((x - r, y - r, x + r, y + r)) for x, y, r in at]
        for made, x, y, anchors in self._beside:
            free = any(self._anchor(made, anchor, x, y) for anchor in anchors)
            made.setVisible(free or len(anchors) == 1)

    def _draw_rule(self, rule: Rule) -> None:
        stands = rule.across == "x"
        dotted = self._chart is not None and any(dots.keys for dots in self._chart.points)  # they may lie below
        at = float(self._placed(rule.at, 1.0)[0] if stands else self._placed(1.0, rule.at)[1])

        def paint(p: Palette) -> None:
            dash = Qt.PenStyle.SolidLine if rule.role == "bad" else Qt.PenStyle.DotLine
            line.setPen(line_pen(p, rule.role, dash))
            line.label.setColor(p.color(rule.role))
            line.label.fill = pg.mkBrush(p.color("panel", 0.75) if dotted else None)

        line = self._rules[rule.across].take(paint)
        paint(self._theme.palette)
        low, high = self.box.viewRange()[0 if stands else 1]
        late = (at - low) > 0.6 * (high - low)  # the text lies on the side that has room
        line.label.anchors = [pg.Point(1, 0.5)] * 2 if late else [pg.Point(0, 0.5)] * 2
        if not stands:
            line.label.anchors = [pg.Point(0, 0)] * 2 if late else [pg.Point(0, 1)] * 2
        line.label.setFormat(rule.name)
        line.setValue(at)
        line.label.updatePosition()
        if stands and rule.name:
            self._standing.append((line.label, at, late))

    def _free_height(self, label: Any, at: float, late: bool, taken: Sequence[ArrayLike]) -> Floats:
        """Write the name of a standing rule as high as it stands on no curve and on nothing `taken`; return where."""
        size = label.boundingRect()
        x = float(self._pixels(at, 0.0)[0]) - (size.width() if late else 0.0)
        middle = (1.0 - _HEIGHTS) * float(self.box.height())
        boxes = np.stack(
            np.broadcast_arrays(x, middle - size.height() / 2, x + size.width(), middle + size.height() / 2), axis=-1
        )
        wrong = np.zeros(len(boxes))
        for box in taken:
            wrong += 10 * overlap(boxes, box)
        for curve in self._lines(self._chart.series if self._chart is not None else ()):
            wrong += crosses(boxes, curve)
        best = int(np.argmin(wrong))
        label.orthoPos = float(_HEIGHTS[best])
        label.updatePosition()
        return np.asarray(boxes[best])

    def _draw_points(self, dots: Points) -> None:
        x, y = self._placed(dots.x, dots.y)

        def paint(p: Palette) -> None:
            pen = QPen(p.color(dots.color) if dots.hollow else p.color("panel"), 1)
            pen.setCosmetic(True)
            item.setPen(pen)
            item.setBrush(p.color("panel") if dots.hollow else p.color(dots.color))

        item = self._dots.take(paint)
        paint(self._theme.palette)
        item.setSize(dots.size_px)
        item.setData(x, y)
        for name, a, b in zip(dots.names, np.atleast_1d(x), np.atleast_1d(y), strict=False):
            self._named.append((float(a), float(b), dots.size_px / 2))
            self._write(name, float(a), float(b), dots.size_px / 2 + 2)

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
        if event.button() is Qt.MouseButton.LeftButton and (key := self._under(event)) >= 0:
            self.picked.emit(key)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the crosshair and report the dot under the pointer."""
        super().mouseMoveEvent(event)
        key = self._under(event)
        if key != self._hovered:
            self._hovered = key
            self.setCursor(Qt.CursorShape.PointingHandCursor if key >= 0 else Qt.CursorShape.ArrowCursor)
        if key >= 0:
            self.hovered.emit(key)  # after `pointed`, whose words it replaces

    def _under(self, event: QMouseEvent) -> int:
        """Return the key of the dot under the pointer, or -1."""
        if self._chart is None or self._chart.message:
            return -1
        room, (span_x, span_y) = self.box.sceneBoundingRect(), self.box.viewRange()
        best, reach = -1, _REACH_PX
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
        return best

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a press; nothing is dragged here."""


def _labelled_rule(angle: int) -> Any:
    line = pg.InfiniteLine(angle=angle)
    line.label = pg.InfLineLabel(line, "", position=0.93 if angle else 0.02, anchors=[(0, 0.5), (0, 0.5)])
    line.label.setFont(font(HEADING_PX))
    line.setZValue(1)  # its name stands on the dots
    return line


def _text() -> Any:
    made = pg.TextItem()
    made.setFont(font(HEADING_PX))
    return made
