"""One quantity against time: what was predicted when, what was measured, and the sensor's trace."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent, QWheelEvent

from app.model.store import Store
from app.views.figure import Figure
from app.views.format import display_unit, estimate_text, number_text
from app.views.layers import DASHES, Band, Curve, Marks, Rule, steps
from app.views.quantities import WORDS, Quantity
from app.views.theme import Theme
from app.views.ticks import Scale
from app.views.widgets import Card, ElidedLabel, label, row, set_text
from core.spec import Absent, Estimate, Provenance

Floats = NDArray[np.float64]

KEPT = 20_000  # predictions kept: an hour of steady dragging
_MERGE_S = 0.03  # predictions closer than this are one
_COLUMNS = 1200  # at most two points of a trace for each


def thinned(t: Floats, y: Floats, n_columns: int = _COLUMNS) -> tuple[Floats, Floats]:
    """Return at most two points a column of the screen: the least and the largest of each, in their order."""
    size = len(y) // n_columns
    if size < 2:
        return t, y
    n = size * n_columns
    blocks = y[:n].reshape(n_columns, size)
    filled = np.where(np.isfinite(blocks), blocks, -np.inf), np.where(np.isfinite(blocks), blocks, np.inf)
    first = np.arange(n_columns) * size
    picks = np.sort(np.stack((first + filled[1].argmin(axis=1), first + filled[0].argmax(axis=1))), axis=0)
    keep = np.concatenate((picks.T.ravel(), np.arange(n, len(y))))
    return t[keep], y[keep]


class Past:
    """What was predicted when, for one quantity."""

    def __init__(self) -> None:
        self._rows: deque[tuple[float, float, float, float, Provenance]] = deque(maxlen=KEPT)

    def add(self, t_s: float, output: Estimate) -> None:
        """Append a prediction; one that follows another at once replaces it."""
        if self._rows and t_s - self._rows[-1][0] < _MERGE_S:
            self._rows.pop()
        median, low, high = (float(value) for value in (output.median, output.q05, output.q95))
        self._rows.append((t_s, median, low, high, output.provenance))

    def arrays(self, until_s: float) -> Floats:
        """Return rows (time, median, q05, q95) of shape (4, n), the last one held until `until_s`."""
        rows = [row[:4] for row in self._rows]
        if rows:
            rows.append((max(until_s, rows[-1][0]), *rows[-1][1:]))
        return np.array(rows, dtype=float).reshape(-1, 4).T

    @property
    def provenance(self) -> Provenance:
        """Where the newest prediction comes from."""
        return self._rows[-1][4] if self._rows else Provenance.PREDICTED


class TimeFigure(Figure):
    """A figure over time: the wheel zooms, a drag pans."""

    zoomed = Signal(float, float)  # factor, and the plot position it is asked at
    panned = Signal(float)  # seconds
    double_clicked = Signal()

    def __init__(self, theme: Theme, path: str, name: str) -> None:
        super().__init__(theme, path, name)
        self._grabbed: float | None = None
        self.bottom = Scale("s")

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom the time axis."""
        turned = event.angleDelta().y()
        if turned:
            self.zoomed.emit(1.2 ** (-turned / 120), self.x_at(event.position()))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the time axis."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._grabbed = self.x_at(event.position())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Pan while held, and point."""
        x = self.x_at(event.position())
        if self._grabbed is not None:
            self.panned.emit(self._grabbed - x)
            x = self._grabbed
        self.pointed.emit(x)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        self._grabbed = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask to run again."""
        self.double_clicked.emit()


class LiveCard(Card):
    """One quantity over time."""

    def __init__(self, store: Store, theme: Theme, quantity: Quantity) -> None:
        super().__init__()
        self.setObjectName(f"live.{quantity.output}")
        self.quantity, self._store, self._theme = quantity, store, theme
        self.past = Past()
        self.plot = TimeFigure(theme, f"plot.live.{quantity.output}", f"{quantity.title} over time")
        self.plot.left = Scale(quantity.unit)
        self._unit, self._now = label("", "dim"), ElidedLabel("dim", Qt.AlignmentFlag.AlignRight)
        self.body.setSpacing(4)
        line = row(label(quantity.title, "heading"), self._unit, self._now)
        line.setStretch(2, 1)
        self.body.addLayout(line)
        self.body.addWidget(self.plot, 1)
        self._band = self.plot.add(Band())
        self._line = self.plot.add(Curve("accent"))
        self._trace = self.plot.add(Curve("measured"))
        self._bound = self.plot.add(Rule("bad", Qt.PenStyle.DashDotDotLine, vertical=False, opacity=0.7))
        self._marks = self.plot.add(Marks())
        self._cross = self.plot.add(Rule("dim", Qt.PenStyle.SolidLine, vertical=True))
        self._cross.visible = False
        self._predicted = np.empty((4, 0))
        self._measured = np.empty((4, 0))

    def remember(self, t_s: float) -> None:
        """Keep what is predicted now."""
        output = getattr(self._store.prediction, self.quantity.output)
        if isinstance(output, Estimate):
            self.past.add(t_s, output)

    def show_time(self, origin_s: float, now_s: float, measured: Floats, trace: tuple[Floats, Floats]) -> None:
        """Draw everything, times relative to `origin_s`; `measured` has rows (time, median, q05, q95)."""
        self._predicted, self._measured = self.past.arrays(now_s), measured
        t, y, low, high = self._seen(origin_s)
        line_t, line_y = steps(t, y)
        self._line.set_data(line_t, line_y, DASHES[self.past.provenance])
        self._band.set_data(*steps(t, low, high))
        self._marks.set_data(measured[0] - origin_s, *measured[1:])
        self.plot.message = "" if len(t) or measured.size or len(trace[0]) else self._reason()
        self._trace.set_data(*thinned(*trace))
        limit = self._store.get(self.quantity.limit)
        self._bound.visible, self._bound.at = limit is not None, np.nan if limit is None else limit
        left, right = self.plot.x_range
        inside = (measured[0] - origin_s >= left) & (measured[0] - origin_s <= right)
        q = self.quantity
        self.plot.cover_y((low, high, *(part[inside] for part in measured[1:]), trace[1]), q.least, q.most)
        self.plot.update()
        set_text(self._unit, display_unit(q.unit, self.plot.reference).text)

    def _reason(self) -> str:
        output = getattr(self._store.prediction, self.quantity.output)
        return f"Not predicted: {output.reason}" if isinstance(output, Absent) else ""

    def _seen(self, origin_s: float) -> Floats:
        """Return the predictions in the view, times relative to `origin_s`, with the one that reaches into it."""
        left, right = self.plot.x_range
        t = self._predicted[0] - origin_s
        first = max(int(np.searchsorted(t, left)) - 1, 0)
        last = int(np.searchsorted(t, right, side="right")) + 1
        seen = self._predicted[:, first:last].copy()
        seen[0] -= origin_s
        return seen

    def show_now(self) -> None:
        """Say what is predicted and measured now."""
        q, store, like = self.quantity, self._store, self.plot.reference
        parts = []
        for output in (store.measured(q.output), getattr(store.prediction, q.output)):
            if isinstance(output, Estimate):
                parts.append(f"{WORDS[output.provenance]} {q.text(output, like)}")
            else:
                parts.append(output.reason)
        set_text(self._now, "   ".join(parts))

    def point_at(self, x: float | None) -> None:
        """Show or hide the crosshair."""
        self._cross.visible, self._cross.at = x is not None, np.nan if x is None else x
        self.plot.update()

    def reading(self, t_s: float) -> tuple[str, str]:
        """Return what was predicted at a time, and the measurement nearest to it."""
        p, m = self._predicted, self._measured
        i = int(np.searchsorted(p[0], t_s, side="right")) - 1
        predicted = self._words(p[1:, i]) if i >= 0 else "–"
        if not m.shape[1]:
            return predicted, "–"
        j = int(np.argmin(np.abs(m[0] - t_s)))
        ago = number_text(m[0, j] - t_s, 1)
        return predicted, f"{self._words(m[1:, j])} ({ago} s)"

    def _words(self, values: Floats) -> str:
        median, low, high = values.tolist()
        return str(estimate_text(median, low, high, self.quantity.unit))
