"""All outputs of the current point in one table: measured, by the model, and the difference to the pinned point."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.model.store import Store
from app.text.format import change_text
from app.text.quantities import ALL, WORDS, Quantity, measured_as
from app.views.widgets.common import Dock, ElidedLabel, label, set_text, set_tip
from app.views.widgets.theme import PADDING
from core.spec import Estimate, Output

_PACE_MS = 100
_COLUMN_PX = 60  # holds "−0.34 ms"


class NumbersPanel(QWidget):
    """One row an output."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.setObjectName("numbers")
        self._store = store
        self._dock: Dock | None = None
        grid = self._grid = QGridLayout(self)
        grid.setContentsMargins(PADDING, 2, PADDING, PADDING - 4)
        grid.setHorizontalSpacing(6)
        grid.setVerticalSpacing(3)
        self._heads: dict[str, QLabel] = {}
        for column, name in enumerate(("", "measured", "model", "vs A")):
            head = self._heads[name] = label(name, "dim")
            head.setAlignment(Qt.AlignmentFlag.AlignRight)
            grid.addWidget(head, 0, column)
            grid.setColumnStretch(column, 0 if column == 0 else 1)
            grid.setColumnMinimumWidth(column, 0 if column in (0, 3) else _COLUMN_PX)
        self._cells: dict[Quantity, list[ElidedLabel]] = {}
        for i, quantity in enumerate(ALL, start=1):
            grid.addWidget(label(quantity.short, "dim"), i, 0)
            cells = [ElidedLabel("secondary", Qt.AlignmentFlag.AlignRight) for _ in range(3)]
            for column, (cell, name) in enumerate(
                zip(cells, ("measured", "by the model", "against A"), strict=True), 1
            ):
                cell.setAccessibleName(f"{quantity.title}, {name}")
                grid.addWidget(cell, i, column)
            self._cells[quantity] = cells
        grid.setRowStretch(len(ALL) + 1, 1)
        self._later = QTimer(self, singleShot=True, interval=_PACE_MS)
        self._later.timeout.connect(self.refresh)
        store.changed.connect(self._on_changed)
        self.refresh()

    def _on_changed(self, path: str) -> None:
        if path in ("prediction", "measurements", "pinned", "link") and not self._later.isActive():
            self._later.start()
        if path == "pinned":
            self._show_aside()

    def refresh(self) -> None:
        """Show the current point."""
        store = self._store
        set_text(self._heads["measured"], WORDS[measured_as(store.link.hello)])
        pinned = store.get("pinned")
        ghost = store.prediction_of(pinned) if pinned is not None else None
        self._grid.setColumnStretch(3, int(pinned is not None))  # without A the others have its room
        self._grid.setColumnMinimumWidth(3, _COLUMN_PX if pinned is not None else 0)
        for cell in (self._heads["vs A"], *(cells[2] for cells in self._cells.values())):
            cell.setVisible(pinned is not None)
        for quantity, (measured, predicted, against) in self._cells.items():
            now: Output = getattr(store.prediction, quantity.output)
            _show(measured, quantity, store.measured(quantity.output))
            _show(predicted, quantity, now)
            then = getattr(ghost, quantity.output) if ghost is not None else None
            difference = ""
            if isinstance(now, Estimate) and isinstance(then, Estimate):
                median = float(now.median)
                difference = change_text(median - float(then.median), quantity.unit.removesuffix("/token"), like=median)
            set_text(against, difference)

    def follow(self, dock: Dock) -> None:
        """Show what is pinned in the dock's title."""
        self._dock = dock
        self._show_aside()

    def _show_aside(self) -> None:
        if self._dock is not None:
            set_text(self._dock.aside, "A pinned" if self._store.get("pinned") is not None else "")


def _show(cell: ElidedLabel, quantity: Quantity, output: Output) -> None:
    if isinstance(output, Estimate):
        text = quantity.figure(output)
        set_text(cell, f"{text.value} {text.unit.removesuffix('/token')}".rstrip())
        cell.setAccessibleDescription(f"{quantity.text(output)} {WORDS[output.provenance]}")
    else:
        set_text(cell, "–")
        cell.setAccessibleDescription(output.reason)
    set_tip(cell, cell.accessibleDescription())
