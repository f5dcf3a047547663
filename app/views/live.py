"""The live view: latency, power and accuracy against time, as the point changes and as measurements land.

Time runs in seconds before the right edge. Pause holds the view while everything is still recorded; so does dragging
into the past. Zoom and the crosshair work while it runs.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QPushButton, QVBoxLayout, QWidget

from app.model.conductor import Conductor
from app.model.store import Store
from app.views.format import number_text, quantity_text
from app.views.live_card import LiveCard
from app.views.quantities import LATENCY, POWER, TOP1, Quantity
from app.views.theme import GAP, Theme
from app.views.widgets import Card, ElidedLabel, label, row, set_text
from core.spec import Estimate

Floats = NDArray[np.float64]

FRAME_MS = 33
SPAN_S = 60.0
_SAME_SPAN_FRAC = 1e-6


class Live(QWidget):
    """Three linked cards over time, the row that drives them, and the crosshair's table."""

    def __init__(self, store: Store, conductor: Conductor, theme: Theme, pause: QAction) -> None:
        super().__init__()
        self.setObjectName("live")
        self._store, self._conductor = store, conductor
        self._began_s = self._origin_s = time.monotonic()
        self._at: float | None = None
        self._n_measurements, self._measured_at = -1, np.empty(0)
        self.cards = [LiveCard(store, theme, quantity) for quantity in (LATENCY, POWER, TOP1)]
        self._build(pause)
        for card in self.cards:
            card.remember(self._began_s)
            card.plot.pointed.connect(self._pointed)
            card.plot.moved.connect(self._moved)
            card.plot.double_clicked.connect(self.run_on)
        for card in self.cards[1:]:
            card.plot.setXLink(self.cards[0].plot)
        self._frame = QTimer(self, interval=FRAME_MS)
        self._frame.timeout.connect(self._tick)
        store.changed.connect(self._on_changed)
        self._set_range(-SPAN_S, 0.0)

    def _build(self, pause: QAction) -> None:
        self._state = ElidedLabel("dim")
        self._pause, self._live = QPushButton("Pause"), QPushButton("Live")
        self._pause.setAccessibleName("Pause the view; recording goes on")
        self._pause.setToolTip("Hold the view; recording goes on (Space)")
        self._pause.clicked.connect(pause.trigger)
        self._live.setAccessibleName("Return to the live edge")
        self._live.setToolTip("Run again at the newest values, over the last minute")
        self._live.clicked.connect(self.run_on)
        line = row(self._state, self._pause, self._live, spacing=8)
        line.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.setSpacing(GAP)
        layout.addLayout(line)
        for card in self.cards:
            layout.addWidget(card, 1)
        layout.addWidget(self._make_table())

    def _make_table(self) -> Card:
        table, grid = Card(), QGridLayout()
        self._head = label("At the right edge", "dim")
        self._cells: list[tuple[ElidedLabel, ElidedLabel]] = []
        grid.addWidget(self._head, 0, 0)
        grid.addWidget(label("predicted", "dim"), 1, 0)
        grid.addWidget(label("measured", "dim"), 2, 0)
        grid.setColumnMinimumWidth(0, 90)
        for i, card in enumerate(self.cards, start=1):
            cells = ElidedLabel("secondary"), ElidedLabel("secondary")
            head = ElidedLabel("dim")
            head.setText(card.quantity.title)
            grid.addWidget(head, 0, i)
            for k, (cell, word) in enumerate(zip(cells, ("predicted", "measured"), strict=True), start=1):
                cell.setAccessibleName(f"{card.quantity.title} at the pointer, {word}")
                grid.addWidget(cell, k, i)
            grid.setColumnStretch(i, 1)
            self._cells.append(cells)
        table.setObjectName("live.readout")
        table.body.addLayout(grid)
        return table

    # ---- time

    @property
    def _following(self) -> bool:
        return not self._store.get("paused")

    def _set_range(self, left: float, right: float) -> None:
        self._range = (left, right)
        self.cards[0].plot.show_ranges((left, right), self.cards[0].plot.box.viewRange()[1])

    def _moved(self) -> None:
        """Follow a zoom or a pan by hand: a zoom while following keeps the live edge, a pan holds the view."""
        left, right = self.cards[0].plot.x_range
        have = self._range[1] - self._range[0]
        if self._following and abs(right - left - have) > _SAME_SPAN_FRAC * have:
            left, right = left - right, 0.0
        elif self._following:
            self._store.set("paused", True)
        self._set_range(left, right)
        self._draw()

    def run_on(self) -> None:
        """Return to the live edge and the last minute."""
        self._store.set("paused", False)
        self._set_range(-SPAN_S, 0.0)
        self._tick()

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path == "prediction":
            now_s = time.monotonic()
            for card in self.cards:
                card.remember(now_s)
        elif path == "paused":
            self._show_state()
            self._tick()

    def _tick(self) -> None:
        if self._following:
            self._origin_s = time.monotonic()
        elif self._n_measurements == len(self._store.measurements):
            return
        self._draw()

    def _draw(self) -> None:
        if not self.isVisible():
            return
        now_s = time.monotonic()
        self._place_measurements(now_s)
        left, right = self.cards[0].plot.x_range
        for card in self.cards:
            trace = self._trace(left, right) if card.quantity is POWER else (np.empty(0), np.empty(0))
            card.show_time(self._origin_s, now_s, self._rows(card.quantity), trace)
            card.show_now()
        self._show_reading()

    def _place_measurements(self, now_s: float) -> None:
        """Put each measurement on this machine's monotonic clock; done anew only when one is added."""
        measurements = self._store.measurements
        if len(measurements) == self._n_measurements:
            return
        self._n_measurements = len(measurements)
        utc = datetime.now(UTC)
        ages = [(utc - datetime.fromisoformat(m.time_utc)).total_seconds() for m in measurements]
        self._measured_at = now_s - np.array(ages, dtype=float)
        self._by_output: dict[str, Floats] = {}

    def _rows(self, quantity: Quantity) -> Floats:
        if quantity.output not in self._by_output:
            found = []
            for t_s, measurement in zip(self._measured_at, self._store.measurements, strict=True):
                output = measurement.output(quantity.output)
                if isinstance(output, Estimate):
                    found.append((t_s, float(output.median), float(output.q05), float(output.q95)))
            self._by_output[quantity.output] = np.array(found, dtype=float).reshape(-1, 4).T
        return self._by_output[quantity.output]

    def _trace(self, left: float, right: float) -> tuple[Floats, Floats]:
        """Return the sensor's power in the view, where the board has one."""
        channels = self._store.link.channels
        key = next((c.key for c in channels if c.unit == "W" and not c.absent), "")
        if not key:
            return np.empty(0), np.empty(0)
        until_s = self._origin_s + right
        t, y = self._conductor.history.series(channels, key, right - left, until_s)
        return t + right, y

    # ---- words

    def _pointed(self, x: float | None) -> None:
        self._at = x
        for card in self.cards:
            card.point_at(x)
        self._show_reading()

    def _show_reading(self) -> None:
        at = 0.0 if self._at is None else self._at
        set_text(self._head, "Now" if self._at is None and self._following else f"{number_text(at, 1)} s")
        for card, cells in zip(self.cards, self._cells, strict=True):
            for cell, text in zip(cells, card.reading(self._origin_s + at), strict=True):
                set_text(cell, text)

    def _show_state(self) -> None:
        ago = time.monotonic() - self._origin_s
        held = f"Held {quantity_text(ago, 's', 2)} ago; recording goes on. "
        text = f"{'' if self._following else held}Time in seconds before the right edge; wheel zooms, drag pans."
        set_text(self._state, text)
        self._pause.setText("Pause" if self._following else "Run")

    def showEvent(self, event: QShowEvent) -> None:
        """Run while it can be seen."""
        super().showEvent(event)
        self._frame.start()
        self._show_state()
        self._tick()

    def hideEvent(self, event: QHideEvent) -> None:
        """Draw nothing while it cannot be seen."""
        super().hideEvent(event)
        self._frame.stop()
