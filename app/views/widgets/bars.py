"""Shares as horizontal bars with their words: power by term, stages of a token, margins to limits."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.text.bar import Bar
from app.views.widgets.common import set_tip
from app.views.widgets.marks import COLORS, DASHES
from app.views.widgets.theme import SECONDARY_PX, Theme, font
from core.spec import Provenance

_ROW_PX, _BAR_PX, _GAP_PX = 24, 10, 10
_HOLLOW = (Provenance.PREDICTED, Provenance.SIMULATED)


class Bars(QWidget):
    """Rows of bars: filled where measured or calibrated, hollow where predicted from priors or simulated."""

    def __init__(self, theme: Theme, name: str, path: str) -> None:
        super().__init__()
        self.setObjectName(path)
        self.setAccessibleName(name)
        self._theme, self._bars, self._full = theme, tuple[Bar, ...](), 0.0
        self.setFont(font(SECONDARY_PX))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_bars(self, bars: Sequence[Bar], full: float = 0.0) -> None:
        """Show rows; `full` is the value of a bar of full length, by default the largest."""
        self._bars, self._full = tuple(bars), full
        self.setAccessibleDescription("; ".join(f"{bar.name} {bar.text}" for bar in bars))
        set_tip(self, "\n".join(f"{bar.name}: {bar.text}, {bar.provenance.value}" for bar in bars))
        self.setFixedHeight(_ROW_PX * max(len(bars), 1))
        self.update()

    def sizeHint(self) -> QSize:
        """Return room for the rows."""
        return QSize(260, _ROW_PX * max(len(self._bars), 1))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw name, bar and text of each row in three columns."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self.font())
        metrics, p = painter.fontMetrics(), self._theme.palette
        names = min(
            max((metrics.horizontalAdvance(b.name) for b in self._bars), default=0) + 2, int(0.42 * self.width())
        )
        texts = min(
            max((metrics.horizontalAdvance(b.text) for b in self._bars), default=0) + 2, int(0.6 * self.width())
        )
        left, width = names + _GAP_PX, self.width() - names - texts - 2 * _GAP_PX
        full = self._full or max((abs(bar.value) for bar in self._bars), default=0.0) or 1.0
        for i, bar in enumerate(self._bars):
            top, middle = i * _ROW_PX, i * _ROW_PX + _ROW_PX / 2
            painter.setPen(p.color("dim"))
            name = metrics.elidedText(bar.name, Qt.TextElideMode.ElideRight, names)
            painter.drawText(QRectF(0, top, names, _ROW_PX), Qt.AlignmentFlag.AlignVCenter, name)
            painter.setPen(p.color("bad" if bar.bad else "text"))
            text = metrics.elidedText(bar.text, Qt.TextElideMode.ElideRight, texts)
            place = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(QRectF(self.width() - texts, top, texts, _ROW_PX), place, text)
            if width > 8:
                room = QRectF(left, middle - _BAR_PX / 2, width, _BAR_PX)
                value = abs(bar.value) if bar.bad else bar.value  # what is less than nothing and not bad has no length
                self._draw_bar(painter, room, bar, min(value / full, 1.0))

    def _draw_bar(self, painter: QPainter, room: QRectF, bar: Bar, share: float) -> None:
        p = self._theme.palette
        color = "bad" if bar.bad else COLORS[bar.provenance]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(p.color("raised"))
        painter.drawRoundedRect(room, 3, 3)
        if share <= 0:
            return
        filled = QRectF(room.left(), room.top(), max(share * room.width(), 2.0), room.height())
        hollow = bar.provenance in _HOLLOW
        painter.setPen(QPen(p.color(color), 1, DASHES[bar.provenance]))
        painter.setBrush(p.color(color, 0.30 if hollow else 1.0))
        painter.drawRoundedRect(filled.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3)
