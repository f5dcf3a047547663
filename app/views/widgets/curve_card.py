"""One card of the curve view: a quantity's number, its measured and predicted pair, its limit, and its curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox

from app.model.store import Store
from app.text.format import brief, exact_text, quantity_text
from app.text.names import accuracy_note
from app.text.quantities import ENERGY, LATENCY, POWER, TTFT, WORDS, Quantity
from app.views.widgets.common import BigNumber, Card, Choice, ElidedLabel, PlotSpace, label, row, set_role, set_text
from app.views.widgets.curve_data import curve_data, held_range
from app.views.widgets.theme import Theme
from core.spec import Absent, Estimate, Output

if TYPE_CHECKING:
    from app.views.widgets.curve_plot import CurvePlot

_NOTE_FROM_PX = 200  # the height of a card that has room for a note
_NAMED_FROM_PX = 420  # the width of a card that has room for the name of its axis
_WIDE_FROM_PX = 560  # the width of a card that has room for all words on one line


class CurveCard(Card):
    """One quantity: the number now, its measured and predicted pair, its limit, and its curve.

    The words are there at once; `make_plot` adds the plot, into a space that is kept for it.
    """

    def __init__(self, store: Store, theme: Theme, quantities: tuple[Quantity, ...]) -> None:
        super().__init__()
        self._store, self._theme = store, theme
        self.quantity = quantities[0]
        self._y_range = (0.0, 1.0)
        self.plot: CurvePlot | None = None
        self.setObjectName(f"curve.{self.quantity.output}")
        self._wide: bool | None = None  # before it is laid out
        self._number = BigNumber()
        self._number.setAccessibleName(self.quantity.title)
        self._aside, self._against = ElidedLabel("dim"), label("", "dim")
        self._pair = ElidedLabel("dim", Qt.AlignmentFlag.AlignRight)
        self._verdict = label("", "dim")
        self.space = PlotSpace()
        self._choice = self._make_choice(quantities)
        self._note: ElidedLabel | None = None
        self._published: QCheckBox | None = None
        self._layout(quantities)

    def make_plot(self) -> CurvePlot:
        """Import and make the plot, and draw what the words already say."""
        from app.views.widgets.curve_plot import CurvePlot

        self.plot = CurvePlot(self._theme, self.quantity)
        self.plot.show_data(self.data, self._y_range)
        self.space.take(self.plot)
        self.setTabOrder(self._choice, self.plot)  # not behind all that was made before it
        return self.plot

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
        self._line = line
        self.body.addLayout(line)
        self.body.addWidget(self.space, 1)
        if several:
            self._note = ElidedLabel("dim")
            self.body.addWidget(self._note)
        elif self.quantity is LATENCY:
            self._note, self._published = ElidedLabel("dim"), self._make_published()
            self.body.addLayout(row(self._published, self._note))

    def _make_published(self) -> QCheckBox:
        box = QCheckBox("As published")
        box.setObjectName("curves.as_published")
        box.setAccessibleName("Draw the golden formula of article A")
        box.setToolTip("The golden formula of article A, as published")
        box.toggled.connect(lambda on: self._store.set("curves.as_published", on))
        return box

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what there is no room for: the note, and in a narrow card what the tool tips say too."""
        super().resizeEvent(event)
        wide = self.width() >= _WIDE_FROM_PX
        if wide != self._wide:
            self._wide = wide
            self._line.setStretch(0, 2)
            self._line.setStretch(1, 3 if wide else 2)
            self._show_texts()
        if self._note is not None:
            self._note.setVisible(self.height() >= _NOTE_FROM_PX)
        if self._published is not None:
            self._published.setVisible(self.height() >= _NOTE_FROM_PX)

    def _switch(self, quantity: Quantity) -> None:
        self.quantity = quantity
        self.refresh()
        self.describe()

    # ---- what the store says

    @property
    def reference(self) -> float:
        """The number whose prefix all texts of the card take: the largest that the plot shows."""
        return max(map(abs, self._y_range))

    def refresh(self) -> None:
        """Show everything of the current point."""
        q = self.quantity
        self.data = data = curve_data(self._store, q)
        self._y_range = held_range(self._y_range, data.y_values, q.least, q.most)
        self.space.say(data.message)
        self._show_texts()
        if self.plot is not None:
            self.plot.show_data(data, self._y_range)

    # ---- words

    def _show_texts(self) -> None:
        q, store, limit = self.quantity, self._store, self.data.limit
        predicted: Output = getattr(store.prediction, q.output)
        measured = store.measured(q.output)
        best = measured if isinstance(measured, Estimate) else predicted
        like = self.reference
        if isinstance(best, Estimate):
            text = q.figure(best, like)
            self._number.show_value(text.value, f"{text.unit} {WORDS[best.provenance]}".strip())
        else:
            self._number.show_value("–", brief(best.reason))
        set_text(self._pair, self._pair_text(measured, predicted, like))
        self._pair.set_tip("\n".join(output.reason for output in (measured, predicted) if isinstance(output, Absent)))
        aside = self._aside_text(best)
        set_text(self._aside, aside)
        set_text(self._against, f"vs {self.data.axis.label}" if self._wide or not aside else "")
        self._against.setVisible(self.width() >= _NAMED_FROM_PX)
        if self._published is not None:
            with QSignalBlocker(self._published):
                self._published.setChecked(store.get("curves.as_published"))
        if self._note is not None:
            golden = "" if self.data.golden is None else self.data.golden.sentence
            set_text(self._note, golden if q is LATENCY else accuracy_note(store.point, store.catalogue))
        words, holds = q.verdict(best, limit)
        set_text(self._verdict, f"limit {exact_text(limit, q.unit)} {words}" if limit is not None else "")
        self._verdict.setVisible(bool(self._verdict.text()))
        set_role(self._verdict, "dim" if holds is None else "ok" if holds else "bad")

    def _pair_text(self, measured: Output, predicted: Output, like: float) -> str:
        if isinstance(predicted, Absent):
            interval, value = "", f"not predicted: {brief(predicted.reason)}"
        else:
            text = self.quantity.text(predicted, like)
            interval = f"[{text.interval}]" if text.interval else ""
            value = f"{WORDS[predicted.provenance]} {text.value} {interval}"
        if isinstance(measured, Estimate):
            return value
        if not self._wide and interval:
            return interval
        reason = brief(measured.reason)
        reason = f"this {reason[5:]}" if reason.startswith("This ") else reason  # it goes on within a line
        return f"{interval}  measured – {reason}".strip()

    def _aside_text(self, best: Output) -> str:
        store, q = self._store, self.quantity
        if q is LATENCY and isinstance(best, Estimate):
            parts = [f"{quantity_text(1 / float(best.median), '')} tokens/s"]
            ttft = store.measured("ttft_s")
            first = ttft if isinstance(ttft, Estimate) else store.prediction.ttft_s
            if isinstance(first, Estimate):
                origin = f" {WORDS[first.provenance]}" if self._wide else ""
                text = TTFT.figure(first)
                parts.append(f"first token {text.value} {text.unit}{origin}")
            return " · ".join(parts)
        if q is POWER and isinstance(store.prediction.energy_j_per_token, Estimate):
            energy = store.prediction.energy_j_per_token
            text = ENERGY.figure(energy)
            return f"{text.value} {text.unit} {WORDS[energy.provenance]}"
        return ""

    def point_at(self, x: float | None) -> None:
        """Show what is under the pointer; None shows the current point again."""
        if self.plot is not None:
            self.plot.point_at(x)
        if x is None:
            set_role(self._pair, "dim")
            self._show_texts()
        else:
            set_text(self._pair, self.data.reading(x, self.reference))
            set_role(self._pair, "secondary")

    def describe(self) -> None:
        """Say in words what the plot shows, for those who cannot see it."""
        if self.plot is not None:
            now = f" Now {self._number.text()}." if not self.data.message else ""
            self.plot.setAccessibleDescription(self.data.description() + now)
