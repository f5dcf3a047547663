"""The one legend of the window: how each kind of number is drawn, everywhere."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.views.widgets.marks import COLORS, DASHES, ELSEWHERE, draw_symbol
from app.views.widgets.theme import SECONDARY_PX, Theme, font
from core.spec import Provenance

_SAMPLE, _GAP = 22.0, 16.0
ENTRIES = (
    ("measured", "measured, 90 %"),
    ("calibrated", "calibrated, 90 % band"),
    ("predicted", "predicted from priors"),
    ("simulated", "simulated"),
    ("beyond", "beyond r_max"),
    ("elsewhere", "measured elsewhere"),
    ("published", "published"),
    ("as_published", "as published"),
    ("pinned", "A, pinned"),
)
"""Kind and words, in the order of importance: the last ones go first where there is no room."""


class Legend(QWidget):
    """One line of samples with their words."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("legend")
        self.setAccessibleName("Legend")
        self.setAccessibleDescription(
            "Measured: filled dot with error bar. Calibrated: solid line with band. Predicted: dashed line with band. "
            "Published: hollow diamond. As published: dash-dotted line. Simulated: hollow dot. "
            "Measured elsewhere: filled square. Pinned: grey line. "
            "Beyond r_max: red wash with an edge line."
        )
        self._theme = theme
        self.setFont(font(SECONDARY_PX))
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the size of the line."""
        return QSize(400, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as many entries as there is room for."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font(SECONDARY_PX))
        metrics, x, middle = painter.fontMetrics(), 2.0, self.height() / 2.0
        for kind, words in ENTRIES:
            width = _SAMPLE + 6 + metrics.horizontalAdvance(words)
            if x + width > self.width():
                break
            self._sample(painter, kind, x, middle)
            painter.setPen(self._theme.palette.color("dim"))
            room = QRectF(x + _SAMPLE + 6, 0, width, self.height())
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)
            x += width + _GAP

    def _sample(self, painter: QPainter, kind: str, x: float, y: float) -> None:
        p, centre = self._theme.palette, QPointF(x + _SAMPLE / 2, y)
        if kind == "pinned":
            painter.setPen(QPen(p.color("dim"), 1))
            painter.drawLine(QPointF(x, y), QPointF(x + _SAMPLE, y))
            return
        if kind == "beyond":
            painter.fillRect(QRectF(x + 4, y - 6, _SAMPLE - 8, 12), p.color("bad", 0.25))
            painter.setPen(QPen(p.color("bad"), 1))
            painter.drawLine(QPointF(x + 4, y - 6), QPointF(x + 4, y + 6))
            return
        if kind == "elsewhere":
            origin = Provenance.MEASURED
            draw_symbol(painter, centre, origin, p.color(COLORS[origin]), p.color("bg"), ELSEWHERE)
            return
        provenance = Provenance(kind)
        color = p.color(COLORS[provenance])
        painter.setPen(QPen(color, 1, DASHES[provenance]))
        if provenance in (Provenance.CALIBRATED, Provenance.PREDICTED):
            painter.fillRect(QRectF(x, y - 5, _SAMPLE, 10), p.color("accent", 0.2))
        if provenance is Provenance.MEASURED:
            painter.drawLine(QPointF(centre.x(), y - 7), QPointF(centre.x(), y + 7))
        if provenance in (Provenance.MEASURED, Provenance.PUBLISHED, Provenance.SIMULATED):
            draw_symbol(painter, centre, provenance, color, p.color("bg"))
        else:
            painter.drawLine(QPointF(x, y), QPointF(x + _SAMPLE, y))
