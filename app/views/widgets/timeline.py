"""Draws a timeline: rows of bars over one axis, slack as a thin tail, deadlines as lines."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QLineF, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.text.format import display_unit, number_text, quantity_text, significant_decimals
from app.text.schedule_data import Bar, Timeline
from app.views.widgets.theme import SECONDARY_PX, Theme, font

_ROW_PX, _BAR_PX, _AXIS_PX, _GAP_PX = 30, 18, 22, 10
_MARGIN_PX = 3  # on either side of a label


class TimelineView(QWidget):
    """One timeline."""

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        super().__init__()
        self.setObjectName(path)
        self.setAccessibleName(name)
        self._theme, self._shown = theme, Timeline((), (), "s")
        self.setFont(font(SECONDARY_PX))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_timeline(self, timeline: Timeline) -> None:
        """Show another timeline."""
        self._shown = timeline
        said = [f"{timeline.rows[bar.row]}: {self._words(bar)}" for bar in timeline.bars]
        self.setAccessibleDescription(timeline.message or "; ".join(said))
        self.setFixedHeight(_ROW_PX * max(len(timeline.rows), 2) + _AXIS_PX)
        self.update()

    def sizeHint(self) -> QSize:
        """Return room for the rows and the axis."""
        return QSize(360, _ROW_PX * max(len(self._shown.rows), 2) + _AXIS_PX)

    def _words(self, bar: Bar) -> str:
        unit = self._shown.unit
        times = [quantity_text(at, unit) for at in (bar.start, bar.end)]
        slack = bar.slack_end - bar.end if bar.slack_end is not None else 0.0
        late = f", may slip by {quantity_text(slack, unit)}" if slack > 0 else ""
        return f"{bar.label} {times[0]} to {times[1]}{late}".strip()

    def _left(self, painter: QPainter) -> float:
        widest = max((painter.fontMetrics().horizontalAdvance(row) for row in self._shown.rows), default=0) + 2
        return min(widest, 0.34 * self.width()) + _GAP_PX

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw names, bars, marks and the axis."""
        painter, p, shown = QPainter(self), self._theme.palette, self._shown
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self.font())
        if shown.message:
            painter.setPen(p.color("dim"))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, shown.message)
            return
        left, right = self._left(painter), self.width() - 2 * _GAP_PX
        self._scale = left, (right - left) / shown.end
        for i, name in enumerate(shown.rows):
            painter.setPen(p.color("dim"))
            text = painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, int(left - _GAP_PX))
            painter.drawText(QRectF(0, i * _ROW_PX, left - _GAP_PX, _ROW_PX), Qt.AlignmentFlag.AlignVCenter, text)
        for bar in shown.bars:
            self._draw_slack(painter, bar)
        for bar in shown.bars:
            self._draw_bar(painter, bar)
        bottom = len(shown.rows) * _ROW_PX
        for at, name, role in shown.marks:
            x = left + at * self._scale[1]
            painter.setPen(QPen(p.color(role), 1))
            painter.drawLine(QLineF(x, 0, x, bottom))
            width = painter.fontMetrics().horizontalAdvance(name) + 6
            place = QRectF(x - width - 2, bottom - _ROW_PX / 2 - 8, width, 16)
            painter.fillRect(place, p.color("panel"))
            painter.drawText(place, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, name)
        self._draw_axis(painter, left, right, bottom)

    def _draw_slack(self, painter: QPainter, bar: Bar) -> None:
        if bar.slack_end is not None and bar.slack_end > bar.end:
            left, per_unit = self._scale
            painter.setPen(QPen(self._theme.palette.color("dim"), 1, Qt.PenStyle.DotLine))
            middle = (bar.row + 0.5) * _ROW_PX
            painter.drawLine(QLineF(left + bar.end * per_unit, middle, left + bar.slack_end * per_unit, middle))

    def _draw_bar(self, painter: QPainter, bar: Bar) -> None:
        p, (left, per_unit) = self._theme.palette, self._scale
        x0, x1 = left + bar.start * per_unit, left + bar.end * per_unit
        top = bar.row * _ROW_PX + (_ROW_PX - _BAR_PX) / 2
        if bar.end == bar.start:
            painter.setPen(QPen(p.color(bar.role), 2))
            painter.drawLine(QLineF(x0, top - 3, x0, top + _BAR_PX + 3))
            return
        room = QRectF(x0, top, max(x1 - x0, 1.0), _BAR_PX).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(p.color("panel"))  # over the slack of others
        painter.drawRoundedRect(room, 3, 3)
        painter.setPen(QPen(p.color(bar.role), 1, Qt.PenStyle.DashDotLine if bar.hollow else Qt.PenStyle.SolidLine))
        painter.setBrush(p.color(bar.role, 0.08 if bar.hollow else 0.32))
        painter.drawRoundedRect(room, 3, 3)
        painter.setPen(p.color("text"))
        self._draw_label(painter, bar, room)

    def _draw_label(self, painter: QPainter, bar: Bar, room: QRectF) -> None:
        """Write a bar's label into it, or where it is too short behind it, or in front of it."""
        width = painter.fontMetrics().horizontalAdvance(bar.label) + 2 * _MARGIN_PX
        beside = QRectF(room.right() + 3, room.top(), width, room.height())
        if width > room.width() and width <= self._free_px(bar, room.right()):
            painter.drawText(beside, Qt.AlignmentFlag.AlignVCenter, bar.label)
            return
        if width > room.width() and width <= self._free_before_px(bar, room.left()):
            painter.drawText(
                beside.translated(room.left() - beside.right(), 0), Qt.AlignmentFlag.AlignVCenter, bar.label
            )
            return
        text = fitted(painter.fontMetrics(), bar.label, room.width())
        if room.width() >= 10 and (text == bar.label or len(text) > 3):
            painter.drawText(room.adjusted(_MARGIN_PX, 0, -_MARGIN_PX, 0), Qt.AlignmentFlag.AlignCenter, text)

    def _free_px(self, bar: Bar, x1: float) -> float:
        """Return the room behind a bar that ends at `x1`, up to the next of its row; none where its slack is drawn."""
        if bar.slack_end is not None and bar.slack_end > bar.end:
            return 0.0
        left, per_unit = self._scale
        later = [left + other.start * per_unit for other in self._shown.bars
                 if other.row == bar.row and other is not bar and other.end > bar.start]  # fmt: skip
        return min([self.width(), *later]) - x1 - 3

    def _free_before_px(self, bar: Bar, x0: float) -> float:
        """Return the room in front of a bar that begins at `x0`, up to the one before it in its row."""
        left, per_unit = self._scale
        earlier = [left + max(other.end, other.slack_end or 0.0) * per_unit for other in self._shown.bars
                   if other.row == bar.row and other is not bar and other.start < bar.start]  # fmt: skip
        return x0 - 3 - max([left, *earlier])

    def _draw_axis(self, painter: QPainter, left: float, right: float, top: float) -> None:
        p, unit, end = self._theme.palette, self._shown.unit, self._shown.end
        painter.setPen(QPen(p.color("line"), 1))
        painter.drawLine(QLineF(left, top, right, top))
        shown = display_unit(unit, end)
        ticks = round_ticks(end / shown.factor, int((right - left) / 70))
        decimals = max(significant_decimals(ticks[1], 1), 0) if len(ticks) > 1 else 0
        for at in ticks:
            x = left + at * shown.factor * self._scale[1]
            painter.setPen(QPen(p.color("line"), 1))
            painter.drawLine(QLineF(x, top, x, top - 4))
            painter.setPen(p.color("dim"))
            text = f"0 {shown.text}" if at == 0 else number_text(at, decimals)
            painter.drawText(QRectF(x - 40, top + 3, 80, _AXIS_PX - 4), Qt.AlignmentFlag.AlignHCenter, text)

    def event(self, event: QEvent) -> bool:
        """Say the times of the bar under the pointer."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            bar = self._bar_at(event.pos())
            if bar is not None:
                QToolTip.showText(event.globalPos(), self._words(bar), self)
            else:
                QToolTip.hideText()
            return True
        return bool(super().event(event))

    def _bar_at(self, pos: QPoint) -> Bar | None:
        if not self._shown.bars or not hasattr(self, "_scale"):
            return None
        at = (pos.x() - self._scale[0]) / self._scale[1]
        row = pos.y() // _ROW_PX
        return next((b for b in self._shown.bars if b.row == row and b.start <= at <= b.end), None)


def fitted(metrics: QFontMetrics, text: str, room_px: float) -> str:
    """Return a label as it is written into a bar of a width: whole where it and its margins fit, else cut."""
    if metrics.horizontalAdvance(text) + 2 * _MARGIN_PX <= room_px:
        return text
    return metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(room_px - 2 * _MARGIN_PX))


def round_ticks(end: float, most: int) -> Sequence[float]:
    """Return multiples of 1, 2 or 5 times a power of ten from 0 to `end`, at most about `most` of them."""
    if end <= 0 or most < 1:
        return [0.0]
    least = end / most
    power = 10.0 ** significant_power(least)
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= least)
    return [step * i for i in range(int(end / step + 1e-9) + 1)]


def significant_power(value: float) -> int:
    """Return the power of ten of a positive number's first digit."""
    return int(f"{value:e}".rpartition("e")[2])
