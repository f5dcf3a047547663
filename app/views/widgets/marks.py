"""The one code of provenance: how a number is drawn by where it comes from. Shape and dash carry it without colour."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from core.spec import Provenance

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


SYMBOLS = {Provenance.MEASURED: "o", Provenance.SIMULATED: "o", Provenance.PUBLISHED: "d"}
"""pyqtgraph's symbol of a single value by where it comes from; a measured one is filled, the others are hollow."""

ELSEWHERE = {Provenance.MEASURED: "s", Provenance.SIMULATED: "s", Provenance.PUBLISHED: "d"}
"""The same for values of a board that is not attached, or that others measured."""

SYMBOL_PX = 8


def draw_symbol(
    painter: QPainter,
    at: QPointF,
    provenance: Provenance,
    color: QColor,
    ground: QColor,
    symbols: Mapping[Provenance, str] = SYMBOLS,
) -> None:
    """Draw the symbol of a provenance outside a plot: filled and ringed by the ground, or hollow."""
    filled = provenance is Provenance.MEASURED
    painter.setPen(QPen(ground if filled else color, 1))
    painter.setBrush(color if filled else ground)
    half = SYMBOL_PX / 2
    if symbols[provenance] == "s":
        painter.drawRect(QRectF(at.x() - half, at.y() - half, SYMBOL_PX, SYMBOL_PX))
    elif symbols[provenance] == "d":
        corners = ((-half, 0), (0, -half), (half, 0), (0, half))
        painter.drawPolygon(QPolygonF([at + QPointF(*corner) for corner in corners]))
    else:
        painter.drawEllipse(at, half, half)
