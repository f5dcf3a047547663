"""One quantity against time: what was predicted when, what was measured, and the sensor's trace."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QMouseEvent

from app.model.store import Store
from app.text.format import DASH, EstimateText, brief, display_unit, estimate_text, number_text, quantity_text
from app.text.quantities import N_MOST, WORDS, Quantity
from app.views.widgets.common import Card, ElidedLabel, PlotSpace, label, row, set_text
from app.views.widgets.curve_data import Floats, held_range, within_reach
from app.views.widgets.marks import DASHES
from app.views.widgets.plots import Band, Figure, Marks, in_pen, line_pen, rule, show_rule
from app.views.widgets.theme import Palette, Theme
from core.spec import Absent, Estimate, Provenance

SPAN_S = (5.0, 3600.0)  # the shortest and the longest time shown
KEPT = 20_000  # predictions kept: an hour of steady dragging
_TALL = (-1e12, 1e12)  # beyond any value shown
_OTHER_PX = 4
_WIDE_FROM_PX = 520  # the width of a card that has room for intervals in its words
_TABLES_FROM_PX = 760  # and of one whose columns in the table below have
_WHILE_FRAC = 0.05  # of the time shown
_MERGE_S = 0.03  # predictions closer than this are one


class Past:
    """History of the prediction of one quantity."""

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
        """Provenance of the newest prediction."""
        return self._rows[-1][4] if self._rows else Provenance.PREDICTED


class TimePlot(Figure):
    """A plot over time: the wheel zooms, a drag pans, a double click asks to run again."""

    moved = Signal()  # by hand
    double_clicked = Signal()
    marker_moved = Signal(int, float)  # which, and where to
    marker_dropped = Signal()

    def __init__(self, theme: Theme, quantity: Quantity) -> None:
        super().__init__(theme, f"plot.live.{quantity.output}", f"{quantity.title} over time")
        self.provenance, self.marks_provenance = Provenance.PREDICTED, Provenance.MEASURED
        self.box.setMouseEnabled(x=True, y=False)
        self.box.setLimits(minXRange=SPAN_S[0], maxXRange=SPAN_S[1])
        self.box.sigRangeChangedManually.connect(lambda _: self.moved.emit())
        self.bottom.describe("s", 1.0)
        self.band = Band(self, step=True)
        self.line = self.add(pg.PlotCurveItem(connect="finite", stepMode="right"), self._color_line, "predicted")
        self.trace = self.add(pg.PlotDataItem(connect="finite"), self._color_trace, "sensor")
        self.trace.setDownsampling(auto=True, method="peak")  # the least and the largest sample of each column
        self.trace.setClipToView(True)
        self.bound = self.add(rule(0), in_pen("bad", Qt.PenStyle.DashDotDotLine, 0.7))
        self.happened = self.add(pg.PlotCurveItem(connect="pairs"), in_pen("bad", Qt.PenStyle.DotLine))
        self.others = self.add(pg.ScatterPlotItem(size=_OTHER_PX), _color_other, "measured at another point")
        self.marks = Marks(self)
        self.named["measured"] = self.marks.dots
        self.cross = self.add(rule(90), in_pen("dim"))
        self.cross.hide()
        self.markers = [self._marker(name) for name in "AB"]

    def _marker(self, name: str) -> Any:
        """Make a line that can be dragged, with its letter at the foot."""
        line = pg.InfiniteLine(angle=90, movable=True, label=name, labelOpts={"position": 0.06, "movable": False})
        line.setHoverPen(line_pen(self.palette_, "text"))
        line.hide()
        i = "AB".index(name)
        line.sigDragged.connect(lambda moved: self.marker_moved.emit(i, float(moved.value())))
        line.sigPositionChangeFinished.connect(lambda _: self.marker_dropped.emit())
        return self.add(line, _color_marker)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Ask to run again."""
        super().mouseDoubleClickEvent(event)
        self.double_clicked.emit()

    def _color_line(self, item: pg.PlotCurveItem, palette: Palette) -> None:
        item.setPen(line_pen(palette, "accent", DASHES[self.provenance]))

    def _color_trace(self, item: pg.PlotDataItem, palette: Palette) -> None:
        item.setPen(line_pen(palette, "measured", DASHES[self.marks_provenance]))

    def show_measured(self, provenance: Provenance) -> None:
        """Draw what the board says by where it comes from: a simulated one is hollow and dashed."""
        if provenance is not self.marks_provenance:
            self.marks_provenance = provenance
            self._color_trace(self.trace, self.palette_)
            self.marks.show_provenance(provenance)

    def show_provenance(self, provenance: Provenance) -> None:
        """Draw the line of predictions by where the newest comes from."""
        if provenance is not self.provenance:
            self.provenance = provenance
            self._color_line(self.line, self._theme.palette)

    @property
    def x_range(self) -> tuple[float, float]:
        """The seconds shown."""
        left, right = self.box.viewRange()[0]
        return float(left), float(right)


def _lasted(t: Floats, span_s: float) -> NDArray[np.bool_]:
    """Return a mask (n,) of predictions that lasted: the newest, and those that no drag passed over."""
    return np.append(np.diff(t) >= _WHILE_FRAC * span_s, np.ones(min(len(t), 1), dtype=bool))


def _color_marker(item: pg.InfiniteLine, palette: Palette) -> None:
    item.setPen(line_pen(palette, "text", Qt.PenStyle.DashLine))
    item.label.setColor(palette.color("text"))
    item.label.fill = pg.mkBrush(palette.color("raised"))


def _color_other(item: pg.ScatterPlotItem, palette: Palette) -> None:
    item.setPen(None)
    item.setBrush(palette.color("dim"))


class LiveCard(Card):
    """One quantity over time."""

    def __init__(self, store: Store, theme: Theme, quantity: Quantity) -> None:
        super().__init__()
        self.setObjectName(f"live.{quantity.output}")
        self.quantity, self._store = quantity, store
        self.past = Past()
        self._y_range = (0.0, 1.0)
        self.plot, self._space = TimePlot(theme, quantity), PlotSpace()
        self._space.take(self.plot)
        self._unit, self._now = label("", "dim"), ElidedLabel("dim", Qt.AlignmentFlag.AlignRight)
        self.body.setSpacing(4)
        line = row(label(quantity.title, "heading"), self._unit, self._now)
        line.setStretch(2, 1)
        self.body.addLayout(line)
        self.body.addWidget(self._space, 1)
        self._predicted = np.empty((4, 0))
        self._measured = np.empty((4, 0))
        self._inside = np.empty(0, dtype=bool)
        self._trace = (np.empty(0), np.empty(0))

    def forget(self) -> None:
        """Let the past go: another board's clock begins."""
        self.past = Past()

    def remember(self, t_s: float) -> None:
        """Keep what is predicted now."""
        output = getattr(self._store.prediction, self.quantity.output)
        if isinstance(output, Estimate):
            self.past.add(t_s, output)

    def show_time(
        self,
        origin_s: float,
        now_s: float,
        measured: Floats,
        others: Floats,
        trace: tuple[Floats, Floats],
        happened: Floats,
    ) -> None:
        """Draw everything, times relative to `origin_s`; `measured` has rows (time, median, q05, q95), `others` (time,
        median) of points that were not on the screen, `happened` are the times of gaps and jumps of the clock.
        """
        self._predicted, self._measured = self.past.arrays(now_s), measured
        plot, (left, right) = self.plot, self.plot.x_range
        t, y, low, high = self._seen(origin_s)
        plot.show_provenance(self.past.provenance)
        plot.line.setData(t, y)
        plot.band.set_data(t, low, high)
        plot.marks.set_data(measured[0] - origin_s, *measured[1:])
        plot.others.setData(others[0] - origin_s, others[1])
        plot.trace.setData(*trace)
        self._trace = trace
        plot.happened.setData(np.repeat(happened - origin_s, 2), np.tile(_TALL, happened.size))
        show_rule(plot.bound, self._store.get(self.quantity.limit))
        message = "" if len(t) or measured.size or others.size or len(trace[0]) else self._reason()
        self._space.say(message)
        self._inside = inside = (measured[0] - origin_s >= left) & (measured[0] - origin_s <= right)
        q = self.quantity
        self._y_range = held_range(
            self._y_range,
            within_reach(
                (y[_lasted(t, right - left)], measured[1][inside], trace[1], low[-1:], high[-1:]),
                (y, low, high, *(m[inside] for m in measured[2:])),
            ),
            q.least,
            q.most,
        )
        plot.left.show_texts(not message)
        plot.left.describe(q.unit, self.reference)
        plot.show_ranges(None, self._y_range)
        set_text(self._unit, display_unit(q.unit, self.reference).text)

    @property
    def reference(self) -> float:
        """The number whose prefix all texts of the card take: the largest that the plot shows."""
        return max(map(abs, self._y_range))

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
        """Show the current prediction and measurement."""
        q, store, like = self.quantity, self._store, self.reference
        parts = []
        for output in (store.measured(q.output), getattr(store.prediction, q.output)):
            if isinstance(output, Estimate):
                text = q.text(output, like) if self._wide else q.figure(output, like)
                parts.append(f"{WORDS[output.provenance]} {self._said(text)}")
            else:
                parts.append(brief(output.reason))
        set_text(self._now, "   ".join(parts))

    def point_at(self, x: float | None) -> None:
        """Show or hide the crosshair."""
        show_rule(self.plot.cross, x)

    def reading(self, t_s: float) -> tuple[str, str]:
        """Return the prediction at a time, and the nearest measurement in view."""
        p, m = self._predicted, self._measured[:, self._inside]
        i = int(np.searchsorted(p[0], t_s, side="right")) - 1
        predicted = self._words(p[1:, i]) if i >= 0 else "–"
        if not m.shape[1]:
            return predicted, "–"
        j = int(np.argmin(np.abs(m[0] - t_s)))
        ago = number_text(m[0, j] - t_s, 1)
        return predicted, f"{self._words(m[1:, j])} ({ago} s)"

    def sensor_reading(self, x: float) -> str:
        """Return the sensor value at a plotted time."""
        t, y = self._trace
        i = int(np.searchsorted(t, x, side="right")) - 1
        return quantity_text(float(y[i]), self.quantity.unit) if i >= 0 and np.isfinite(y[i]) else DASH

    def between(self, low_s: float, high_s: float) -> str:
        """Return the mean of the measurements between two times of the samples' clock; DASH where there are none."""
        t, y = self._measured[:2]
        inside = y[(t >= min(low_s, high_s)) & (t <= max(low_s, high_s))]
        if not inside.size:
            return DASH
        return f"mean of {inside.size}: {quantity_text(float(inside.mean()), self.quantity.unit)}"

    def _words(self, values: Floats) -> str:
        median, low, high = values.tolist()
        text = estimate_text(median, low, high, self.quantity.unit, n_most=None if self._tables else N_MOST)
        return str(text) if self._tables else f"{text.value} {text.unit}".rstrip()

    def _said(self, text: EstimateText) -> str:
        """Return an estimate in words, in a narrow window without its interval: the band shows that."""
        return str(text) if self._wide else f"{text.value} {text.unit}".rstrip()

    @property
    def _wide(self) -> bool:
        return self.width() >= _WIDE_FROM_PX

    @property
    def _tables(self) -> bool:
        return self.width() >= _TABLES_FROM_PX
