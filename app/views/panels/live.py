"""The live view: latency, power, accuracy and the board's temperatures against time, as measurements land.

Time runs in seconds before the right edge. Pause holds the view while everything is still recorded; so does dragging
into the past. Zoom and the crosshair work while it runs. What was measured at another point than was on the screen
then, such as those of a calibration, is a small grey dot: the prediction beside it is not its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction, QHideEvent, QShowEvent, QUndoStack
from PySide6.QtWidgets import QGridLayout, QPushButton, QVBoxLayout, QWidget

from app.library.measurements import Measurement
from app.measurement_body import moment
from app.model.conductor import Conductor
from app.model.measured_points import point_key
from app.model.store import Store
from app.text.format import number_text, quantity_text
from app.text.quantities import LATENCY, POWER, TOP1, WORDS, Quantity, measured_as
from app.views.panels.markers import Markers, power_between
from app.views.widgets.common import Card, ElidedLabel, label, row, set_text
from app.views.widgets.live_card import KEPT, LiveCard
from app.views.widgets.live_card import SPAN_S as SHOWN_S
from app.views.widgets.sensor_card import MOST, SensorCard
from app.views.widgets.theme import GAP, Theme
from core.spec import Estimate, Provenance

Floats = NDArray[np.float64]

FRAME_MS = 33
SPAN_S = 60.0
_SAME_SPAN_FRAC = 1e-6
_NEAR_PX = 6
_EDGE_SAMPLES_S = 2.0  # beyond the markers, so that their edges are interpolated
_ROWS = (
    "at the pointer, by the model",
    "at the pointer, measured",
    "at the pointer, by the sensor",
    "between the markers",
)


class Live(QWidget):
    """Three linked cards over time, the row that drives them, and the crosshair's table."""

    def __init__(self, store: Store, conductor: Conductor, stack: QUndoStack, theme: Theme, pause: QAction) -> None:
        super().__init__()
        self.setObjectName("live")
        self._store, self._conductor = store, conductor
        self._origin_s = conductor.history.now_s()
        self._at: float | None = None
        self._hello: Mapping[str, Any] = store.link.hello  # a board that was attached before this view was made
        self._n_measurements, self._measured_at, self._own = -1, np.empty(0), np.empty(0, dtype=bool)
        self._points: deque[tuple[float, object]] = deque(maxlen=KEPT)  # on the screen, since when
        self.cards = [LiveCard(store, theme, quantity) for quantity in (LATENCY, POWER, TOP1)]
        self.heat = SensorCard(theme, "degC", "Temperature")
        self.heat.hide()  # until a board has a sensor
        self.markers = Markers(self.cards, lambda: self._origin_s, store, stack)
        self.markers.changed.connect(self._show_reading)
        self.markers.zoom_wanted.connect(self._zoom)
        self._build(pause)
        self._show_provenance()
        self._remember()
        for card in self.cards:
            card.plot.pointed.connect(self._pointed)
            card.plot.moved.connect(self._moved)
            card.plot.double_clicked.connect(self.run_on)
        self.heat.plot.pointed.connect(self._pointed)
        self.heat.plot.moved.connect(self._moved)
        for plot in (*(card.plot for card in self.cards[1:]), self.heat.plot):
            plot.setXLink(self.cards[0].plot)
        self._frame = QTimer(self, interval=FRAME_MS)
        self._frame.timeout.connect(self._tick)
        store.changed.connect(self._on_changed)
        self._set_range(-SPAN_S, 0.0)

    def _build(self, pause: QAction) -> None:
        self._state = ElidedLabel("dim")
        self._pause, self._live = QPushButton("Pause"), QPushButton("Live")
        self._pause.setObjectName("live.pause")
        self._live.setObjectName("live.run_on")
        self._pause.setAccessibleName("Pause the view; recording continues")
        self._pause.setToolTip("Freeze the view; recording continues (Space)")
        self._pause.clicked.connect(pause.trigger)
        self._live.setAccessibleName("Return to the live edge")
        self._live.setToolTip("Show the newest values again, over the last minute")
        self._live.clicked.connect(self.run_on)
        self._marks = QPushButton("Markers")
        self._marks.setObjectName("live.markers")
        self._marks.setCheckable(True)
        self._marks.setAccessibleName("Markers A and B")
        self._marks.setToolTip("Two markers: time, means and energy between them (M)")
        self._marks.clicked.connect(self.markers.toggle)
        self.markers.changed.connect(lambda: self._marks.setChecked(self.markers.shown))
        line = row(self._state, self.markers.bar, self._marks, self._pause, self._live, spacing=8)
        line.setStretch(0, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.setSpacing(GAP)
        layout.addLayout(line)
        for card in self.cards:
            layout.addWidget(card, 1)
        layout.addWidget(self.heat, 1)
        layout.addWidget(self._make_table())

    def _make_table(self) -> Card:
        table, grid = Card(), QGridLayout()
        self._head = label("At the right edge", "dim")
        self._between = label("", "dim")
        self._cells: list[tuple[ElidedLabel, ...]] = []
        grid.addWidget(self._head, 0, 0)
        grid.addWidget(label("model", "dim"), 1, 0)
        self._measured = label("measured", "dim")
        grid.addWidget(self._measured, 2, 0)
        self._sensor = label("sensor", "dim")
        grid.addWidget(self._sensor, 3, 0)
        grid.addWidget(self._between, 4, 0)
        grid.setColumnMinimumWidth(0, 90)
        for i, card in enumerate(self.cards, start=1):
            cells = tuple(ElidedLabel("secondary") for _ in _ROWS)
            head = ElidedLabel("dim")
            head.setText(card.quantity.short)
            grid.addWidget(head, 0, i)
            for k, (cell, word) in enumerate(zip(cells, _ROWS, strict=True), start=1):
                cell.setAccessibleName(f"{card.quantity.title} {word}")
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
            self._remember()
        elif path == "link" and self._store.link.hello is not self._hello:
            self._meet()
        elif path == "paused":
            self._show_state()
            self._tick()

    def _remember(self) -> None:
        """Keep the prediction; with a recording, the current one."""
        recording = self._hello.get("recording")
        since_s = self._conductor.history.now_s()
        if recording is not None:
            since_s = float(recording.get("t_ns", 0)) * 1e-9 - 1.0
        for card in self.cards:
            if recording is not None:
                card.forget()
            card.remember(since_s)
        if recording is not None:
            self._points.clear()
            self._n_measurements = -1
        point = point_key(self._store.point, self._store.catalogue)
        if not self._points or self._points[-1][1] != point:
            self._points.append((since_s, point))

    def _meet(self) -> None:
        """Start over with another board, whose clock may differ."""
        before, self._hello = self._hello, self._store.link.hello
        if bool(before.get("recording")) or bool(self._hello.get("recording")):
            self._n_measurements = -1
            for card in self.cards:
                card.forget()
            self._remember()
            self._store.set("paused", False)
        self._show_provenance()

    def _show_provenance(self) -> None:
        """Call and draw what the board says by where it comes from."""
        provenance = measured_as(self._hello)
        set_text(self._measured, WORDS[provenance])
        self.heat.origin = "" if provenance is Provenance.MEASURED else WORDS[provenance]
        for card in self.cards:
            card.plot.show_measured(provenance)

    def _tick(self) -> None:
        if self._following:
            self._origin_s = self._conductor.history.now_s()
        elif self._n_measurements == len(self._store.measurements):
            return
        self._draw()

    def _draw(self) -> None:
        if not self.isVisible():
            return
        now_s = self._conductor.history.now_s()
        self._place_measurements(now_s)
        left, right = self.cards[0].plot.x_range
        happened = np.array([mark.t_s for mark in self._conductor.tape.marks])
        for card in self.cards:
            trace = self._trace(left, right) if card.quantity is POWER else (np.empty(0), np.empty(0))
            rows, own = self._rows(card.quantity)
            card.show_time(self._origin_s, now_s, rows[:, own], rows[:2, ~own], trace, happened)
            card.show_now()
        self._draw_heat(left, right)
        self.markers.draw()
        self._show_reading()

    def _draw_heat(self, left: float, right: float) -> None:
        channels = self._store.link.channels
        keys = [c.key for c in channels if c.unit == self.heat.unit and not c.absent][:MOST]
        self.heat.setVisible(bool(keys))
        if keys:
            traces = [(key, *self._series(key, left, right)) for key in keys]
            self.heat.show_time(traces, right if self._at is None else self._at)

    def _place_measurements(self, now_s: float) -> None:
        """Put each measurement on the samples' clock; repeated only when one is added."""
        measurements = self._store.measurements
        if len(measurements) == self._n_measurements:
            return
        self._n_measurements = len(measurements)
        tape = self._conductor.tape
        utc = tape.now_utc()
        ages = np.array([(utc - moment(m.time_utc)).total_seconds() for m in measurements], dtype=float)
        if tape.position is None:  # the date may have stepped back since
            ages = np.maximum(ages, 0.0)
        self._measured_at = now_s - ages
        self._own = np.array([self._was_shown(*one) for one in zip(self._measured_at, measurements, strict=True)])
        self._by_output: dict[str, tuple[Floats, NDArray[np.bool_]]] = {}

    def _was_shown(self, t_s: float, measurement: Measurement) -> bool:
        """Whether a measurement is of the point that was shown when it was made."""
        i = bisect_right(self._points, t_s, key=itemgetter(0))
        return self._points[max(i - 1, 0)][1] == point_key(measurement.point, self._store.catalogue)

    def _rows(self, quantity: Quantity) -> tuple[Floats, NDArray[np.bool_]]:
        """Return rows (time, median, q05, q95) of an output, (4, n), and which are of the point shown then, (n,)."""
        if quantity.output not in self._by_output:
            found = []
            for t_s, own, measurement in zip(self._measured_at, self._own, self._store.measurements, strict=True):
                output = measurement.output(quantity.output)
                if isinstance(output, Estimate):
                    found.append((t_s, float(output.median), float(output.q05), float(output.q95), float(own)))
            rows = np.array(found, dtype=float).reshape(-1, 5).T
            self._by_output[quantity.output] = rows[:4], rows[4] > 0
        return self._by_output[quantity.output]

    def _trace(self, left: float, right: float) -> tuple[Floats, Floats]:
        """Return the sensor's power between two plotted times, where the board has one."""
        channels = self._store.link.channels
        key = next((c.key for c in channels if c.unit == "W" and not c.absent), "")
        if not key:
            return np.empty(0), np.empty(0)
        return self._series(key, left, right)

    def _series(self, key: str, left: float, right: float) -> tuple[Floats, Floats]:
        """Return the samples of a channel between two plotted times."""
        channels = self._store.link.channels
        t, y = self._conductor.history.series(channels, key, right - left, self._origin_s + right)
        return t + right, y

    # ---- words

    def _pointed(self, x: float | None) -> None:
        self._at = x
        for card in self.cards:
            card.point_at(x)
        self.heat.point_at(x)
        self._show_reading()

    def _show_reading(self) -> None:
        at = 0.0 if self._at is None else self._at
        head = "Now" if self._at is None and self._following else f"{number_text(at, 1)} s"
        set_text(self._head, self._happened_at(at) or head)
        for card, cells in zip(self.cards, self._cells, strict=True):
            sensed = card.sensor_reading(at) if card.quantity is POWER else ""
            texts = (*card.reading(self._origin_s + at), sensed, self._between_text(card))
            for cell, text in zip(cells, texts, strict=True):
                set_text(cell, text)
        set_text(self._between, f"A to B, {quantity_text(self.markers.delta_s, 's')}" if self.markers.shown else "")

    def _between_text(self, card: LiveCard) -> str:
        if not self.markers.shown:
            return ""
        low_s, high_s = sorted(self.markers.times)
        if card.quantity is not POWER:
            return card.between(low_s, high_s)
        margin_s = _EDGE_SAMPLES_S
        t, y = self._trace(low_s - margin_s - self._origin_s, high_s + margin_s - self._origin_s)
        return power_between(t + self._origin_s, y, low_s, high_s)

    def _happened_at(self, x: float) -> str:
        """Return the link event near a plotted time, where the pointer is on its line."""
        if self._at is None:
            return ""
        near_s = _NEAR_PX * float(self.cards[0].plot.box.viewPixelSize()[0])
        marks = self._conductor.tape.marks
        found = next((mark for mark in marks if abs(mark.t_s - self._origin_s - x) <= near_s), None)
        return "" if found is None else f"{number_text(x, 1)} s: {found.text}"

    def _zoom(self, left: float, right: float) -> None:
        """Hold the view on what lies between the markers."""
        margin = max(0.05 * (right - left), 0.5 * (SHOWN_S[0] - (right - left)))
        self._store.set("paused", True)
        self._set_range(left - margin, right + margin)
        self._draw()

    def _show_state(self) -> None:
        ago = self._conductor.history.now_s() - self._origin_s
        held = f"Paused {quantity_text(ago, 's', 2)} ago; recording continues. "
        text = f"{'' if self._following else held}Seconds before the right edge; wheel zooms, drag pans."
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
