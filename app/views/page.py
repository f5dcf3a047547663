"""A view of cards that scrolls: two columns where there is room, one where there is not."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from app.views.theme import GAP


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


class Page(QScrollArea):
    """The scrolling view: parts one below the other, the last one as high as there is room where it should `fill`."""

    def __init__(self, path: str, name: str, parts: Sequence[QWidget], *, fill: bool = True) -> None:
        super().__init__()
        self.setObjectName(path)
        self.setAccessibleName(name)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
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
        self.setWidget(inside)
