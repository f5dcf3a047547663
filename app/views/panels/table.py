"""The curves as a table: for those who cannot see the plots, and for a spreadsheet."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

from app.model.store import Store
from app.text.format import exact_text
from app.text.quantities import LATENCY, PERPLEXITY, POWER, TOP1, WORDS
from core.spec import Estimate

N_ROWS = 21
SHOWN = (LATENCY, POWER, TOP1, PERPLEXITY)


def curve_table(store: Store, n: int = N_ROWS) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the curves along the slider last moved, with units, intervals and provenance."""
    axis = store.axis_range(store.axis)
    x, prediction = store.curve(n)
    outputs = [getattr(prediction, q.output) for q in SHOWN]
    head = [axis.label]
    for q, output in zip(SHOWN, outputs, strict=True):
        head.append(f"{q.title}, {WORDS[output.provenance] if isinstance(output, Estimate) else 'absent'}")
    rows = []
    for i, value in enumerate(x.tolist()):
        row = [axis.options[i][1] if axis.options else exact_text(value, axis.unit)]
        for q, output in zip(SHOWN, outputs, strict=True):
            if not isinstance(output, Estimate):
                row.append(output.reason)
                continue
            median, q05, q95 = (np.broadcast_to(v, x.shape)[i] for v in (output.median, output.q05, output.q95))
            row.append(str(q.text(Estimate(median, q05, q95, output.provenance))))
        rows.append(row)
    return head, rows


class CurveTable(QDialog):
    """The table, to read and to copy with tabs between the cells."""

    def __init__(self, store: Store, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Curves as a table")
        self.setObjectName("table")
        self.resize(1000, 560)
        self.head, self.rows = curve_table(store)
        table = QTableWidget(len(self.rows), len(self.head))
        table.setAccessibleName("Curves as a table")
        table.setHorizontalHeaderLabels(self.head)
        table.verticalHeader().hide()
        table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        for i, row in enumerate(self.rows):
            for k, text in enumerate(row):
                table.setItem(i, k, QTableWidgetItem(text))
        table.resizeColumnsToContents()
        table.horizontalHeader().setStretchLastSection(True)
        table.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        table.verticalHeader().setDefaultSectionSize(24)
        buttons = QDialogButtonBox()
        copy = buttons.addButton("Copy", QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(QDialogButtonBox.StandardButton.Close)
        copy.clicked.connect(self.copy)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(table, 1)
        layout.addWidget(buttons)

    def copy(self) -> None:
        """Put the table on the clipboard, a tab between cells."""
        QGuiApplication.clipboard().setText("\n".join("\t".join(row) for row in [self.head, *self.rows]))
