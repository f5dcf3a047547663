"""A text field that holds one quantity: shows it with its unit, reads whatever unit is typed, says what is wrong."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QLineEdit

from app.text.format import MAX_INPUT_LENGTH, exact_text, parse_quantity
from app.views.widgets.common import scrolls


@cache
def _steps() -> dict[Qt.Key, int]:
    """Return the steps of a key. Made when the first key is pressed: Qt.Key has 471 members."""
    return {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1, Qt.Key.Key_PageUp: 5, Qt.Key.Key_PageDown: -5}


class QuantityField(QLineEdit):
    """One number with its unit.

    Parameters
    ----------
    name, path : str
        What it is called, for people and for the tree of objects.
    unit : str
        SI unit of the value (app.text.format).
    bare : str
        The unit meant by a number typed alone.
    optional : bool
        Whether an empty field is a value: None.
    per_token : bool
        Whether it is the time of a token, so that tokens a second are read as well.
    """

    entered = Signal(object)  # the value in SI, or None
    stepped = Signal(int)  # steps asked for by wheel, arrows and page keys
    refused = Signal(str)  # one sentence; "" when the text is right again

    def __init__(
        self, name: str, path: str, unit: str, bare: str = "", *, optional: bool = False, per_token: bool = False
    ) -> None:
        super().__init__()
        self._per_token = per_token
        self.name, self.unit, self.bare, self.optional = name, unit, bare, optional
        self._value: float | None = None
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.setMaxLength(MAX_INPUT_LENGTH)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.editingFinished.connect(self._finish)

    def show_value(self, value: float | None) -> None:
        """Show a value in SI; None is an empty field. What is being typed is replaced."""
        self._value = value
        text = "" if value is None else exact_text(value, self.unit, 2 if self.unit == "1" else 0)
        if text != self.text():
            self.setText(text)
        self._mark("")

    def refuse(self, sentence: str) -> None:
        """Mark the text as wrong and say why."""
        self._mark(sentence)

    def _mark(self, sentence: str) -> None:
        if bool(self.property("wrong")) != bool(sentence):
            self.setProperty("wrong", bool(sentence))
            self.style().unpolish(self)
            self.style().polish(self)
            self.setAccessibleDescription(sentence)
            self.refused.emit(sentence)
        elif sentence:
            self.refused.emit(sentence)

    def _finish(self) -> None:
        if not self.isModified():
            return
        text = self.text().strip()
        try:
            value = None if not text and self.optional else self._read(text)
        except ValueError as error:
            self.refuse(str(error))
            return
        self.setModified(False)
        self._mark("")
        self.entered.emit(value)

    def _read(self, text: str) -> float:
        return parse_quantity(text, self.unit, name=self.name, bare=self.bare, per_token=self._per_token)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step by arrows and page keys; Escape brings back the value that holds."""
        key = Qt.Key(event.key())
        if key is Qt.Key.Key_Escape:
            self.show_value(self._value)
            self.selectAll()
        elif key in _steps():
            self.stepped.emit(_steps()[key])
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Step by the wheel, unless the panel needs it to scroll."""
        turned = event.angleDelta().y()
        if turned == 0 or (scrolls(self) and not self.hasFocus()):
            event.ignore()
            return
        self.stepped.emit(1 if turned > 0 else -1)
        event.accept()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Select all, so that typing replaces the value."""
        super().focusInEvent(event)
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self.selectAll()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Select all of the text, unit included."""
        self.selectAll()
