"""The log: what happened, when, one line each."""

from __future__ import annotations

from PySide6.QtGui import QSyntaxHighlighter
from PySide6.QtWidgets import QPlainTextEdit

from app.model.state import LogLine
from app.model.store import LOG_LINES, Store
from app.views.widgets.theme import Theme

_WORDS = {"info": "", "warning": "warning: ", "error": "error: "}
_COLORS = {"warning: ": "measured", "error: ": "bad"}
_TIME = len("00:00:00  ")


class LogPanel(QPlainTextEdit):
    """The last lines of the log; the newest is kept in view unless one scrolls back."""

    def __init__(self, store: Store, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("log")
        self.setAccessibleName("Log")
        self.setReadOnly(True)
        self.setMaximumBlockCount(LOG_LINES)
        self.setUndoRedoEnabled(False)
        self._store = store
        self._colors = _Colors(self, theme)
        for line in store.log:
            self.appendPlainText(_text(line))
        store.changed.connect(self._on_changed)

    def _on_changed(self, path: str) -> None:
        if path == "log":
            self.appendPlainText(_text(self._store.log[-1]))


class _Colors(QSyntaxHighlighter):
    """Dims the time and colours the word of a warning or an error."""

    def __init__(self, panel: QPlainTextEdit, theme: Theme) -> None:
        super().__init__(panel.document())
        self._theme = theme
        theme.changed.connect(self.rehighlight)

    def highlightBlock(self, text: str) -> None:
        """Colour one line."""
        palette = self._theme.palette
        self.setFormat(0, _TIME, palette.color("dim"))
        for word, color in _COLORS.items():
            if text.startswith(word, _TIME):
                self.setFormat(_TIME, len(word), palette.color(color))


def _text(line: LogLine) -> str:
    return f"{line.time_utc.astimezone():%H:%M:%S}  {_WORDS[line.level]}{line.text}"
