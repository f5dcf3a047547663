"""Every action in one place: the command palette, and the list of shortcuts."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.views.actions import ALSO

_ACTION = Qt.ItemDataRole.UserRole


def plain(action: QAction) -> str:
    """Return an action's text without its mnemonic."""
    return action.text().replace("&", "").removesuffix("…")


def matches(words: str, text: str) -> bool:
    """Return True if all typed words occur in a text, in any order and case."""
    return all(word in text.lower() for word in words.lower().split())


class ActionList(QDialog):
    """The actions with their shortcuts; typing narrows the list, Enter runs the chosen one.

    Parameters
    ----------
    title : str
    actions : sequence of QAction
        In the order shown; those that cannot run now are shown dim.
    runnable : bool
        Whether Enter and double click run an action; False only lists.
    """

    def __init__(self, parent: QWidget, title: str, actions: Sequence[QAction], *, runnable: bool) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setObjectName("palette" if runnable else "shortcuts")
        self.resize(520, 460)
        self._runnable = runnable
        self.search = QLineEdit()
        self.search.setPlaceholderText("Type to search")
        self.search.setAccessibleName("Search for a command")
        self.search.setClearButtonEnabled(True)
        self.list = QTreeWidget()
        self.list.setAccessibleName(title)
        self.list.setHeaderHidden(True)
        self.list.setColumnCount(2)
        self.list.setRootIsDecorated(False)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setUniformRowHeights(True)
        for action in actions:
            self._add(action)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        layout = QVBoxLayout(self)
        layout.addWidget(self.search)
        layout.addWidget(self.list, 1)
        self.search.textChanged.connect(self._narrow)
        self.search.installEventFilter(self)
        self.search.returnPressed.connect(self._run)
        self.list.itemActivated.connect(self._run)
        self._narrow("")

    def _add(self, action: QAction) -> None:
        keys = ", ".join(k.toString(QKeySequence.SequenceFormat.NativeText) for k in action.shortcuts())
        item = QTreeWidgetItem([plain(action), keys])
        item.setData(0, _ACTION, action)
        item.setToolTip(0, action.toolTip())
        item.setDisabled(self._runnable and not action.isEnabled())
        item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.list.addTopLevelItem(item)

    def _items(self) -> list[QTreeWidgetItem]:
        found = (self.list.topLevelItem(i) for i in range(self.list.topLevelItemCount()))
        return [item for item in found if item is not None]

    def _narrow(self, words: str) -> None:
        first = None
        for item in self._items():
            also = item.data(0, _ACTION).property(ALSO) or ""
            item.setHidden(not matches(words, f"{item.text(0)} {item.text(1)} {also}"))
            if first is None and not item.isHidden() and not item.isDisabled():
                first = item
        self.list.setCurrentItem(first)  # type: ignore[arg-type]

    def _run(self, *_: object) -> None:
        item = self.list.currentItem()
        if not self._runnable or item is None or item.isDisabled():
            return
        action = item.data(0, _ACTION)
        self.accept()
        action.trigger()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let the arrow keys move in the list while one types."""
        moves = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and event.key() in moves:
            self.list.keyPressEvent(event)
            return True
        return super().eventFilter(watched, event)
