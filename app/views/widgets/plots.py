"""Plot parts: pyqtgraph's, with the colours of the theme, one axis width, and provenance by shape and dash.

Imported after the first paint (docs/adr/0003-plots.md). Pens are 1 px and there is no grid: either costs many frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QPainter, QPen

from app.text.format import display_unit, number_text, significant_decimals
from app.views.widgets.curve_data import Floats
from app.views.widgets.marks import COLORS, SYMBOL_PX, SYMBOLS
from app.views.widgets.theme import HEADING_PX, Palette, Theme, font
from core.spec import Provenance

AXIS_WIDTH, AXIS_HEIGHT = 44, 22
_CAP_PX = 6.0

Colored = Callable[[Any, Palette], object]
"""Gives an item the colours of a palette."""


def line_pen(palette: Palette, color: str, dash: Qt.PenStyle = Qt.PenStyle.SolidLine, alpha: float = 1.0) -> QPen:
    """Return a pen of 1 px, whatever the zoom."""
    pen = QPen(palette.color(color, alpha), 1, dash)
    pen.setCosmetic(True)
    return pen


def color_wash(item: pg.LinearRegionItem, palette: Palette) -> None:
    """Colour a region into which one should not go, and its edges."""
    item.setBrush(palette.color("bad", 0.10))
    for edge in item.lines:
        edge.setPen(line_pen(palette, "bad"))


def in_pen(color: str, dash: Qt.PenStyle = Qt.PenStyle.SolidLine, alpha: float = 1.0) -> Colored:
    """Return the setter of the pen of a curve or a rule."""
    return lambda item, palette: item.setPen(line_pen(palette, color, dash, alpha))


TEXT_PX = 16.0  # from one text of a vertical axis to the next, at least


class TickAxis(pg.AxisItem):  # type: ignore[misc]
    """An axis with few ticks in display units, inward, of a fixed width so that plots line up."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation, maxTickLength=-4)
        self._scale: tuple[object, ...] = ()
        self.about = "position"  # what the data along it are
        self.enableAutoSIPrefix(False)
        self.setStyle(tickFont=font(HEADING_PX), maxTickLevel=0, hideOverlappingLabels=False, tickAlpha=1.0)
        if orientation == "left":
            self.setWidth(AXIS_WIDTH)
            self.setTickDensity(2.2)
        else:
            self.setHeight(AXIS_HEIGHT)
            self.setTickDensity(0.9)

    def describe(self, unit: str, reference: float, ticks: Sequence[tuple[float, str]] = ()) -> None:
        """Set the axis: an SI unit in the prefix of a number, or explicit ticks where it is not linear."""
        self.about = "position" if ticks else f"value [{unit}]"
        scale = (display_unit(unit, reference).factor, tuple(ticks))
        if scale != self._scale:
            self._scale = scale
            self.setStyle(maxTickLevel=2 if ticks else 0)
            # finer ones lose their texts first where there is no room
            self.setTicks([ticks[::4], ticks[2::4], ticks[1::2]] if ticks else None)
            self.setScale(1.0 / scale[0])

    def show_texts(self, shown: bool) -> None:
        """Show or hide the texts of ticks: they mean nothing where nothing is drawn."""
        if shown != self.style["showValues"]:  # any change of style draws the axis anew
            self.setStyle(showValues=shown)

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:
        """Return the usual steps of ticks, the first one (1, 2 or 5 by decade) coarser where texts would touch."""
        steps: list[tuple[float, float]] = super().tickSpacing(minVal, maxVal, size)
        if self.orientation != "left" or not steps or not size > 0.0:
            return steps
        least, (step, offset) = (maxVal - minVal) * TEXT_PX / size, steps[0]
        while 0.0 < step < least:
            step *= 2.5 if f"{step:e}".startswith("2") else 2.0
        return [(step, offset), *steps[1:]]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Return the texts of ticks, without unit, all with the same number of decimals."""
        decimals = max(significant_decimals(spacing * scale, 1), 0)
        return [number_text(value * scale, decimals) for value in values]


def log_ticks(low: float, high: float, unit: str) -> list[tuple[float, str]]:
    """Return (decimal logarithm, text) of round numbers: powers of two for tokens, else 1, 2 and 5 by decade."""
    if unit == "tokens":
        exponents = range(math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9) + 1)
        values = [math.ldexp(1.0, i) for i in exponents]
    else:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        values = [k * 10.0**i for i in decades for k in (1, 2, 5) if low * 0.999 <= k * 10.0**i <= high * 1.001]
    factor = display_unit(unit, max(values, default=1.0)).factor
    return [(math.log10(v), number_text(v / factor, max(significant_decimals(v / factor, 1), 0))) for v in values]


class Figure(pg.PlotWidget):  # type: ignore[misc]
    """One plot: on the colour of its card, axes left and bottom, no menu, no buttons, its range set by its owner."""

    pointed = Signal(object)  # plot position of the pointer, or None when it has left

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        self.left, self.bottom = TickAxis("left"), TickAxis("bottom")
        super().__init__(axisItems={"left": self.left, "bottom": self.bottom}, enableMenu=False)
        self._theme = theme
        self._colored: list[tuple[Any, Colored]] = []
        self.named: dict[str, Any] = {}
        self.box = self.plotItem.vb
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.hideButtons()
        self.plotItem.layout.setContentsMargins(0, 7, 8, 0)  # room for half a tick's text
        self.box.disableAutoRange()
        self.box.setDefaultPadding(0.0)
        self.box.setMouseEnabled(x=False, y=False)
        theme.changed.connect(self._color)
        self._color()

    def add(self, item: Any, colored: Colored, name: str = "") -> Any:
        """Draw an item above those added before, and give it its colours now and whenever the theme changes.

        One with a name is data: it can be copied.
        """
        if name:
            self.named[name] = item
        self.addItem(item, ignoreBounds=True)
        self._colored.append((item, colored))
        colored(item, self._theme.palette)
        return item

    @property
    def palette_(self) -> Palette:
        """The palette in force."""
        return self._theme.palette

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer its picture and its data."""
        from app.views.widgets.plot_picture import plot_menu

        plot_menu(self).popup(event.globalPos())

    def _color(self) -> None:
        palette = self._theme.palette
        self.setBackground(palette.color("panel"))
        for axis in (self.left, self.bottom):
            axis.setPen(line_pen(palette, "line"))
            axis.setTextPen(line_pen(palette, "dim"))
        for item, colored in self._colored:
            colored(item, palette)

    def close(self) -> bool:
        """Let go of the theme: pyqtgraph takes a closed plot apart."""
        self._theme.changed.disconnect(self._color)
        return bool(super().close())

    def show_ranges(self, x: tuple[float, float] | None, y: tuple[float, float]) -> None:
        """Show these ranges, without work for one that holds; None leaves the horizontal one as it is."""
        have_x, have_y = self.box.viewRange()
        if x is not None and list(x) != have_x:
            self.box.setXRange(*x, padding=0)
        if list(y) != have_y:
            self.box.setYRange(*y, padding=0)

    def x_at(self, point: QPointF) -> float:
        """Return the plot position under a point of the widget."""
        return float(self.box.mapSceneToView(point).x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Report the position of the pointer."""
        super().mouseMoveEvent(event)
        self.pointed.emit(self.x_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        """Report that the pointer has left."""
        super().leaveEvent(event)
        self.pointed.emit(None)


def rule(angle: int) -> Any:
    """Return a straight line across a plot: 0 lies, 90 stands."""
    return pg.InfiniteLine(angle=angle)


def show_rule(item: Any, at: float | None) -> None:
    """Put a rule, or hide it."""
    item.setVisible(at is not None)
    if at is not None:
        item.setValue(at)


def show_curve(item: Any, x: Floats, y: Floats) -> bool:
    """Give a curve its data, and return whether they are others than it had: while a slider moves most are not."""
    have_x, have_y = item.getData()
    if have_x is not None and np.array_equal(have_x, x) and np.array_equal(have_y, y, equal_nan=True):
        return False
    item.setData(x, y)
    return True


class _Strip(pg.FillBetweenItem):  # type: ignore[misc]
    """A strip with smooth edges."""

    def paint(self, painter: QPainter, *args: Any) -> None:
        """Fill it."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        super().paint(painter, *args)


class Band:
    """The 90 % band of a curve: a strip between two curves over the same positions."""

    def __init__(self, figure: Figure, *, step: bool = False) -> None:
        mode = "right" if step else None
        self.low, self.high = (pg.PlotCurveItem(connect="finite", stepMode=mode) for _ in range(2))
        self.item = figure.add(_Strip(self.low, self.high), lambda item, p: item.setBrush(p.color("accent", 0.20)))

    def set_data(self, x: Floats, low: Floats, high: Floats) -> None:
        """Show a strip, broken where a bound is not finite."""
        fine = np.isfinite(low) & np.isfinite(high)
        for curve in (self.low, self.high):
            curve.blockSignals(True)  # the strip is made once, from both
        changed = [show_curve(c, x, np.where(fine, y, np.nan)) for c, y in ((self.low, low), (self.high, high))]
        for curve in (self.low, self.high):
            curve.blockSignals(False)
        if any(changed):
            self.item.updatePath()


class Marks:
    """Values with error bars: a filled dot is measured, a hollow one simulated, a hollow diamond published.

    Squares in place of dots are of `ELSEWHERE`.
    """

    def __init__(
        self,
        figure: Figure,
        provenance: Provenance = Provenance.MEASURED,
        symbols: Mapping[Provenance, str] = SYMBOLS,
    ) -> None:
        self._figure, self._provenance, color = figure, provenance, COLORS[provenance]
        self._symbols = symbols
        self._cap, self._rows = 0.0, np.empty((4, 0))
        self.bars = figure.add(pg.ErrorBarItem(), lambda item, p: item.setData(pen=line_pen(p, color)))
        self.dots = figure.add(
            pg.ScatterPlotItem(size=SYMBOL_PX, symbol=symbols[provenance], antialias=True), self._color
        )

    def _color(self, item: Any, palette: Palette) -> None:
        color, ground = palette.color(COLORS[self._provenance]), palette.color("panel")
        filled = self._provenance is Provenance.MEASURED
        pen = QPen(ground if filled else color, 1)
        pen.setCosmetic(True)  # or it grows with the symbol
        item.setPen(pen)
        item.setBrush(color if filled else ground)

    def show_provenance(self, provenance: Provenance) -> None:
        """Draw the values by where they come from."""
        if provenance is not self._provenance:
            self._provenance = provenance
            self.dots.setSymbol(self._symbols[provenance])
            self._color(self.dots, self._figure.palette_)

    def set_data(self, x: Floats, y: Floats, low: Floats, high: Floats) -> None:
        """Show values with their 5 % and 95 % quantiles; a bound that is not finite has no bar."""
        cap = _CAP_PX * float(self._figure.box.viewPixelSize()[0])
        rows = np.array((x, y, low, high))
        if cap == self._cap and np.array_equal(rows, self._rows, equal_nan=True):
            return
        self._cap, self._rows = cap, rows
        x, y, low, high = rows[:, np.isfinite(y)]
        barred = np.isfinite(low) & np.isfinite(high)
        at, middle = x[barred], y[barred]
        self.bars.setData(x=at, y=middle, bottom=middle - low[barred], top=high[barred] - middle, beam=cap)
        self.dots.setData(x, y)
