"""One plot, drawn by itself: axes with few inward ticks and one fixed width, and its layers.

A figure of a few hundred points needs no scene graph: it is painted in well under a millisecond, and nothing of it is
imported or built before the first window shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.views.layers import Floats, Layer, as_floats
from app.views.theme import HEADING_PX, Theme, font
from app.views.ticks import Scale, texts_fit

AXIS_WIDTH, AXIS_HEIGHT, TOP, RIGHT = 44, 20, 8, 8
_X_ROOM, _Y_ROOM, _MOST_TICKS = 90, 36, 5

L = TypeVar("L", bound=Layer)


class Figure(QWidget):
    """A plot on the colour of its card.

    `pointed(x)` tells where the pointer is (a plot position, None when it has left), `pressed(x, begins)` where it is
    pressed and whether that begins a drag.
    """

    pointed = Signal(object)
    pressed = Signal(float, bool)

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        super().__init__()
        self._theme = theme
        self._layers: list[Layer] = []
        self.left, self.bottom = Scale(), Scale()
        self.x_range, self.y_range = (0.0, 1.0), (0.0, 1.0)
        self.message = ""  # what is said in the plot instead of its vertical ticks, where there is nothing to draw
        self._ground_key: tuple[object, ...] = ()
        self._ground_map = QPixmap()
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.setMinimumHeight(90)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        theme.changed.connect(self.update)

    def add(self, layer: L) -> L:
        """Draw a layer above those added before."""
        self._layers.append(layer)
        return layer

    # ---- ranges

    @property
    def inside(self) -> QRectF:
        """The rectangle between the axes, in pixels."""
        return QRectF(
            AXIS_WIDTH, TOP, max(self.width() - AXIS_WIDTH - RIGHT, 1), max(self.height() - TOP - AXIS_HEIGHT, 1)
        )

    @property
    def reference(self) -> float:
        """The number whose prefix the left axis shows, so that texts beside the plot can use the same."""
        return max(abs(self.y_range[0]), abs(self.y_range[1]))

    def cover_y(
        self, values: Sequence[Floats | float | None], least: float | None = None, most: float | None = None
    ) -> None:
        """Let the vertical range cover all finite values, changing it only when they leave it or fill less than half.

        `least` and `most` bound the range: a share of tokens never exceeds 1.
        """
        found = [as_floats(v).reshape(-1) for v in values if v is not None]
        flat = np.concatenate(found) if found else np.empty(0)
        flat = flat[np.isfinite(flat)]
        if not len(flat):
            return
        low, high = float(flat.min()), float(flat.max())
        spread = max(high - low, abs(high) * 0.02, 1e-12)
        have_low, have_high = self.y_range
        if have_low <= low and high <= have_high and spread > 0.45 * (have_high - have_low):
            return
        bottom, top = low - 0.12 * spread, high + 0.12 * spread
        bottom = max(bottom, least) if least is not None and low >= least else bottom
        top = min(top, most + 0.04 * spread) if most is not None else top
        self.y_range = (bottom, top)

    def to_x(self, x: Floats | float) -> Floats:
        """Return plot positions as pixels from the left."""
        low, high = self.x_range
        return self.inside.left() + (as_floats(x) - low) / (high - low) * self.inside.width()

    def to_y(self, y: Floats | float) -> Floats:
        """Return values as pixels from the top."""
        low, high = self.y_range
        return self.inside.bottom() - (as_floats(y) - low) / (high - low) * self.inside.height()

    def x_at(self, point: QPointF) -> float:
        """Return the plot position under a point of the widget."""
        low, high = self.x_range
        return low + (point.x() - self.inside.left()) / self.inside.width() * (high - low)

    # ---- drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw axes and layers."""
        painter, palette = QPainter(self), self._theme.palette
        painter.drawPixmap(0, 0, self._ground())
        painter.setClipRect(self.inside)
        for layer in self._layers:
            if layer.visible:
                layer.paint(painter, self, palette)
        painter.end()

    def _ground(self) -> QPixmap:
        """Return the card's colour with the axes on it, drawn anew only when they have changed."""
        look = (self.size(), self.devicePixelRatioF(), self._theme.palette, self.message)
        key = (*look, self.x_range, self.y_range, self.left, self.bottom)
        if key != self._ground_key:
            self._ground_key = key
            self._ground_map = QPixmap(self.size() * self.devicePixelRatioF())
            self._ground_map.setDevicePixelRatio(self.devicePixelRatioF())
            self._ground_map.fill(self._theme.palette.color("panel"))
            painter = QPainter(self._ground_map)
            painter.setFont(font(HEADING_PX))
            self._paint_axes(painter)
            painter.end()
        return self._ground_map

    def _paint_axes(self, painter: QPainter) -> None:
        inside, palette = self.inside, self._theme.palette
        painter.setPen(QPen(palette.color("line"), 1))
        painter.drawLine(inside.bottomLeft(), inside.bottomRight())
        painter.drawLine(inside.topLeft(), inside.bottomLeft())
        across = self.bottom.ticks(*self.x_range, _n_ticks(inside.width(), _X_ROOM))
        up = [] if self.message else self.left.ticks(*self.y_range, _n_ticks(inside.height(), _Y_ROOM))
        xs = self.to_x(as_floats([at for at, _ in across])).tolist()
        ys = self.to_y(as_floats([at for at, _ in up])).tolist()
        for x in xs:
            painter.drawLine(QPointF(x, inside.bottom()), QPointF(x, inside.bottom() - 4))
        for y in ys:
            painter.drawLine(QPointF(inside.left(), y), QPointF(inside.left() + 4, y))
        painter.setPen(palette.color("dim"))
        for y, (_, text) in zip(ys, up, strict=True):
            room = QRectF(0, y - 10, AXIS_WIDTH - 6, 20)
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
        self._paint_x_texts(painter, xs, [text for _, text in across])
        if self.message:
            painter.drawText(inside, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, self.message)

    def _paint_x_texts(self, painter: QPainter, xs: list[float], texts: list[str]) -> None:
        metrics, top = painter.fontMetrics(), self.inside.bottom() + 4
        widths = [float(metrics.horizontalAdvance(text)) for text in texts]
        flags = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop
        for x, text, width, fits in zip(xs, texts, widths, texts_fit(xs, widths, 8.0), strict=True):
            if fits:
                centre = min(max(x, width / 2), self.width() - width / 2)
                painter.drawText(QRectF(centre - width / 2 - 1, top, width + 2, AXIS_HEIGHT), flags, text)

    # ---- the pointer

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a drag."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.pressed.emit(self.x_at(event.position()), True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go on with a drag, and point."""
        x = self.x_at(event.position())
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.pressed.emit(x, False)
        self.pointed.emit(x)

    def leaveEvent(self, event: QEvent) -> None:
        """Stop pointing."""
        super().leaveEvent(event)
        self.pointed.emit(None)


def _n_ticks(size: float, room: float) -> int:
    return min(max(math.floor(size / room), 2), _MOST_TICKS)
