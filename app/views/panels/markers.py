"""Two markers over the linked plots of the live view: where they stand, and what lies between them.

Floating, they keep their distance from the live edge; pinned, they stay with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.library.channel_stats import Tally, between
from app.model.commands import SetValue
from app.model.state import MarkerPair
from app.model.store import Store
from app.text.format import DASH, exact_text, quantity_text
from app.views.widgets.common import fill, label
from app.views.widgets.field import QuantityField
from app.views.widgets.live_card import LiveCard

Floats = NDArray[np.float64]
_LEAST_S = 1e-4


class Markers(QObject):
    """A and B of the store, drawn in every card; each change can be undone, a drag as one.

    Parameters
    ----------
    cards : the cards of the live view
    origin_s : the time at the right edge
    store : has them under ``markers``
    stack : gets the commands
    """

    changed = Signal()
    zoom_wanted = Signal(float, float)  # to these positions, in seconds before the right edge

    def __init__(
        self, cards: Sequence[LiveCard], origin_s: Callable[[], float], store: Store, stack: QUndoStack
    ) -> None:
        super().__init__()
        self._cards, self._origin_s, self._store, self._stack = cards, origin_s, store, stack
        self._drag = 0
        for card in cards:
            card.plot.marker_moved.connect(self._moved)
            card.plot.marker_dropped.connect(self._dropped)
        store.changed.connect(self._on_changed)
        self.bar = _Bar(self)

    @property
    def _pair(self) -> MarkerPair:
        pair: MarkerPair = self._store.get("markers")
        return pair

    @property
    def shown(self) -> bool:
        """Whether the markers are shown."""
        return self._pair.shown

    @property
    def pinned(self) -> bool:
        """Whether the markers move with the data."""
        return self._pair.pinned

    @property
    def times(self) -> tuple[float, float]:
        """Times of A and B in the samples' clock [s]."""
        base_s = 0.0 if self.pinned else self._origin_s()
        return self._pair.a_s + base_s, self._pair.b_s + base_s

    @property
    def delta_s(self) -> float:
        """From A to B."""
        return self._pair.b_s - self._pair.a_s

    def toggle(self) -> None:
        """Show them, at a third and two thirds of the view where they are not in it; or hide them."""
        pair = replace(self._pair, shown=not self.shown)
        left, right = self._cards[0].plot.x_range
        if pair.shown and not any(left < at_s - self._origin_s() < right for at_s in self.times):
            base_s = self._origin_s() if pair.pinned else 0.0
            a_s, b_s = (base_s + left + (right - left) * share for share in (1 / 3, 2 / 3))
            pair = replace(pair, a_s=a_s, b_s=b_s)
        self._push(pair)

    def pin(self, pinned: bool) -> None:
        """Let them stay with the data, or with the live edge; they do not move by it."""
        if pinned != self.pinned:
            shift_s = self._origin_s() * (1 if pinned else -1)
            pair = self._pair
            self._push(replace(pair, a_s=pair.a_s + shift_s, b_s=pair.b_s + shift_s, pinned=pinned))

    def set_delta(self, seconds: float) -> None:
        """Move B so far from A."""
        self._push(replace(self._pair, b_s=self._pair.a_s + seconds))

    def zoom(self) -> None:
        """Ask to see what lies between them."""
        low, high = sorted(at - self._origin_s() for at in self.times)
        self.zoom_wanted.emit(low, high)

    def draw(self) -> None:
        """Stand where they belong in every card."""
        origin_s = self._origin_s()
        for card in self._cards:
            for line, at_s in zip(card.plot.markers, self.times, strict=True):
                line.setVisible(self.shown)
                if self.shown and line.value() != at_s - origin_s:
                    line.setValue(at_s - origin_s)

    def _push(self, pair: MarkerPair, drag: int | None = None) -> None:
        if pair != self._pair:
            self._stack.push(SetValue(self._store, "markers", pair, drag))

    def _moved(self, which: int, x: float) -> None:
        at_s = x + (self._origin_s() if self.pinned else 0.0)
        pair = self._pair
        self._push(replace(pair, b_s=at_s) if which else replace(pair, a_s=at_s), self._drag)

    def _dropped(self) -> None:
        self._drag += 1

    def _on_changed(self, path: str) -> None:
        if path == "markers":
            self.draw()
            self.changed.emit()


class _Bar(QWidget):
    """Controls of the markers: pin, type the distance, zoom. Visible with them."""

    def __init__(self, markers: Markers) -> None:
        super().__init__()
        self._markers = markers
        self._pin = QPushButton("Pin")
        self._pin.setObjectName("markers.pin")
        self._pin.setCheckable(True)
        self._pin.setAccessibleName("Pin the markers to the data")
        self._pin.setToolTip("Move with the data instead of the live edge")
        self._pin.toggled.connect(markers.pin)
        self._delta = QuantityField("Time from A to B", "markers.delta", "s")
        self._delta.setFixedWidth(90)
        self._delta.entered.connect(self._entered)
        self._zoom = QPushButton("Zoom")
        self._zoom.setObjectName("markers.zoom")
        self._zoom.setAccessibleName("Zoom to the markers")
        self._zoom.setToolTip("Show the interval between the markers")
        self._zoom.clicked.connect(markers.zoom)
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(6)
        fill(line, (label("A to B", "dim"), self._delta, self._pin, self._zoom))
        markers.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        self.setVisible(self._markers.shown)
        if not self._delta.hasFocus():
            self._delta.show_value(self._markers.delta_s)
        if self._pin.isChecked() != self._markers.pinned:
            self._pin.setChecked(self._markers.pinned)

    def _entered(self, seconds: float | None) -> None:
        if seconds is None or abs(seconds) < _LEAST_S:
            self._delta.refuse(f"Time from A to B: expected at least {exact_text(_LEAST_S, 's')}")
        else:
            self._markers.set_delta(seconds)


def power_between(t_s: Floats, y: Floats, low_s: float, high_s: float) -> str:
    """Return energy and mean of a power between two times, and how much of the time it covers."""
    tally: Tally = between(t_s, y, low_s, high_s)
    if not tally.n:
        return DASH
    mean, energy = quantity_text(tally.mean, "W"), quantity_text(tally.integral, "J")
    span_s = abs(high_s - low_s)
    covered = "" if tally.covered_s > 0.98 * span_s else f", {quantity_text(tally.covered_s, 's')} of it covered"
    return f"{energy} · mean {mean}{covered}"
