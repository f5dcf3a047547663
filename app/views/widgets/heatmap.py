"""A temperature field as a picture: cool parts in the colour of the panel, warm ones in that of a warning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QLinearGradient, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.library.endurance import HeatMap
from app.text.format import quantity_text
from app.views.widgets.theme import SECONDARY_PX, Palette, Theme, font

_STOPS = ("raised", "accent", "measured", "bad")
_SCALE_PX, _TEXT_PX, _GAP_PX = 12, 18, 10


class HeatMapView(QWidget):
    """The field with its scale: the coolest and the warmest place in words."""

    def __init__(self, theme: Theme, path: str) -> None:
        super().__init__()
        self.setObjectName(path)
        self.setAccessibleName("Heat map")
        self._theme = theme
        self._shown: HeatMap | None = None
        self._image = QImage()
        self.setFont(font(SECONDARY_PX))
        self.setMinimumHeight(150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.changed.connect(self._paint_again)

    def show_field(self, heat: HeatMap | None) -> None:
        """Show a field; None shows nothing."""
        self._shown = heat
        if heat is not None:
            low, high = (quantity_text(float(f(heat.temp_c)), "degC") for f in (np.min, np.max))
            self.setAccessibleDescription(f"{heat.name}: {low} at the edge, {high} under the chip.")
        self._paint_again()

    def sizeHint(self) -> QSize:
        """Return room for the field and its scale."""
        return QSize(320, 200)

    def _paint_again(self) -> None:
        if self._shown is not None:
            self._image = _image(self._shown.temp_c, self._theme.palette)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the field at its true proportions, and the scale below it."""
        if self._shown is None:
            return
        painter, p, heat = QPainter(self), self._theme.palette, self._shown
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        painter.setFont(self.font())
        room = QRectF(0, 0, self.width(), self.height() - _SCALE_PX - _TEXT_PX - _GAP_PX)
        ny, nx = heat.temp_c.shape
        scale = min(room.width() / nx, room.height() / ny)
        field = QRectF(0, 0, nx * scale, ny * scale)
        field.moveCenter(room.center())
        painter.drawImage(field, self._image)
        painter.setPen(QPen(p.color("line"), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(field)
        bar = QRectF(0, self.height() - _SCALE_PX - _TEXT_PX, self.width(), _SCALE_PX)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for i, name in enumerate(_STOPS):
            gradient.setColorAt(i / (len(_STOPS) - 1), p.color(name))
        painter.fillRect(bar, gradient)
        painter.setPen(p.color("dim"))
        below = QRectF(0, self.height() - _TEXT_PX, self.width(), _TEXT_PX)
        low, high = float(heat.temp_c.min()), float(heat.temp_c.max())
        for value, place in ((low, Qt.AlignmentFlag.AlignLeft), (high, Qt.AlignmentFlag.AlignRight)):
            painter.drawText(below, place | Qt.AlignmentFlag.AlignVCenter, quantity_text(value, "degC"))


def _image(temp_c: NDArray[np.float64], palette: Palette) -> QImage:
    """Return the field in colours, a pixel a cell."""
    stops = [palette.color(name) for name in _STOPS]
    colors = np.array([(c.red(), c.green(), c.blue()) for c in stops], dtype=float)
    low, high = float(temp_c.min()), float(temp_c.max())
    share = (temp_c - low) / (high - low) if high > low else np.zeros_like(temp_c)
    at = np.linspace(0, 1, len(_STOPS))
    rgb = np.stack([np.interp(share, at, colors[:, k]) for k in range(3)], axis=-1).astype(np.uint8)
    ny, nx = temp_c.shape
    return QImage(np.ascontiguousarray(rgb).data, nx, ny, 3 * nx, QImage.Format.Format_RGB888).copy()
