"""The trade-off view: every mix of formats and prune rates, the front none beats, and a click to go there."""

from __future__ import annotations

from functools import partial

import numpy as np
from PySide6.QtGui import QUndoStack

from app.model.background import Background
from app.model.commands import SetPoint, SetValue
from app.model.store import Store
from app.model.tradeoff import AGAINST, Trade, trade
from app.text.chart import Chart, Points, Rule, Series
from app.text.format import number_text, quantity_text
from app.text.names import short_name
from app.text.quantities import ENERGY, LATENCY, MEMORY, POWER, TOP1, WORDS, Quantity
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.common import Card, Choice, label, row, set_text
from app.views.widgets.page import Page
from app.views.widgets.theme import Theme
from core.spec import Absent, Estimate, OperatingPoint, Provenance

_PACE_MS = 150
_QUANTITY: dict[str, Quantity] = {"accuracy": TOP1, "energy": ENERGY, "power": POWER, "memory": MEMORY}
_MARGIN, _NAMES_MARGIN, _MOST_MARGIN = 0.06, 0.1, 0.03  # of the span: around all points, for names, beyond 100 %


class TradeOff(Page):
    """Latency against another quantity, over all that could be had instead."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store, self._stack = store, stack
        self._trade: Trade | None = None
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Alternatives to this point")
        self._choice = Choice(theme, "Latency against", "trade.against")
        self._choice.setMinimumWidth(180)
        self._choice.activated.connect(lambda i: self._chosen(self._choice.itemData(i)))
        self._count = label("", "dim", wrap=True)
        self.card = ChartCard(theme, "trade.chart", "Trade-off")
        self.card.setMinimumHeight(320)
        self.card.picked.connect(self._go)
        self.card.hovered.connect(self._say)
        top = Card()
        top.body.addLayout(row(label("Latency against", "dim"), self._choice, 1))
        top.body.addWidget(self.sentence)
        top.body.addWidget(self._count)
        super().__init__("trade", "Trade-off", [top, self.card])
        self._work = Background(self)
        self.follow(store, _concerns, self._ask, _PACE_MS)
        store.changed.connect(self._on_changed)
        self._show_choice()

    # ---- what the user does

    def _chosen(self, key: str) -> None:
        if key != self._store.get("trade.against"):
            self._stack.push(SetValue(self._store, "trade.against", key))

    def _go(self, index: int) -> None:
        if self._trade is not None:
            self._stack.push(SetPoint(self._store, "Go to a point of the trade-off", self._trade.points[index]))

    def _say(self, index: int) -> None:
        """Show the mix of the dot under the pointer and its values."""
        if self._trade is None or index < 0:
            self.card.say("")
            return
        quantity, values = _QUANTITY[self._trade.against], self._trade.found.outputs
        said = []
        for name, unit in (("decode_s", "s"), (quantity.output, quantity.unit)):
            origin = str(values[name].provenance[index])
            words = f" {WORDS[Provenance(origin)]}" if origin else ""
            said.append(f"{quantity_text(float(values[name].median[index]), unit)}{words}")
        self.card.say(f"{self._name(self._trade.points[index])}: {', '.join(said)}")

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path == "trade.against":
            self._show_choice()

    def _show_choice(self) -> None:
        names = [(key, _QUANTITY[key].title.lower()) for key in AGAINST]
        self._choice.show_options(names, self._store.get("trade.against"))

    def _ask(self) -> None:
        store = self._store
        against = store.get("trade.against")
        against = against if against in AGAINST else AGAINST[0]
        self._work.run(
            partial(trade, store.point, store.catalogue, store.posterior, against, store.limits), self.show_found
        )

    def show_found(self, found: Trade | ValueError) -> None:
        """Show all points, or why there are none."""
        if isinstance(found, ValueError):
            self._trade = None
            set_text(self.sentence, f"No trade-off: {found}.")
            set_text(self._count, "")
            self.card.show_chart(Chart("Trade-off", ("", ""), ("", ""), message="–"))
            return
        self._trade = found
        set_text(self.sentence, self._words(found))
        n_front, n_held = int(found.on_front.sum()), int(found.feasible.sum())
        kept = f" {n_held} meet the limits." if self._store.limits.is_set else " No limit is set."
        set_text(self._count, f"{found.found.n} mixes tried, {n_front} on the front.{kept} Click a point to go to it.")
        self.card.show_chart(self._chart(found))

    def _words(self, found: Trade) -> str:
        quantity = _QUANTITY[found.against]
        if isinstance(found.knee, Absent):
            return f"No knee: {found.knee.reason}."
        i = found.knee.index
        at, values = found.points[i], found.found.outputs
        edge = ", at the end of the tried range" if found.knee.edge else ""
        return (
            f"The knee is at {self._name(at)}{edge}: {quantity_text(float(values['decode_s'].median[i]), 's')} "
            f"per token, {quantity.title.lower()} "
            f"{quantity_text(float(values[quantity.output].median[i]), quantity.unit)}."
        )

    def _name(self, point: OperatingPoint) -> str:
        """Return the point's mix in words."""
        catalogue = self._store.catalogue
        weights = short_name("point.weights", point.weights, point.weights, catalogue).split(" · ")[0]
        kv = short_name("point.kv", point.kv, point.kv, catalogue).split(" · ")[0]
        return f"{weights} weights, {kv} cache, α {number_text(float(point.alpha), 2)}"

    def _chart(self, found: Trade) -> Chart:
        store, quantity = self._store, _QUANTITY[found.against]
        x, y = (found.found.outputs[name].median for name in ("decode_s", quantity.output))
        known = np.isfinite(x) & np.isfinite(y)
        order = np.flatnonzero(known & found.on_front)
        order = order[np.argsort(x[order], kind="stable")]
        columns = (found.found.outputs[name] for name in ("decode_s", quantity.output))
        calibrated = all((column.provenance[order] == Provenance.CALIBRATED.value).all() for column in columns)
        rules = [
            Rule(axis, limit, "limit", "bad")
            for axis, limit in (
                ("x", store.limits.latency_s),
                ("y", store.get(quantity.limit) if quantity.limit else None),
            )
            if limit is not None
        ]
        return Chart(
            "Trade-off",
            ("latency per token", "s"),
            (quantity.title.lower(), quantity.unit),
            series=(Series(x[order], y[order], Provenance.CALIBRATED if calibrated else Provenance.PREDICTED),),
            rules=tuple(rules),
            points=self._points(found, x, y, known),
            words=self._families(found, x, y, known),
            x_range=_span(x[known]),
            y_range=_span(y[known], _NAMES_MARGIN, quantity.most),
            description=f"{int(known.sum())} points, {len(order)} on the front from "
            f"{LATENCY.title.lower()} {quantity_text(float(x[order[0]]), 's')} to "
            f"{quantity_text(float(x[order[-1]]), 's')}. {self._words(found)}",
        )

    def _points(self, found: Trade, x: np.ndarray, y: np.ndarray, known: np.ndarray) -> tuple[Points, ...]:
        """Return the dots: what is off the front and on it, within the limits and beyond, and where the user is."""
        groups = (
            (known & ~found.on_front & ~found.feasible, "bad", True, 4),
            (known & ~found.on_front & found.feasible, "dim", True, 4),
            (known & found.on_front & ~found.feasible, "bad", False, 7),
            (known & found.on_front & found.feasible, "accent", False, 7),
        )
        points = [
            Points(x[mask], y[mask], color, hollow, size, tuple(np.flatnonzero(mask).tolist()))
            for mask, color, hollow, size in groups
            if mask.any()
        ]
        for at, name in ((self._store.point, "here"), (self._store.get("pinned"), "A")):
            place = None if at is None else self._place(at, _QUANTITY[found.against])
            if place is not None:
                points.append(Points(np.array([place[0]]), np.array([place[1]]), "text", True, 13, names=(name,)))
        return tuple(points)

    def _families(
        self, found: Trade, x: np.ndarray, y: np.ndarray, known: np.ndarray
    ) -> tuple[tuple[float, float, str], ...]:
        """Return the name of each weight format above the highest of its points, the least slow first."""
        names = np.array([point.weights for point in found.points])
        tops = []
        for name in np.unique(names[known]):
            own = np.flatnonzero(known & (names == name))
            top = own[np.lexsort((x[own], -y[own]))[0]]
            words = short_name("point.weights", str(name), str(name), self._store.catalogue).split(" · ")[0]
            tops.append((float(x[top]), float(y[top]), words))
        return tuple(sorted(tops)) if len(tops) > 1 else ()

    def _place(self, point: OperatingPoint, quantity: Quantity) -> tuple[float, float] | None:
        said = self._store.prediction_of(point)
        x, y = said.decode_s, getattr(said, quantity.output)
        if isinstance(x, Estimate) and isinstance(y, Estimate):
            return float(x.median), float(y.median)
        return None


def _span(values: np.ndarray, above: float = _MARGIN, most: float | None = None) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    spread = (high - low) or abs(high) or 1.0
    top = high + above * spread
    return low - _MARGIN * spread, top if most is None else min(top, most + _MOST_MARGIN * spread)


def _concerns(path: str) -> bool:
    return path in ("trade.against", "prediction", "pinned") or path.startswith("limits.")
