"""Small parts that panels are made of: cards, labels by role, the drop-down, and the part a dock shows as its title."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QAction, QPainter, QPaintEvent, QPen, QPolygonF, QWheelEvent
from PySide6.QtGui import Qt as Text
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QBoxLayout,
    QComboBox,
    QDockWidget,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.text.format import unbroken
from app.views.widgets.theme import GAP, HEADING_PX, PADDING, SECONDARY_PX, VALUE_PX, Theme, font


def label(text: str = "", role: str = "", *, wrap: bool = False, selectable: bool = False) -> QLabel:
    """Return a label; `role` is one of the style sheet's: heading, dim, secondary, value, bad, ok."""
    made = _Wrapped(text) if wrap else QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if role:
        made.setProperty("role", role)
    if role == "heading":
        made.setFont(font(HEADING_PX, bold=True, caps=True))
    if selectable:
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return made


class _Wrapped(QLabel):
    """A label of several lines, none of which ends between a number and its unit."""

    def __init__(self, text: str) -> None:
        super().__init__(unbroken(text))
        self._plain = text
        self.setWordWrap(True)

    def text(self) -> str:
        """Return the text as it was given."""
        return self._plain

    def setText(self, text: str) -> None:
        """Show another text."""
        self._plain = text
        super().setText(unbroken(text))


def set_role(widget: QWidget, role: str) -> None:
    """Give a widget another role of the style sheet, without work when it has it already."""
    if widget.property("role") != role:
        widget.setProperty("role", role)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def set_tip(widget: QWidget | QAction, text: str) -> None:
    """Set a tool tip that shows a text as it is: Qt would take what a board says for HTML where it looks like it."""
    widget.setToolTip(html.escape(text).replace("\n", "<br>") if Text.mightBeRichText(text) else text)


def set_text(widget: QLabel | ElidedLabel, text: str) -> None:
    """Set a label's text, without a new layout when it is the same."""
    if widget.text() != text:
        widget.setText(text)


class Card(QFrame):
    """A panel of the flat background: one hairline border, rounded; its content goes into `body`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(PADDING, PADDING - 4, PADDING, PADDING - 4)
        self.body.setSpacing(6)


def row(*parts: QWidget | int, spacing: int = GAP) -> QHBoxLayout:
    """Return a horizontal layout of widgets; an integer is stretch."""
    made = QHBoxLayout()
    made.setSpacing(spacing)
    made.setContentsMargins(0, 0, 0, 0)
    fill(made, parts)
    return made


def fill(layout: QBoxLayout, parts: Sequence[QWidget | int]) -> None:
    """Append widgets to a layout; an integer is stretch."""
    for part in parts:
        if isinstance(part, int):
            layout.addStretch(part)
        else:
            layout.addWidget(part)


def clear(layout: QLayout) -> None:
    """Remove all widgets of a layout."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()


class PlotSpace(QWidget):
    """The space of a plot, on the colour of its card: the same with and without the plot, so that nothing moves when it
    comes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setMinimumHeight(48)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self.message = label("", "dim", wrap=True)
        self.message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.message.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.message.hide()
        self._grid.addWidget(self.message, 0, 0)

    def say(self, message: str) -> None:
        """Say something where there is nothing to draw; "" says nothing."""
        set_text(self.message, message)
        self.message.setVisible(bool(message))

    def take(self, plot: QWidget) -> None:
        """Put a plot into the space, below the message."""
        plot.setMinimumSize(0, 0)
        plot.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self._grid.addWidget(plot, 0, 0)
        self.message.raise_()


class ElidedLabel(QWidget):
    """A line of text that is cut with an ellipsis where it does not fit; the tool tip has all of it.

    A new text repaints this widget and nothing else, where a QLabel would lay out the panel anew.
    """

    def __init__(self, role: str = "", align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft) -> None:
        super().__init__()
        self._text, self._tip, self._cut = "", "", False
        self._align = align | Qt.AlignmentFlag.AlignVCenter
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        set_role(self, role)

    def text(self) -> str:
        """Return the text."""
        return self._text

    def setText(self, text: str) -> None:
        """Show another text."""
        if text != self._text:
            self._text = text
            self.setAccessibleDescription(text)
            self.update()

    def set_tip(self, tip: str) -> None:
        """Say more in the tool tip; "" leaves it to what is cut."""
        if tip != self._tip:
            self._tip = tip
            set_tip(self, tip or (self._text if self._cut else ""))

    def sizeHint(self) -> QSize:
        """Return the height of a line; the width is what is given."""
        return QSize(24, self.fontMetrics().height() + 1)

    def minimumSizeHint(self) -> QSize:
        """Return the height of a line."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what fits, in the colour and font of the role."""
        painter, room = QPainter(self), self.contentsRect()
        text = painter.fontMetrics().elidedText(self._text, Qt.TextElideMode.ElideRight, room.width())
        if self._cut != (text != self._text):
            self._cut = not self._cut
            set_tip(self, self._tip or (self._text if self._cut else ""))
        painter.setPen(self.palette().windowText().color())
        painter.drawText(room, self._align, text)


class BigNumber(QWidget):
    """A value in large type, its unit and provenance after it in small type. Repaints alone, as `ElidedLabel`."""

    def __init__(self) -> None:
        super().__init__()
        self._value = self._word = ""
        self.setFixedHeight(32)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_value(self, value: str, word: str) -> None:
        """Show a value and what follows it."""
        if (value, word) != (self._value, self._word):
            self._value, self._word = value, word
            self.setAccessibleDescription(self.text())
            self.update()

    def text(self) -> str:
        """Return value and word as one text."""
        return f"{self._value} {self._word}"

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw both on one base line."""
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.setFont(font(VALUE_PX, bold=True))
        base = round((self.height() + painter.fontMetrics().capHeight()) / 2)
        painter.drawText(0, base, self._value)
        x = painter.fontMetrics().horizontalAdvance(self._value) + 8
        painter.setFont(font(SECONDARY_PX))
        word = painter.fontMetrics().elidedText(self._word, Qt.TextElideMode.ElideRight, self.width() - x)
        painter.drawText(x, base, word)


class Choice(QComboBox):
    """A drop-down that draws itself: flat, a chevron, the focus visible. The wheel scrolls the panel, not the value.

    The list has full names; `shorten` makes of (key, name) what the closed field shows.
    """

    def __init__(self, theme: Theme, name: str, path: str, shorten: Callable[[str, str], str] | None = None) -> None:
        super().__init__()
        self._theme, self._shorten = theme, shorten
        self._shown: tuple[tuple[tuple[str, str], ...], str] = ((), "")
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_options(self, options: Sequence[tuple[str, str]], current: str) -> None:
        """Show options (key, name) with key `current` chosen, without a signal."""
        if (tuple(options), current) == self._shown:
            return
        blocked = self.blockSignals(True)
        if tuple(options) != self._shown[0]:
            self.clear()
            for key, name in options:
                self.addItem(name, key)
        self._shown = (tuple(options), current)
        self.setCurrentIndex(self.findData(current))
        set_tip(self, self.currentText())
        self.blockSignals(blocked)
        self.update()

    def take_text(self, entered: Callable[[str], None]) -> None:
        """Let other values than the listed ones be typed."""
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        line = QLineEdit()
        self.setLineEdit(line)
        line.setObjectName(f"{self.objectName()}.text")
        line.setAccessibleName(self.accessibleName())

        def enter() -> None:
            entered(line.text())
            line.setText(self.itemText(self.currentIndex()))

        line.returnPressed.connect(enter)

    def shown(self) -> str:
        """Return the text of the closed field."""
        key, name = self.currentData(), self.currentText()
        return self._shorten(key, name) if self._shorten is not None and key is not None else name

    def showPopup(self) -> None:
        """Open the list, wide enough for its names."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + 24)
        super().showPopup()

    def sizeHint(self) -> QSize:
        """Return a size of one line of text and its padding."""
        return QSize(120, 28)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Let the wheel scroll what the drop-down lies in."""
        event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the field, the text and the chevron."""
        p, painter = self._theme.palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edge = "accent" if self.hasFocus() else "dim" if self.underMouse() else "line"
        painter.setPen(QPen(p.color(edge), 1))
        painter.setBrush(p.color("raised"))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        painter.setPen(p.color("text" if self.isEnabled() else "dim"))
        room = self.rect().adjusted(9, 0, -24, 0)
        text = painter.fontMetrics().elidedText(self.shown(), Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)
        x, y = self.width() - 15.0, self.height() / 2.0 - 1.5
        painter.setPen(QPen(p.color("dim"), 1.4))
        painter.drawPolyline(QPolygonF([QPointF(x - 3.5, y), QPointF(x, y + 3.5), QPointF(x + 3.5, y)]))


def scrolls(widget: QWidget) -> bool:
    """Return whether the widget lies in an area that can be scrolled, so that the wheel is needed for that."""
    above = widget.parentWidget()
    while above is not None and not isinstance(above, QAbstractScrollArea):
        above = above.parentWidget()
    return above is not None and above.verticalScrollBar().maximum() > 0


class Dock(QDockWidget):
    """A dock that looks like a card: its title is the card's heading, with one short text at the right."""

    def __init__(self, key: str, title: str, content: QWidget) -> None:
        super().__init__(title)
        self.setObjectName(key)
        self.setAccessibleName(title)
        head = QFrame()
        head.setProperty("role", "card-head")
        self.aside = label("", "dim")
        line = QHBoxLayout(head)
        line.setContentsMargins(PADDING, PADDING - 4, PADDING, 4)
        fill(line, (label(title, "heading"), 1, self.aside))
        self.setTitleBarWidget(head)
        frame = QFrame()
        frame.setProperty("role", "card-body")
        inside = QVBoxLayout(frame)
        inside.setContentsMargins(1, 0, 1, 1)
        inside.addWidget(content)
        self.setWidget(frame)
