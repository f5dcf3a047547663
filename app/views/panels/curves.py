"""The curve view: latency, power and accuracy against the slider last moved, prediction and measurement together.

A press or drag in a plot moves that slider. The pointer shows the values under it in all three cards. Sentences and
numbers are painted first, with the window; the plots are imported and made right after that (docs/adr/0003-plots.md).
"""

from __future__ import annotations

from itertools import count

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QPaintEvent, QUndoStack
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.library.axes import SLIDERS
from app.model.commands import SetValue
from app.model.store import Store
from app.text.quantities import LATENCY, PERPLEXITY, POWER, TOP1
from app.views.widgets.curve_card import CurveCard
from app.views.widgets.slider import snapped
from app.views.widgets.theme import GAP, Theme

_SHOWN = ("prediction", "measurements", "axis", "pinned", "curves.as_published", "published")
_SLOW_MS = 150  # texts for assistive tools follow a drag at this pace


class Curves(QWidget):
    """The three cards over one slider. `plotted` is emitted when the plots exist, before they are painted."""

    plotted = Signal(list)

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("curves")
        self._store, self._stack = store, stack
        self._drags = count(1_000_000)  # apart from those of the sliders
        self._drag = next(self._drags)
        self.cards = [CurveCard(store, theme, q) for q in ((LATENCY,), (POWER,), (TOP1, PERPLEXITY))]
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.setSpacing(GAP)
        for card in self.cards:
            layout.addWidget(card, 1)
        self._painted = False
        self._why_not = store.not_measurable  # which the cards say
        self._slow = QTimer(self, singleShot=True, interval=_SLOW_MS)
        self._slow.timeout.connect(self._describe)
        store.changed.connect(self._on_changed)
        self.refresh()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Ask for the plots once all that does not need them is painted."""
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self.make_plots)

    def make_plots(self) -> None:
        """Import and make the plots, once."""
        if self.cards[0].plot is not None:
            return
        plots = [card.make_plot() for card in self.cards]
        for plot in plots:
            plot.pointed.connect(self._pointed)
            plot.pressed.connect(self._pressed)
        self._slow.start()
        self.plotted.emit(plots)

    def _on_changed(self, path: str) -> None:
        before, self._why_not = self._why_not, self._store.not_measurable
        other = path == "link" and self._why_not != before
        if other or path in _SHOWN or path.startswith("limits."):
            self.refresh()

    def refresh(self) -> None:
        """Show the current point in all cards."""
        for card in self.cards:
            card.refresh()
        self._slow.start()

    def _describe(self) -> None:
        for card in self.cards:
            card.describe()

    def _pointed(self, x: float | None) -> None:
        for card in self.cards:
            card.point_at(x)

    def _pressed(self, x: float, begins: bool) -> None:
        store = self._store
        axis = store.axis_range(store.axis)
        if begins:
            self._drag = next(self._drags)
        value: object
        if axis.path in SLIDERS:
            inside = min(max(10.0**x if axis.log else x, axis.low), axis.high)
            value = snapped(axis, inside)
        else:
            value = axis.options[min(max(round(x), 0), len(axis.options) - 1)][0]
        if value != store.get(axis.path):
            self._stack.push(SetValue(store, axis.path, value, self._drag))
