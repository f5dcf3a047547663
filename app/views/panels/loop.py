"""The loop view: whether the board still runs as calibrated, what drifted, the correction, the next measurement, and
the compensation of quantised weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QWidget

from app.library.loop import Loop
from app.model.followed import before_and_after, warning
from app.model.store import Store
from app.text.format import estimate_text
from app.text.loop_charts import detector_chart, residual_chart
from app.text.loop_text import NOTHING, state_sentence, term_rows
from app.views.panels.compensation import CompensationCard
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.common import Card, label, row, set_role, set_text
from app.views.widgets.page import CardGrid, Measuring
from app.views.widgets.theme import Theme
from core.spec import Absent, Output

_PACE_MS = 150
_HINT = "Measure this point: the loop begins with the first measured time."
_NO_FURTHER = "No measurement is proposed: repeat this point to watch the board."


class LoopView(Measuring):
    """Alarm, residuals over time, detector, correction by term, before and after."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store = store
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("State of the loop")
        self.next = label("", "secondary", wrap=True)
        self.next.setAccessibleName("Next measurement")
        self.go, self.here = QPushButton("Measure it"), QPushButton("Measure this point")
        self.go.setObjectName("loop.next")
        self.go.setAccessibleName("Go to the proposed point and measure it")
        self.here.setObjectName("loop.here")
        self.here.setAccessibleName("Measure the current point again")
        self.go.clicked.connect(self._measure_proposed)
        self.here.clicked.connect(lambda: self.proposed.emit(store.point))
        self.residuals = ChartCard(theme, "loop.residuals", "Residual")
        self.detector = ChartCard(theme, "loop.detector", "Detector")
        self._terms, self.term_labels = QGridLayout(), list[tuple[QLabel, ...]]()
        self._both, self.both_labels = QGridLayout(), list[tuple[QLabel, ...]]()
        self.tables = CardGrid([self._terms_card(), self._both_card()])
        self.charts = CardGrid([self.residuals, self.detector])
        for card in (self.residuals, self.detector):
            card.setMinimumHeight(230)
        self.compensation = CompensationCard(store)
        self._space = QWidget()  # in place of the charts while there are none
        super().__init__("loop", "Loop", [self._top(), self.tables, self.compensation, self.charts, self._space])
        self.compensation.commanded.connect(self.commanded)
        self.follow(store, _concerns, self.refresh, _PACE_MS)

    def _top(self) -> Card:
        card = Card()
        card.body.addWidget(self.sentence)
        card.body.addWidget(self.next)
        card.body.addLayout(row(self.go, self.here, 1))
        card.body.addStretch(1)
        return card

    def _terms_card(self) -> Card:
        card = _table("Correction by term", self._terms, (2, 1, 0))
        card.body.insertWidget(
            1, label("Time of each term now if it alone moved, and the odds of that.", "dim", wrap=True)
        )
        return card

    def _both_card(self) -> Card:
        return _table("Decode time of this point", self._both, (2, 1))

    def _measure_proposed(self) -> None:
        if self._store.proposal is not None:
            self.proposed.emit(self._store.proposal[0])

    # ---- what the store says

    def refresh(self) -> None:
        """Show the loop of the board."""
        store = self._store
        loop = None if store.not_measured_here else store.loop
        busy = store.calibration.busy if loop is not None and store.calibration is not None else ""
        set_text(self.sentence, store.not_measured_here or state_sentence(loop, busy))
        set_role(self.sentence, "bad" if loop is not None and warning(store) else "")
        self._show_next(loop)
        self.tables.setVisible(loop is not None)
        self.charts.setVisible(loop is not None)
        self._space.setVisible(loop is None)
        if loop is not None:
            self.residuals.show_chart(residual_chart(loop))
            self.detector.show_chart(detector_chart(loop))
            _show(self._terms, self.term_labels, term_rows(loop))
            _show(self._both, self.both_labels, self._before_and_after())
        self.compensation.refresh()

    def _show_next(self, loop: Loop | None) -> None:
        store = self._store
        proposal = store.proposal if loop is not None else None
        words = NOTHING if store.not_measured_here else _HINT
        if loop is not None:
            words = _NO_FURTHER if proposal is None else f"Next: {proposal[1].replace('alpha ', 'α ')}."
        set_text(self.next, words if not store.not_measured_here else "")
        self.next.setVisible(not store.not_measured_here)
        self.go.setVisible(proposal is not None)
        refused = store.not_measurable
        self.here.setEnabled(not refused)
        self.here.setToolTip(refused or "Run this point on the board and measure it")
        self.go.setEnabled(store.link.state == "attached")

    def _before_and_after(self) -> list[tuple[str, str]]:
        before, after = before_and_after(self._store)
        return [
            ("calibrated", _text(before)),
            ("corrected by the newest measurements", _text(after)),
            ("measured last", _text(self._store.measured("decode_s"))),
        ]


def _text(output: Output) -> str:
    if isinstance(output, Absent):
        return output.reason
    return str(estimate_text(float(output.median), float(output.q05), float(output.q95), "s"))


def _table(title: str, grid: QGridLayout, stretch: tuple[int, ...]) -> Card:
    card = Card()
    card.body.addWidget(label(title, "heading"))
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(4)
    for column, share in enumerate(stretch):
        grid.setColumnStretch(column, share)
    card.body.addLayout(grid)
    card.body.addStretch(1)
    return card


def _show(grid: QGridLayout, labels: list[tuple[QLabel, ...]], rows: Sequence[tuple[str, ...]]) -> None:
    """Write rows into the labels of a grid, made once."""
    while len(labels) < len(rows):
        made = tuple(label("", "dim" if i == 0 else "secondary") for i in range(len(rows[0])))
        for column, part in enumerate(made):
            grid.addWidget(part, len(labels), column, Qt.AlignmentFlag.AlignTop)
        labels.append(made)
    for parts, texts in zip(labels, rows, strict=True):
        for part, text in zip(parts, texts, strict=True):
            set_text(part, text)
        parts[1].setAccessibleName(texts[0])


def _concerns(path: str) -> bool:
    return path in ("calibration", "prediction", "measurements", "link", "point.weights")
