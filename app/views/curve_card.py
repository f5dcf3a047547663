"""One card of the curve view: a quantity's number, its measured and predicted pair, its limit, and its curve."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt

from app.model.axes import Axis, position
from app.model.store import Store
from app.views.advice import accuracy_note
from app.views.figure import Figure
from app.views.format import estimate_text, exact_text, quantity_text
from app.views.layers import DASHES, Band, Curve, Floats, Marks, Rule, Wash
from app.views.quantities import LATENCY, POWER, WORDS, Quantity
from app.views.theme import Theme
from app.views.ticks import Scale
from app.views.widgets import BigNumber, Card, Choice, ElidedLabel, label, row, set_role, set_text
from core.spec import Absent, Estimate, Output

N_POINTS = 101


class CurveCard(Card):
    """One quantity: the number now, its measured and predicted pair, its limit, and its curve."""

    def __init__(self, store: Store, theme: Theme, quantities: tuple[Quantity, ...]) -> None:
        super().__init__()
        self._store, self._theme = store, theme
        self.quantity = quantities[0]
        self.setObjectName(f"curve.{self.quantity.output}")
        self._number = BigNumber()
        self._number.setAccessibleName(self.quantity.title)
        self._aside, self._against = ElidedLabel("dim"), label("", "dim")
        self._pair = ElidedLabel("dim", Qt.AlignmentFlag.AlignRight)
        self._verdict = label("", "dim")
        self.plot = Figure(theme, f"plot.{self.quantity.output}", self.quantity.title)
        self._choice = self._make_choice(quantities)
        self._note: ElidedLabel | None = None
        self._layout(quantities)
        self._make_items()

    def _make_choice(self, quantities: tuple[Quantity, ...]) -> Choice:
        choice = Choice(self._theme, "Accuracy shown as", "accuracy.shown")
        choice.show_options([(q.output, q.title) for q in quantities], self.quantity.output)
        by_name = {q.output: q for q in quantities}
        choice.activated.connect(lambda i: self._switch(by_name[choice.itemData(i)]))
        choice.setFixedWidth(168)
        return choice

    def _layout(self, quantities: tuple[Quantity, ...]) -> None:
        several = len(quantities) > 1
        head = label("Accuracy" if several else self.quantity.title, "heading")
        self._choice.setVisible(several)
        self.body.setSpacing(4)
        top = row(head, self._choice, self._aside, self._against)
        top.setStretch(2, 1)
        self.body.addLayout(top)
        line = row(self._number, self._pair, self._verdict, spacing=7)
        line.setStretch(0, 2)
        line.setStretch(1, 3)
        self.body.addLayout(line)
        self.body.addWidget(self.plot, 1)
        if several:
            self._note = ElidedLabel("dim")
            self.body.addWidget(self._note)

    def _make_items(self) -> None:
        plot = self.plot
        self._wash = plot.add(Wash())
        self._band = plot.add(Band(smooth=True))
        self._ghost = plot.add(Curve("dim", smooth=True))
        self._curve = plot.add(Curve("accent", smooth=True))
        self._bound = plot.add(Rule("bad", Qt.PenStyle.DashDotDotLine, vertical=False, opacity=0.7))
        self._pin = plot.add(Rule("dim", Qt.PenStyle.DashLine, vertical=True))
        self._here = plot.add(Rule("text", Qt.PenStyle.DotLine, vertical=True))
        self._cross = plot.add(Rule("dim", Qt.PenStyle.SolidLine, vertical=True))
        self._cross.visible = False
        self._marks = plot.add(Marks())

    def _switch(self, quantity: Quantity) -> None:
        self.quantity = quantity
        self.refresh()
        self.describe()

    # ---- what the store says

    def refresh(self) -> None:
        """Show everything of the current point."""
        store, q = self._store, self.quantity
        axis = store.axis_range(store.axis)
        x, prediction = store.curve(N_POINTS)
        self._x = self._plotted(axis, x)
        self._show_axis(axis)
        self._show_curve(getattr(prediction, q.output))
        self._show_marks(axis)
        self._show_ghost(axis)
        here = store.position(store.axis)
        self._here.at = float(self._plotted(axis, here))
        limit = store.get(q.limit) if q.limit else None
        self._bound.at = np.nan if limit is None else limit
        self._bound.visible = limit is not None
        self._wash.start = store.r_max.alpha if axis.path == "point.alpha" else None
        self._fit()
        self.plot.update()
        self._show_texts(limit)

    @staticmethod
    def _plotted(axis: Axis, x: Floats | float) -> Floats:
        return np.log10(x) if axis.log else np.asarray(x, dtype=float)

    def _show_axis(self, axis: Axis) -> None:
        names = tuple(name for _, name in axis.options)
        self.plot.bottom, self.plot.left = Scale(axis.unit, axis.log, names), Scale(self.quantity.unit)
        low, high = float(self._x[0]), float(self._x[-1])
        margin = 0.5 if names else 0.01 * (high - low)
        self.plot.x_range = (low - margin, high + margin)
        set_text(self._against, f"vs {axis.label}")

    def _show_curve(self, output: Output) -> None:
        present = isinstance(output, Estimate)
        self._curve.visible = present
        self.plot.message = ""
        self._band.visible = present
        self._y = self._low = self._high = np.full(len(self._x), np.nan)
        if isinstance(output, Absent):
            self.plot.message = f"Not predicted: {output.reason}"
            return
        self._y, self._low, self._high = (
            np.broadcast_to(np.asarray(v, dtype=float), self._x.shape) for v in (output.median, output.q05, output.q95)
        )
        self._curve.set_data(self._x, self._y, DASHES[output.provenance])
        self._band.set_data(self._x, self._low, self._high)

    def _show_marks(self, axis: Axis) -> None:
        dots = self._store.dots(self.quantity.output)
        x = self._plotted(axis, dots.x)
        self._dots = (x, dots.median, dots.q05, dots.q95)
        self._marks.set_data(*self._dots)
        if len(x):
            self.plot.message = ""

    def _show_ghost(self, axis: Axis) -> None:
        pinned = self._store.get("pinned")
        self._pin.visible = self._ghost.visible = pinned is not None
        self._ghost_y: Floats | None = None
        if pinned is None:
            return
        _, prediction = self._store.curve(N_POINTS, point=pinned)
        output = getattr(prediction, self.quantity.output)
        if isinstance(output, Estimate):
            self._ghost_y = np.broadcast_to(np.asarray(output.median, dtype=float), self._x.shape)
            self._ghost.set_data(self._x, self._ghost_y)
            # the same curve at another position: a ghost under the dashes would make them look solid
            self._ghost.visible = not np.allclose(self._ghost_y, self._y, rtol=1e-3, equal_nan=True)
        self._pin.at = float(self._plotted(axis, position(axis.path, pinned, self._store.catalogue)))

    def _fit(self) -> None:
        q = self.quantity
        self.plot.cover_y((self._low, self._high, *self._dots[1:], self._ghost_y), q.least, q.most)

    # ---- words

    def _show_texts(self, limit: float | None) -> None:
        q, store = self.quantity, self._store
        predicted: Output = getattr(store.prediction, q.output)
        measured = store.measured(q.output)
        best = measured if isinstance(measured, Estimate) else predicted
        like = self.plot.reference
        if isinstance(best, Estimate):
            text = q.text(best, like)
            self._number.show_value(text.value, f"{text.unit} {WORDS[best.provenance]}".strip())
        else:
            self._number.show_value("–", best.reason)
        set_text(self._pair, self._pair_text(measured, predicted, like))
        set_text(self._aside, self._aside_text(best))
        if self._note is not None:
            set_text(self._note, accuracy_note(store))
        words, holds = q.verdict(best, limit)
        set_text(self._verdict, f"limit {exact_text(limit, q.unit)} {words}" if limit is not None else "")
        self._verdict.setVisible(bool(self._verdict.text()))
        set_role(self._verdict, "dim" if holds is None else "ok" if holds else "bad")

    def _pair_text(self, measured: Output, predicted: Output, like: float) -> str:
        if isinstance(predicted, Absent):
            interval, value = "", f"not predicted: {predicted.reason}"
        else:
            text = self.quantity.text(predicted, like)
            interval = f"[{text.interval}]" if text.interval else ""
            value = f"{WORDS[predicted.provenance]} {text.value} {interval}"
        if isinstance(measured, Estimate):
            return value
        return f"{interval}  measured – {measured.reason}".strip()

    def _aside_text(self, best: Output) -> str:
        store, q = self._store, self.quantity
        if q is LATENCY and isinstance(best, Estimate):
            parts = [f"{quantity_text(1 / float(best.median), '')} tokens/s"]
            ttft = store.measured("ttft_s")
            first = ttft if isinstance(ttft, Estimate) else store.prediction.ttft_s
            if isinstance(first, Estimate):
                parts.append(f"first token {quantity_text(float(first.median), 's')} {WORDS[first.provenance]}")
            return " · ".join(parts)
        if q is POWER and isinstance(store.prediction.energy_j_per_token, Estimate):
            energy = store.prediction.energy_j_per_token
            return f"{quantity_text(float(energy.median), 'J/token')} {WORDS[energy.provenance]}"
        return ""

    def point_at(self, x: float | None) -> None:
        """Show what is under the pointer; None shows the current point again."""
        self._cross.visible = x is not None
        self._cross.at = np.nan if x is None else x
        self.plot.update()
        if x is None:
            set_role(self._pair, "dim")
            self._show_texts(self._store.get(self.quantity.limit) if self.quantity.limit else None)
            return
        set_text(self._pair, self.reading(x))
        set_role(self._pair, "secondary")

    def reading(self, x: float) -> str:
        """Return prediction, nearest measurement and pinned value at a plot position, in words."""
        q, store = self.quantity, self._store
        axis, like = store.axis_range(store.axis), self.plot.reference
        i = int(np.argmin(np.abs(self._x - x)))
        at = (
            axis.options[i][1]
            if axis.options
            else exact_text(10.0 ** self._x[i] if axis.log else self._x[i], axis.unit)
        )
        parts = [f"{at}:"]
        if np.isfinite(self._y[i]):
            parts.append(str(estimate_text(self._y[i], self._low[i], self._high[i], q.unit, like)))
        dot_x, *dot = self._dots
        near = np.flatnonzero(np.abs(dot_x - self._x[i]) < 0.02 * (self._x[-1] - self._x[0] or 1.0))
        if len(near):
            value, low, high = (float(part[near[0]]) for part in dot)
            parts.append(f"measured {estimate_text(value, low, high, q.unit, like)}")
        if self._ghost_y is not None and np.isfinite(self._ghost_y[i]):
            parts.append(f"A {quantity_text(float(self._ghost_y[i]), q.unit)}")
        return "  ".join(parts)

    def describe(self) -> None:
        """Say in words what the plot shows, for those who cannot see it."""
        q, axis = self.quantity, self._store.axis_range(self._store.axis)
        fine = np.flatnonzero(np.isfinite(self._y))
        if not len(fine):
            self.plot.setAccessibleDescription(self.plot.message)
            return
        ends = [quantity_text(float(self._y[i]), q.unit) for i in (fine[0], fine[-1])]
        self.plot.setAccessibleDescription(
            f"{q.title} against {axis.label}: predicted {ends[0]} at the start, {ends[1]} at the end; "
            f"{len(self._dots[0])} measured points. Now {self._number.text()}."
        )
