"""One number of the operating point as one control: name, field with unit, slider line, and a line of words below.

A line of an axis with options has one stop an option, in their order; the tool tip names the one under the pointer.

The line shows where measurements exist (dots), what must not be entered (red, from a limit on), and the value. Drag,
wheel, arrows, page keys, Home and End move it; Escape takes a drag back; a double click resets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QMenu, QSizePolicy, QSlider, QToolButton, QToolTip, QVBoxLayout, QWidget

from app.library.axes import Axis
from app.text.format import exact_text
from app.views.widgets.common import ElidedLabel, label, row, scrolls, set_text
from app.views.widgets.field import QuantityField
from app.views.widgets.theme import Theme

_PLACES = 1000  # the resolution that accessibility tools see
_MARGIN = 8.0  # room for half the handle and its focus ring
_SNAP_PX = 5.0
_MOST_STOPS = 16  # more would touch


@cache
def _keys() -> dict[Qt.Key, int]:
    """Return the steps of a key. Made when the first key is pressed: Qt.Key has 471 members."""
    key = Qt.Key
    steps = {key.Key_Left: -1, key.Key_Down: -1, key.Key_Right: 1, key.Key_Up: 1}
    return steps | {key.Key_PageDown: -5, key.Key_PageUp: 5}


def step_size(axis: Axis, value: float) -> float:
    """Return the step at a value: 1, 2 or 5 times a power of ten near 1 % of the axis, a power of two for tokens."""
    if axis.options:
        return 1.0
    if axis.unit == "tokens":
        return math.ldexp(1.0, max(math.floor(math.log2(max(value, 1.0))) - 5, 0))
    wanted = 0.015 * value if axis.log else 0.01 * (axis.high - axis.low)
    power = math.pow(10.0, math.floor(math.log10(wanted)))
    return float(power) * (5 if wanted >= 5 * power else 2 if wanted >= 2 * power else 1)


def snapped(axis: Axis, value: float) -> float:
    """Return the nearest whole number of steps within the axis."""
    step = step_size(axis, value)
    steps = round(value / step)
    return min(max(round(steps * step, 12), axis.low), axis.high)


def stepped(axis: Axis, value: float, n_steps: int) -> float:
    """Return the value `n_steps` steps on, on whole steps, within the axis."""
    step = step_size(axis, value)
    whole = math.floor(value / step + 1e-9) if n_steps > 0 else math.ceil(value / step - 1e-9)
    return min(max(round((whole + n_steps) * step, 12), axis.low), axis.high)


def fraction(axis: Axis, value: float) -> float:
    """Return the position of a value on the axis, 0 at its start and 1 at its end; clipped beyond."""
    inside = min(max(value, axis.low), axis.high)
    if axis.high == axis.low:
        return 0.5
    if axis.log:
        return math.log(inside / axis.low) / math.log(axis.high / axis.low)
    return (inside - axis.low) / (axis.high - axis.low)


def at_fraction(axis: Axis, share: float) -> float:
    """Return the value at a share of the axis, 0..1."""
    if axis.log:
        return axis.low * math.exp(share * math.log(axis.high / axis.low))
    return axis.low + share * (axis.high - axis.low)


class SliderLine(QSlider):
    """The line itself. A QSlider for its keyboard and accessibility, drawn and moved in the units of its axis."""

    moved = Signal(float, int)  # value in SI, and the number of the drag it belongs to
    reset = Signal()

    def __init__(self, theme: Theme, axis: Axis, name: str) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._theme, self._axis = theme, axis
        self._value = self._before = axis.low
        self._dots: Sequence[float] = ()
        self._bad_from: float | None = None
        self._drag, self._dragging = 0, False
        self.setObjectName(f"{axis.path}.line")
        self.setAccessibleName(f"{name}, slider")
        self.setRange(0, _PLACES)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._idle = QTimer(self)  # steps that follow each other closely are one drag
        self._idle.setSingleShot(True)
        self._idle.setInterval(800)
        self.valueChanged.connect(self._moved_by_assistant)
        theme.changed.connect(self.update)

    def show_value(self, axis: Axis, value: float, dots: Sequence[float], bad_from: float | None) -> None:
        """Show a value on an axis, with the positions measured and the start of the part that must not be entered."""
        state = (axis, value, tuple(dots), bad_from)
        if state == (self._axis, self._value, tuple(self._dots), self._bad_from):
            return
        self._axis, self._value, self._dots, self._bad_from = state
        blocked = self.blockSignals(True)
        self.setValue(round(_PLACES * fraction(axis, value)))
        self.blockSignals(blocked)
        self.setAccessibleDescription(axis.options[round(value)][1] if axis.options else exact_text(value, axis.unit))
        self.update()

    def step(self, n_steps: int) -> None:
        """Move by steps, as wheel and arrows do."""
        if not self._idle.isActive():
            self._drag += 1
        self._idle.start()
        self.moved.emit(stepped(self._axis, self._value, n_steps), self._drag)

    def move_to(self, value: float, *, new_drag: bool) -> None:
        """Move to a value as a drag does; `new_drag` begins another one."""
        self._drag += new_drag
        self.moved.emit(value, self._drag)

    def _moved_by_assistant(self, place: int) -> None:
        self.move_to(snapped(self._axis, at_fraction(self._axis, place / _PLACES)), new_drag=True)

    def sizeHint(self) -> QSize:
        """Return the size of the line with its dots."""
        return QSize(160, 24)

    def minimumSizeHint(self) -> QSize:
        """Return the least size at which the line can be used."""
        return QSize(80, 24)

    # ---- input

    def event(self, event: QEvent) -> bool:
        """Name the option under the pointer in a tool tip."""
        if self._axis.options and isinstance(event, QHelpEvent):
            name = self._axis.options[round(self._value_at(event.pos().x()))][1]
            QToolTip.showText(event.globalPos(), name, self)
            return True
        return super().event(event)

    def _value_at(self, x: float) -> float:
        for dot in self._dots:
            if abs(self._x(dot) - x) < _SNAP_PX and self._axis.low <= dot <= self._axis.high:
                return dot
        share = (x - _MARGIN) / max(self.width() - 2 * _MARGIN, 1.0)
        return snapped(self._axis, at_fraction(self._axis, min(max(share, 0.0), 1.0)))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a drag."""
        if event.button() is not Qt.MouseButton.LeftButton:
            event.ignore()
            return
        self._before, self._dragging = self._value, True
        self.move_to(self._value_at(event.position().x()), new_drag=True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Go on with a drag."""
        if self._dragging:
            self.move_to(self._value_at(event.position().x()), new_drag=False)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a drag."""
        self._dragging = False

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Reset to the default."""
        self._dragging = False
        self.reset.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step; Escape takes back the drag that is going on."""
        key = Qt.Key(event.key())
        if key is Qt.Key.Key_Escape and self._dragging:
            self._dragging = False
            self.move_to(self._before, new_drag=False)
        elif key in _keys():
            self.step(_keys()[key])
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self.move_to(self._axis.low if key is Qt.Key.Key_Home else self._axis.high, new_drag=True)
        else:
            event.ignore()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Step, unless the panel needs the wheel to scroll."""
        turned = event.angleDelta().y()
        if turned == 0 or (scrolls(self) and not self.hasFocus()):
            event.ignore()
            return
        self.step(1 if turned > 0 else -1)
        event.accept()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus."""
        super().focusInEvent(event)
        self.update()

    # ---- drawing

    def _x(self, value: float) -> float:
        return _MARGIN + fraction(self._axis, value) * (self.width() - 2 * _MARGIN)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw groove, filled part, forbidden part, dots and handle."""
        p, painter = self._theme.palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        start, end, y = _MARGIN, self.width() - _MARGIN, 9.0
        x = self._x(self._value)

        def part(a: float, b: float, name: str) -> None:
            painter.setBrush(p.color(name))
            painter.drawRoundedRect(QRectF(a, y - 1.5, max(b - a, 0.0), 3.0), 1.5, 1.5)

        part(start, end, "line")
        part(start, x, "accent")
        if 2 < len(self._axis.options) <= _MOST_STOPS:
            for i in range(len(self._axis.options)):
                painter.drawRect(QRectF(round(self._x(i)) - 0.5, y - 4, 1.0, 8.0))
        if self._bad_from is not None and self._bad_from < self._axis.high:
            edge = self._x(self._bad_from)
            part(edge, end, "bad")
            painter.drawRect(QRectF(round(edge) - 0.5, y - 6, 1.0, 12.0))
        painter.setBrush(p.color("measured"))
        for dot in self._dots:
            if self._axis.low <= dot <= self._axis.high:
                painter.drawEllipse(QPointF(self._x(dot), y + 11), 2.0, 2.0)
        if self.hasFocus():
            painter.setPen(QPen(p.color("accent"), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(QPointF(x, y), 7.2, 7.2)
            painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(p.color("text"))
        painter.drawEllipse(QPointF(x, y), 5.5, 5.5)


class SliderControl(QWidget):
    """Name, field, line and words of one path.

    `moved(path, value, drag)` asks for a value; what is shown changes only by `show_value`.
    """

    moved = Signal(str, object, int)
    reset = Signal(str)

    def __init__(self, theme: Theme, axis: Axis, bare: str = "") -> None:
        super().__init__()
        self.path = axis.path
        self.setObjectName(axis.path)
        self.setAccessibleName(axis.label)
        self.dots: tuple[float, ...] = ()
        self.field = QuantityField(axis.label, f"{axis.path}.field", axis.unit, bare)
        self.field.setFixedWidth(106)
        self.line = SliderLine(theme, axis, axis.label)
        self.words, self.wrong = ElidedLabel("dim"), label("", "bad", wrap=True)
        self.wrong.hide()
        self.choices = QToolButton()
        self.choices.setObjectName(f"{self.path}.choices")
        self.choices.setAccessibleName(f"{axis.label}: named values")
        self.choices.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(row(label(axis.label), 1, self.choices, self.field))
        layout.addWidget(self.line)
        layout.addWidget(self.words)
        layout.addWidget(self.wrong)
        self.field.entered.connect(lambda value: self.moved.emit(self.path, value, -1))
        self.field.stepped.connect(self.line.step)
        self.field.refused.connect(self._refused)
        self.line.moved.connect(lambda value, drag: self.moved.emit(self.path, value, drag))
        self.line.reset.connect(lambda: self.reset.emit(self.path))

    def show_value(self, axis: Axis, value: float, dots: Sequence[float], bad_from: float | None = None) -> None:
        """Show a value, the measured positions and the start of the forbidden part."""
        self.line.show_value(axis, value, dots, bad_from)
        self.field.show_value(value)

    def offer(self, name: str, choices: Sequence[tuple[str, float, str]]) -> None:
        """Offer named values, (words, value, tip), in a menu beside the field; `name` is that of the menu."""
        menu = QMenu(self.choices)
        menu.setToolTipsVisible(True)
        for words, value, tip in choices:
            action = menu.addAction(words, lambda v=value: self.moved.emit(self.path, v, -1))  # type: ignore[misc]
            action.setToolTip(tip)
        self.choices.setText("…")
        self.choices.setToolTip(name)
        self.choices.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.choices.setMenu(menu)
        self.choices.show()

    def say(self, words: str) -> None:
        """Show a line of words below: what a step does, or that it does not matter."""
        set_text(self.words, words)

    def _refused(self, sentence: str) -> None:
        set_text(self.wrong, sentence)
        self.wrong.setVisible(bool(sentence))
        self.words.setVisible(not sentence)
