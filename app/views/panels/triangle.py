"""The triangle: how much of each of three limits a point uses. The red triangle is the limits; inside it all hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.views.widgets.theme import SECONDARY_PX, Theme, font

_ANGLES = tuple(math.radians(a) for a in (90, 210, 330))  # up, left below, right below
_MOST = 1.35  # of a limit that can be drawn
_LINE_PX = 18


class Triangle(QWidget):
    """Use of three limits, of the point and of the pinned one."""

    def __init__(self, theme: Theme, path: str) -> None:
        super().__init__()
        self.setObjectName(path)
        self.setAccessibleName("Triangle of limits")
        self._theme = theme
        self._texts: tuple[str, ...] = ("", "", "")
        self._used: tuple[float | None, ...] = (None, None, None)
        self._pinned: tuple[float | None, ...] = (None, None, None)
        self.setFont(font(SECONDARY_PX))
        self.setMinimumHeight(230)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self.update)

    def show_use(
        self, texts: Sequence[str], used: Sequence[float | None], pinned: Sequence[float | None] = (None, None, None)
    ) -> None:
        """Show the used share of each limit (1 is the limit, None: there is none) with its words."""
        self._texts, self._used, self._pinned = tuple(texts), tuple(used), tuple(pinned)
        self.setAccessibleDescription("; ".join(text for text in texts if text))
        self.update()

    def sizeHint(self) -> QSize:
        """Return room for the triangle and its words."""
        return QSize(300, 260)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw limits, halves, the point and its words."""
        painter, p = QPainter(self), self._theme.palette
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self.font())
        most = min(max([1.0, *(used for used in (*self._used, *self._pinned) if used is not None)]), _MOST)
        height = self.height() - 2 * _LINE_PX - 8  # between the words
        radius = max(min(height / (1.5 * most), self.width() / (math.sqrt(3) * most)), 10.0)
        centre = QPointF(self.width() / 2, _LINE_PX + 4 + radius * most)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(p.color("line"), 1))
        painter.drawPolygon(_corners(centre, radius, (0.5, 0.5, 0.5)))
        for corner in _points(centre, radius, (1.0, 1.0, 1.0)):
            painter.drawLine(centre, corner)
        limited = any(used is not None for used in self._used)
        painter.setPen(QPen(p.color("bad" if limited else "line"), 1))
        painter.drawPolygon(_corners(centre, radius, (1.0, 1.0, 1.0)))
        if any(used is not None for used in self._pinned):
            painter.setPen(QPen(p.color("dim"), 1))
            painter.drawPolygon(_corners(centre, radius, self._pinned))
        if limited:
            broken = any(used is not None and used > 1 for used in self._used)
            color = "bad" if broken else "accent"
            painter.setPen(QPen(p.color(color), 1))
            painter.setBrush(p.color(color, 0.25))
            painter.drawPolygon(_corners(centre, radius, self._used))
        self._draw_words(painter)

    def _draw_words(self, painter: QPainter) -> None:
        below, half = self.height() - _LINE_PX, self.width() / 2
        places = (
            (QRectF(0, 0, self.width(), _LINE_PX), Qt.AlignmentFlag.AlignHCenter),
            (QRectF(0, below, half - 6, _LINE_PX), Qt.AlignmentFlag.AlignLeft),
            (QRectF(half + 6, below, half - 6, _LINE_PX), Qt.AlignmentFlag.AlignRight),
        )
        for (room, align), text, used in zip(places, self._texts, self._used, strict=True):
            painter.setPen(self._theme.palette.color("bad" if used is not None and used > 1 else "dim"))
            said = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(room.width()))
            painter.drawText(room, align | Qt.AlignmentFlag.AlignVCenter, said)


def _corners(centre: QPointF, radius: float, shares: Sequence[float | None]) -> QPolygonF:
    return QPolygonF(_points(centre, radius, shares))


def _points(centre: QPointF, radius: float, shares: Sequence[float | None]) -> list[QPointF]:
    """Return the corners at shares of the radius; a share that is not there lies in the middle."""
    points = []
    for angle, share in zip(_ANGLES, shares, strict=True):
        r = radius * min(max(share or 0.0, 0.0), _MOST)
        points.append(QPointF(centre.x() + r * math.cos(angle), centre.y() - r * math.sin(angle)))
    return points
