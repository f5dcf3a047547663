"""What is drawn in a figure: curves by provenance, bands, marks with error bars, rules and washes.

Each layer is made once and gets new data; pens are 1 px. Shapes and dashes say where a number comes from, so that it
survives a print in grey.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import shiboken6
from numpy.typing import ArrayLike, NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from app.views.theme import Palette
from core.spec import Provenance

if TYPE_CHECKING:
    from app.views.figure import Figure

Floats = NDArray[np.float64]

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


def polygon(x: Floats, y: Floats) -> QPolygonF:
    """Return points as Qt's polygon, copied in one go."""
    made = QPolygonF()
    made.resize(len(x))
    if len(x):
        memory: Any = shiboken6.VoidPtr(made.data(), 16 * len(x), True)  # type: ignore[call-arg,arg-type]
        points = np.frombuffer(memory, np.float64).reshape(-1, 2)
        points[:, 0], points[:, 1] = x, y
    return made


def finite_runs(*columns: Floats) -> list[slice]:
    """Return the runs over which all columns are finite."""
    fine = np.logical_and.reduce([np.isfinite(column) for column in columns])
    edges = np.flatnonzero(np.diff(np.concatenate(([0], fine.astype(np.int8), [0]))))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def steps(x: Floats, *columns: Floats) -> tuple[Floats, ...]:
    """Return positions and columns that hold each value until the next position."""
    if len(x) < 2:
        return (x, *columns)
    return (np.repeat(x, 2)[1:], *(np.repeat(column, 2)[:-1] for column in columns))


class Layer(Protocol):
    """What a figure draws, in the order added."""

    visible: bool

    def paint(self, painter: QPainter, figure: Figure, palette: Palette) -> None:
        """Draw in pixels of the figure."""


class Curve:
    """A line."""

    def __init__(self, color: str, *, smooth: bool = False) -> None:
        self.visible, self.color, self.smooth = True, color, smooth
        self.dash = Qt.PenStyle.SolidLine
        self.x = self.y = np.empty(0)

    def set_data(self, x: Floats, y: Floats, dash: Qt.PenStyle = Qt.PenStyle.SolidLine) -> None:
        """Show a line, broken where it is not finite."""
        self.x, self.y, self.dash = x, y, dash

    def paint(self, painter: QPainter, figure: Figure, palette: Palette) -> None:
        """Draw the line."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, self.smooth)
        painter.setPen(QPen(palette.color(self.color), 1, self.dash))
        x, y = figure.to_x(self.x), figure.to_y(self.y)
        for run in finite_runs(x, y):
            painter.drawPolyline(polygon(x[run], y[run]))


class Band:
    """The 90 % band of a curve."""

    def __init__(self, *, smooth: bool = False) -> None:
        self.visible, self._smooth = True, smooth
        self.x = self.low = self.high = np.empty(0)

    def set_data(self, x: Floats, low: Floats, high: Floats) -> None:
        """Show a strip between two curves over the same positions, broken where it is not finite."""
        self.x, self.low, self.high = x, low, high

    def paint(self, painter: QPainter, figure: Figure, palette: Palette) -> None:
        """Fill the strip."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, self._smooth)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(palette.color("accent", 0.20))
        x, low, high = figure.to_x(self.x), figure.to_y(self.low), figure.to_y(self.high)
        for run in finite_runs(x, low, high):
            around = np.concatenate((x[run], x[run][::-1])), np.concatenate((low[run], high[run][::-1]))
            painter.drawPolygon(polygon(*around))


class Rule:
    """A straight line across the plot, at a position of one axis."""

    def __init__(self, color: str, dash: Qt.PenStyle, *, vertical: bool, opacity: float = 1.0) -> None:
        self.visible, self._color, self._dash = True, color, dash
        self._vertical, self._opacity = vertical, opacity
        self.at = math.nan

    def paint(self, painter: QPainter, figure: Figure, palette: Palette) -> None:
        """Draw the line."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(palette.color(self._color, self._opacity), 1, self._dash))
        inside = figure.inside
        if self._vertical:
            x = float(figure.to_x(self.at))
            painter.drawLine(QPointF(x, inside.top()), QPointF(x, inside.bottom()))
        else:
            y = float(figure.to_y(self.at))
            painter.drawLine(QPointF(inside.left(), y), QPointF(inside.right(), y))


class Wash:
    """Where one should not go: red from a position on, with a line on its edge."""

    def __init__(self) -> None:
        self.visible = True
        self.start: float | None = None

    def paint(self, painter: QPainter, figure: Figure, palette: Palette) -> None:
        """Draw the wash and its edge."""
        if self.start is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        inside, x = figure.inside, float(figure.to_x(self.start))
        painter.fillRect(QRectF(QPointF(x, inside.top()), inside.bottomRight()), palette.color("bad", 0.10))
        painter.setPen(QPen(palette.color("bad"), 1))
        painter.drawLine(QPointF(x, inside.top()), QPointF(x, inside.bottom()))


class Marks:
    """Values with error bars: a filled dot is measured, a hollow one simulated, a hollow diamond published."""

    def __init__(self, provenance: Provenance = Provenance.MEASURED) -> None:
        self.visible, self._provenance = True, provenance
        self.x = self.y = self.low = self.high = np.empty(0)

    def set_data(self, x: Floats, y: Floats, low: Floats, high: Floats) -> None:
        """Show values with their 5 % and 95 % quantiles."""
        self.x, self.y, self.low, self.high = x, y, low, high

    def paint(self, painter: QPainter, figure: Figure, palette: Palette) -> None:
        """Draw bars and symbols."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        color = palette.color(COLORS[self._provenance])
        columns = figure.to_x(self.x), *(figure.to_y(v) for v in (self.y, self.low, self.high))
        for x, y, low, high in np.column_stack(columns).tolist():
            if math.isfinite(low) and math.isfinite(high) and abs(low - high) > 9:
                painter.setPen(QPen(color, 1))
                _draw_bar(painter, x, low, high)
            if math.isfinite(y):
                draw_symbol(painter, QPointF(x, y), self._provenance, color, palette.color("panel"))


def _draw_bar(painter: QPainter, x: float, low: float, high: float) -> None:
    x = math.floor(x) + 0.5
    painter.drawLine(QPointF(x, low), QPointF(x, high))
    for end in (low, high):
        painter.drawLine(QPointF(x - 3, end), QPointF(x + 3, end))


def draw_symbol(painter: QPainter, at: QPointF, provenance: Provenance, color: QColor, ground: QColor) -> None:
    """Draw the symbol of a provenance: filled and ringed by the ground, or hollow."""
    if provenance is Provenance.MEASURED:
        painter.setPen(QPen(ground, 1))
        painter.setBrush(color)
        painter.drawEllipse(at, 4.2, 4.2)
        return
    painter.setPen(QPen(color, 1.4))
    painter.setBrush(ground)
    if provenance is Provenance.PUBLISHED:
        painter.drawPolygon(QPolygonF([at + QPointF(*d) for d in ((-5, 0), (0, -5), (5, 0), (0, 5))]))
    else:
        painter.drawEllipse(at, 4.0, 4.0)


def as_floats(values: ArrayLike) -> Floats:
    """Return values as an array of floats."""
    return np.asarray(values, dtype=np.float64)
