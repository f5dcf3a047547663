"""A view of cards that scrolls: two columns where there is room, one where there is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.model.store import Store
from app.views.widgets.theme import GAP


class CardGrid(QWidget):
    """Cards in the order given, row by row, in as many columns of at least `column_px` as there is room for."""

    def __init__(self, cards: Sequence[QWidget], column_px: int = 380, most: int = 2) -> None:
        super().__init__()
        self._cards, self._n_columns = list(cards), 0
        self._column_px, self._most = column_px, most
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(GAP)
        self._arrange(1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take the columns that there is room for."""
        super().resizeEvent(event)
        fitting = (self.width() + GAP) // (self._column_px + GAP)
        self._arrange(min(max(fitting, 1), self._most))

    def _arrange(self, n_columns: int) -> None:
        if n_columns == self._n_columns:
            return
        self._n_columns = n_columns
        for card in self._cards:
            self._grid.removeWidget(card)
        for i, card in enumerate(self._cards):
            last = i == len(self._cards) - 1 and i % n_columns == 0  # alone in its row
            wide = last and self._most == 2
            self._grid.addWidget(card, i // n_columns, i % n_columns, 1, n_columns if wide else 1)
        for column in range(self._most):
            self._grid.setColumnStretch(column, 1 if column < n_columns else 0)


class Scroll(QScrollArea):
    """An area that scrolls up and down only."""

    def __init__(self, path: str, name: str, inside: QWidget) -> None:
        super().__init__()
        self._inside = inside
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(inside)

    def minimumSizeHint(self) -> QSize:
        """Return a width that shows all of what is inside: what is cut at the right could not be reached."""
        hint = super().minimumSizeHint()
        if self._inside.sizePolicy().horizontalPolicy() is QSizePolicy.Policy.Ignored:
            return hint
        width = self._inside.minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width()
        return QSize(max(hint.width(), width), hint.height())

    def showEvent(self, event: QShowEvent) -> None:
        """Ask for that width: what is inside had another one before its style was known."""
        super().showEvent(event)
        self.updateGeometry()


class Page(Scroll):
    """The scrolling view: parts one below the other, the last one as high as there is room where it should `fill`."""

    def __init__(self, path: str, name: str, parts: Sequence[QWidget], *, fill: bool = True) -> None:
        inside = QWidget()
        inside.setObjectName("page")
        inside.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout = QVBoxLayout(inside)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.setSpacing(GAP)
        for i, part in enumerate(parts):
            layout.addWidget(part, 1 if fill and i == len(parts) - 1 else 0)
        if not fill:
            layout.addStretch(1)
        super().__init__(path, name, inside)
        self._catch_up: Callable[[], None] = lambda: None
        self._stale = False

    def follow(self, store: Store, concerns: Callable[[str], bool], catch_up: Callable[[], None], pace_ms: int) -> None:
        """Call `catch_up` when a path of the store that `concerns` the page changes, and follow a drag at a pace.

        While the page cannot be seen it waits until it can.
        """
        self._stale, self._catch_up = True, catch_up
        later = QTimer(self, singleShot=True, interval=pace_ms)
        later.timeout.connect(self._show_now)

        def on_changed(path: str) -> None:
            if concerns(path):
                self._stale = True
                if self.isVisible() and not later.isActive():
                    later.start()

        store.changed.connect(on_changed)

    def _show_now(self) -> None:
        self._stale = False
        self._catch_up()

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what has changed meanwhile."""
        super().showEvent(event)
        if self._stale:
            self._show_now()


class Measuring(Page):
    """A page that proposes measurements."""

    proposed = Signal(object)  # an OperatingPoint to go to and measure
    commanded = Signal(str)  # key of a command of the window
