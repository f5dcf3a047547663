"""What plots are made of: axes with few ticks and one fixed width, bands, lines by provenance, marks with error bars.

Positions are SI values; a logarithmic axis is plotted by its decimal logarithm. Every item is made once and gets new
data; pens are 1 px.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsSceneMouseEvent, QStyleOptionGraphicsItem, QWidget

from app.views.format import display_unit, number_text, significant_decimals
from app.views.theme import HEADING_PX, Palette, Theme, font
from core.spec import Provenance

Floats = NDArray[np.float64]

AXIS_WIDTH, AXIS_HEIGHT = 44, 22

DASHES = {
    Provenance.CALIBRATED: Qt.PenStyle.SolidLine,
    Provenance.MEASURED: Qt.PenStyle.SolidLine,
    Provenance.PREDICTED: Qt.PenStyle.DashLine,
    Provenance.SIMULATED: Qt.PenStyle.DashLine,
    Provenance.PUBLISHED: Qt.PenStyle.DotLine,
    Provenance.AS_PUBLISHED: Qt.PenStyle.DashDotLine,
}
"""The dash of a line by where its numbers come from; the same everywhere."""

COLORS = {
    Provenance.CALIBRATED: "accent",
    Provenance.MEASURED: "measured",
    Provenance.PREDICTED: "accent",
    Provenance.SIMULATED: "measured",
    Provenance.PUBLISHED: "published",
    Provenance.AS_PUBLISHED: "published",
}
"""The colour of the palette by where a number comes from."""


def nice_ticks(low: float, high: float, n_wanted: int) -> list[float]:
    """Return about `n_wanted` round numbers between two bounds: multiples of 1, 2 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return []
    rough = (high - low) / max(n_wanted, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough * 0.75)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) if step > 1e-9 else i * step for i in range(first, last + 1)]


def log_ticks(low: float, high: float, base_two: bool) -> list[float]:
    """Return round numbers between two positive bounds: powers of two, or 1, 2 and 5 times powers of ten."""
    if base_two:
        exponents = range(math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9) + 1)
        return [2.0**i for i in exponents]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [k * 10.0**i for i in decades for k in (1, 2, 5) if low * 0.999 <= k * 10.0**i <= high * 1.001]


class TickAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis with few round ticks in display units, inward, of a fixed width so that linked plots line up."""

    def __init__(self, theme: Theme, orientation: str) -> None:
        super().__init__(orientation, maxTickLength=-4)
        self._theme = theme
        self.unit, self.log = "", False
        self.names: Sequence[str] = ()
        self.setStyle(tickFont=font(HEADING_PX), autoReduceTextSpace=False, hideOverlappingLabels=False)
        self.enableAutoSIPrefix(False)
        if orientation == "left":
            self.setWidth(AXIS_WIDTH)
        else:
            self.setHeight(AXIS_HEIGHT)
        theme.changed.connect(self.recolor)
        self.recolor()

    def recolor(self) -> None:
        """Take the colours of the theme."""
        self.setPen(QPen(self._theme.palette.color("line"), 1))
        self.setTextPen(QPen(self._theme.palette.color("dim"), 1))

    def describe(self, unit: str, *, log: bool = False, names: Sequence[str] = ()) -> None:
        """Say what the axis carries: an SI unit, whether positions are logarithms, or names of options 0, 1, 2..."""
        if (unit, log, tuple(names)) != (self.unit, self.log, tuple(self.names)):
            self.unit, self.log, self.names = unit, log, names
            self.picture = None
            self.update()

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Return the positions of ticks, pyqtgraph's way: one level of (spacing, positions)."""
        low, high = sorted((minVal, maxVal))
        room = 90.0 if self.orientation in ("bottom", "top") else 36.0
        n = min(max(int(size / room), 2), 5)
        if self.names:
            return [(1.0, [float(i) for i in range(len(self.names)) if low <= i <= high])]
        if self.log:
            ticks = [math.log10(value) for value in log_ticks(10.0**low, 10.0**high, self.unit == "tokens")]
            return [(1.0, ticks[:: math.ceil(len(ticks) / (n + 1))] if ticks else [])]
        factor = display_unit(self.unit, max(abs(low), abs(high))).factor
        return [(1.0, [tick * factor for tick in nice_ticks(low / factor, high / factor, n)])]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Return the texts of ticks, without unit, all with the same number of decimals."""
        if self.names:
            return [self.names[round(value)] for value in values]
        shown = [10.0**value if self.log else value for value in values]
        if not shown:
            return []
        reference = max(abs(value) for value in shown)
        factor = display_unit(self.unit, reference).factor
        scaled = [value / factor for value in shown]
        if self.log:
            return [number_text(v, max(significant_decimals(v, 2) if v % 1 else 0, 0)) for v in scaled]
        gaps = [b - a for a, b in pairwise(scaled)]
        decimals = max(significant_decimals(min(gaps), 1), 0) if gaps else max(significant_decimals(scaled[0], 2), 0)
        return [number_text(value, decimals) for value in scaled]


class _Item(pg.GraphicsObject):  # type: ignore[misc]
    """An item that covers its whole view, so that new data never changes its geometry."""

    def boundingRect(self) -> QRectF:
        """Return the view."""
        return QRectF(self.viewRect())

    def viewRangeChanged(self) -> None:
        """Repaint for another view."""
        self.prepareGeometryChange()
        self.update()

    def pixels(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return data positions in pixels of the plot; NaN while it has no size."""
        t = self.deviceTransform_()
        if t is None:
            return np.full_like(x, np.nan), np.full_like(y, np.nan)
        return x * t.m11() + t.m31(), y * t.m22() + t.m32()


class Band(_Item):
    """The 90 % band of a curve: a filled strip, broken where there is no value."""

    def __init__(self, theme: Theme, color: str = "accent", opacity: float = 0.20) -> None:
        super().__init__()
        self._theme, self._color, self._opacity = theme, color, opacity
        self._strips: list[QPolygonF] = []
        theme.changed.connect(self.update)

    def set_data(self, x: Floats, low: Floats, high: Floats, *, step: bool = False) -> None:
        """Show a strip between two curves over the same positions; `step` holds each value until the next position."""
        if step and len(x) > 1:
            x, low, high = np.repeat(x, 2)[1:], np.repeat(low, 2)[:-1], np.repeat(high, 2)[:-1]
        fine = np.isfinite(low) & np.isfinite(high)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], fine.astype(int), [0]))))
        self._strips = []
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            part = slice(int(start), int(end))
            strip = pg.functions.create_qpolygonf(2 * (int(end) - int(start)))
            points = pg.functions.ndarray_from_qpolygonf(strip)
            points[:, 0] = np.concatenate((x[part], x[part][::-1]))
            points[:, 1] = np.concatenate((low[part], high[part][::-1]))
            self._strips.append(strip)
        self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Fill the strips."""
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.palette.color(self._color, self._opacity))
        for strip in self._strips:
            painter.drawPolygon(strip)


class Marks(_Item):
    """Values with error bars. The shape says where they come from: a filled dot is measured, a hollow one simulated,
    a hollow diamond published.
    """

    def __init__(self, theme: Theme, provenance: Provenance = Provenance.MEASURED) -> None:
        super().__init__()
        self._theme, self._provenance = theme, provenance
        self._xs = self._ys = self._low = self._high = np.empty(0)
        self._faint: NDArray[np.bool_] | None = None
        theme.changed.connect(self.update)

    def set_data(self, x: Floats, y: Floats, low: Floats, high: Floats, faint: NDArray[np.bool_] | None = None) -> None:
        """Show values with their 5 % and 95 % quantiles; `faint` ones are at another point than the current."""
        self._xs, self._ys, self._low, self._high, self._faint = x, y, low, high, faint
        self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw bars and symbols in pixels."""
        if not len(self._xs):
            return
        p = self._theme.palette
        x, y = self.pixels(self._xs, self._ys)
        _, low = self.pixels(self._xs, self._low)
        _, high = self.pixels(self._xs, self._high)
        painter.save()
        painter.resetTransform()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y)).tolist():
            faint = self._faint is not None and bool(self._faint[i])
            color = p.color(COLORS[self._provenance], 0.4 if faint else 1.0)
            painter.setPen(QPen(color, 1))
            if math.isfinite(low[i]) and math.isfinite(high[i]) and abs(low[i] - high[i]) > 9:
                self._bar(painter, x[i], low[i], high[i])
            self._symbol(painter, x[i], y[i], color, p)
        painter.restore()

    @staticmethod
    def _bar(painter: QPainter, x: float, low: float, high: float) -> None:
        x = math.floor(x) + 0.5
        painter.drawLine(QPointF(x, low), QPointF(x, high))
        for end in (low, high):
            painter.drawLine(QPointF(x - 3, end), QPointF(x + 3, end))

    def _symbol(self, painter: QPainter, x: float, y: float, color: QColor, p: Palette) -> None:
        if self._provenance is Provenance.MEASURED:
            painter.setPen(QPen(p.color("panel"), 1))
            painter.setBrush(color)
            painter.drawEllipse(QPointF(x, y), 4.2, 4.2)
            return
        painter.setPen(QPen(color, 1.4))
        painter.setBrush(p.color("panel"))
        if self._provenance is Provenance.PUBLISHED:
            painter.drawPolygon(QPolygonF([QPointF(x - 5, y), QPointF(x, y - 5), QPointF(x + 5, y), QPointF(x, y + 5)]))
        else:
            painter.drawEllipse(QPointF(x, y), 4.0, 4.0)


class Wash(_Item):
    """Where one should not go: a red wash with a line on its edge, from a position on to the end of the view."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.start: float | None = None
        theme.changed.connect(self.update)

    def set_start(self, start: float | None) -> None:
        """Wash from `start` (a plot position) on; None washes nothing."""
        if start != self.start:
            self.start = start
            self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        """Draw the wash and its edge."""
        view = self.viewRect()
        if self.start is None or self.start >= view.right():
            return
        p = self._theme.palette
        rect = QRectF(QPointF(max(self.start, view.left()), view.top()), view.bottomRight())
        painter.fillRect(rect, p.color("bad", 0.10))
        pen = QPen(p.color("bad"), 1)
        pen.setCosmetic(True)
        painter.setPen(pen)
        painter.drawLine(rect.topLeft(), rect.bottomLeft())


def line_pen(palette: Palette, color: str, style: Qt.PenStyle = Qt.PenStyle.SolidLine, alpha: float = 1.0) -> QPen:
    """Return a pen of 1 px, whatever the zoom."""
    pen = QPen(palette.color(color, alpha), 1, style)
    pen.setCosmetic(True)
    return pen


class Figure(pg.PlotWidget):  # type: ignore[misc]
    """One plot: on the colour of its card, axes left and bottom, no menu, no grid, no buttons."""

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        self.left, self.bottom = TickAxis(theme, "left"), TickAxis(theme, "bottom")
        super().__init__(background=theme.palette.panel, axisItems={"left": self.left, "bottom": self.bottom})
        self._theme = theme
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.setMenuEnabled(False)
        self.hideButtons()
        self.plotItem.layout.setContentsMargins(0, 7, 7, 0)  # room for half a tick label
        box = self.plotItem.vb
        box.disableAutoRange()
        box.setDefaultPadding(0.0)
        self.setFrameShape(self.Shape.NoFrame)
        self.setMinimumHeight(90)
        self._y_range = (0.0, 1.0)
        theme.changed.connect(self._repaint)

    def _repaint(self) -> None:
        self.setBackground(self._theme.palette.panel)

    @property
    def reference(self) -> float:
        """The number whose prefix the left axis shows, so that texts beside the plot can use the same."""
        return max(abs(self._y_range[0]), abs(self._y_range[1]))

    def add(self, item: Any) -> Any:
        """Add an item and return it."""
        self.addItem(item, ignoreBounds=True)
        return item

    def cover_y(
        self, values: Sequence[Floats | float | None], least: float | None = None, most: float | None = None
    ) -> None:
        """Let the vertical range cover all finite values, changing it only when they leave it or fill less than half.

        `least` and `most` bound the range: a share of tokens never exceeds 1.
        """
        found = [np.atleast_1d(np.asarray(v, dtype=float)) for v in values if v is not None]
        flat = np.concatenate(found) if found else np.empty(0)
        flat = flat[np.isfinite(flat)]
        if not len(flat):
            return
        low, high = float(flat.min()), float(flat.max())
        spread = max(high - low, abs(high) * 0.02, 1e-12)
        have_low, have_high = self._y_range
        if have_low <= low and high <= have_high and spread > 0.45 * (have_high - have_low):
            return
        low, high = low - 0.12 * spread, high + 0.12 * spread
        low = max(low, least) if least is not None and flat.min() >= least else low
        high = min(high, most + 0.04 * spread) if most is not None else high
        self._y_range = (low, high)
        self.setYRange(low, high, padding=0)

    def x_at(self, event: QGraphicsSceneMouseEvent | QPointF) -> float:
        """Return the plot position under a point of the widget."""
        return float(self.plotItem.vb.mapSceneToView(event).x())
