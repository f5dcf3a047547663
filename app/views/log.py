"""The log: what happened, when, one line each."""

from __future__ import annotations

from PySide6.QtWidgets import QPlainTextEdit

from app.model.state import LogLine
from app.model.store import LOG_LINES, Store

_WORDS = {"info": "", "warning": "warning: ", "error": "error: "}


class LogPanel(QPlainTextEdit):
    """The last lines of the log; the newest is kept in view unless one scrolls back."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.setObjectName("log")
        self.setAccessibleName("Log")
        self.setReadOnly(True)
        self.setMaximumBlockCount(LOG_LINES)
        self.setUndoRedoEnabled(False)
        self._store = store
        for line in store.log:
            self.appendPlainText(_text(line))
        store.changed.connect(self._on_changed)

    def _on_changed(self, path: str) -> None:
        if path == "log":
            self.appendPlainText(_text(self._store.log[-1]))


def _text(line: LogLine) -> str:
    return f"{line.time_utc.astimezone():%H:%M:%S}  {_WORDS[line.level]}{line.text}"
