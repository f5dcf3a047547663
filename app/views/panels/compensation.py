"""The card of compensation in the loop view: accuracy and decode time without and with it, and the live set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QSizePolicy

from app.model.store import Store
from app.text.compensation_text import (
    AGAINST,
    HEADINGS,
    PUBLISHED,
    effect_of,
    installed_sentence,
    live_sentence,
    measured_at,
    rows,
    summary,
)
from app.views.widgets.common import Card, label, row, set_text, set_tip

NOTHING = "Not measured yet: Compensate makes a parameter set, installs it and measures without and with it."
_SHORT = (1, 2)
"""Columns whose intervals are in the tip."""


class CompensationCard(Card):
    """Before and after of the newest compensation, best of the weight format on the screen."""

    commanded = Signal(str)  # key of a command of the window

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.setObjectName("loop.compensation")
        self.setAccessibleName("Compensation of quantised weights")
        self.summary = label("", wrap=True, selectable=True)
        self.summary.setAccessibleName("Effect of compensation")
        self.at, self.how, self.live, self.published = (label("", "dim", wrap=True) for _ in range(4))
        self.live.setAccessibleName("Live parameter set")
        set_text(self.published, f"{AGAINST} {PUBLISHED}")
        self.go, self.back = QPushButton("Compensate"), QPushButton("Roll back")
        for button, key, name in (
            (self.go, "compensate", "Make a parameter set for these weights, install it and measure its effect"),
            (self.back, "rollback", "Restore the parameter set that was live before, or none"),
        ):
            button.setObjectName(f"loop.{key}")
            button.setAccessibleName(name)
            button.clicked.connect(lambda _checked=False, k=key: self.commanded.emit(k))
        self._grid, self.labels = QGridLayout(), list[tuple[QLabel, ...]]()
        self._grid.setHorizontalSpacing(10)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(len(HEADINGS), 1)
        self.body.addWidget(label("Compensation of quantised weights", "heading"))
        self.body.addWidget(self.summary)
        self.body.addWidget(self.at)
        self.body.addLayout(self._grid)
        for part in (self.published, self.how, self.live):
            self.body.addWidget(part)
        self.body.addLayout(row(self.go, self.back, 1))

    def refresh(self) -> None:
        """Show the newest effect that was measured, and what is live."""
        store = self._store
        measurement = effect_of(store.measurements, store.point.weights)
        found: Mapping[str, Any] | None = None if measurement is None else measurement.body["compensation"]
        set_text(self.summary, NOTHING if found is None else summary(found))
        set_text(self.at, "" if measurement is None else measured_at(measurement))
        set_text(self.how, "" if found is None else installed_sentence(found))
        hello = store.link.hello
        set_text(self.live, live_sentence(hello.get("parameters") or {}) if hello else "")
        for part in (self.at, self.how, self.live):
            part.setVisible(bool(part.text()))
        self.published.setVisible(found is not None)
        self._show([] if found is None else [HEADINGS, *rows(found)])
        refused = store.not_measurable
        self.go.setEnabled(not refused and store.point.weights != "fp32")
        self.go.setToolTip(refused or "Make a parameter set, install it, measure without and with it: some minutes")
        self.back.setEnabled(store.link.state == "attached" and (hello.get("parameters") or {}).get("crc") is not None)

    def _show(self, table: list[tuple[str, ...]]) -> None:
        while len(self.labels) < len(table):
            made = tuple(label("", "secondary" if column and self.labels else "dim") for column in range(len(HEADINGS)))
            for column, part in enumerate(made):
                part.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # never cut at the foot
                self._grid.addWidget(part, len(self.labels), column)
            self.labels.append(made)
        for i, parts in enumerate(self.labels):
            for column, part in enumerate(parts):
                part.setVisible(i < len(table))
                if i < len(table):
                    text = table[i][column]
                    set_text(part, text.partition(" [")[0] if column in _SHORT else text)
                    set_tip(part, text if column in _SHORT else "")
                    part.setAccessibleName(f"{table[i][0]} {HEADINGS[column]}".strip())
