"""The energy view: how long the board holds this point. Power by term, heat, throttling, clocks and battery."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QFileDialog, QVBoxLayout, QWidget

from app.library.endurance import Around, Endurance, coolings, hold, workloads
from app.model.background import Background
from app.model.commands import SetValue
from app.model.store import Store
from app.model.sustained import around
from app.text import energy_data
from app.text.bar import Bar
from app.text.chart import Chart
from app.text.format import exact_text, number_text, output_text, quantity_text
from app.text.published import published_figures
from app.text.quantities import measured_as
from app.views.widgets.bars import Bars
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.common import Card, Choice, label, set_text
from app.views.widgets.field import QuantityField
from app.views.widgets.heatmap import HeatMapView
from app.views.widgets.page import CardGrid, Page
from app.views.widgets.theme import Theme
from core.physics.dvfs import KNEES
from core.spec import Catalogue, Estimate, OperatingPoint, Posterior, Provenance

_PACE_MS = 150  # the simulation follows a drag at this pace
_FILE = "file"
_SOON = "Being simulated."  # until the first answer
_FIELD_PX, _LEAST_FIELD_PX = 28, 130
_MOST_COLUMNS = 5
_CHARTS = {
    "energy.temperature": ("Die temperature", energy_data.temperature_chart),
    "energy.speed": ("Speed while it decodes", energy_data.speed_chart),
    "energy.charge": ("Battery", energy_data.battery_chart),
    "energy.clocks": ("Clocks and knees", energy_data.dvfs_chart),
}
_POWER_LIMIT = "point.power_limit"  # the field of the operating point, shown here too
_QUANTITIES = {
    _POWER_LIMIT: ("TDP", "W", "W"),
    "energy.limit_temp": ("Junction limit", "degC", "degC"),
    "energy.power": ("Power, decoding", "W", "W"),
    "energy.idle": ("Power, idle", "W", "W"),
    "energy.battery": ("Battery", "Wh", "Wh"),
    "energy.ambient": ("Ambient", "degC", "degC"),
    "energy.duration": ("Duration", "h", "h"),
}
_EMPTY = {
    _POWER_LIMIT: "no limit",
    "energy.limit_temp": "board's own",
    "energy.power": "predicted",
    "energy.idle": "estimated",
    "energy.battery": "mains",
}
"""Optional quantities, with the meaning of an empty field."""


class Energy(Page):
    """Sustained operation of the point: power, heat, battery."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store, self._stack, self._theme = store, stack, theme
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Sustained speed of the board")
        self._limit, self._wrong = label("", "dim", wrap=True), label("", "bad", wrap=True)
        self._fields = {path: self._field(path) for path in _QUANTITIES}
        self._cooling = self._choice("energy.cooling", "Cooling")
        self._profile = self._choice("energy.profile", "Workload")
        self.cards = {path: ChartCard(theme, path, title) for path, (title, _) in _CHARTS.items()}
        self.heat = HeatMapView(theme, "energy.heatmap")
        self._heat_words = label("", "dim", wrap=True)
        self._bars = Bars(theme, "Power by term", "energy.terms")
        self._power = label("", "dim", wrap=True)
        self._rails = Bars(theme, "Measured power and energy of a token by part of the board", "energy.rails")
        self._rails_name = label("Measured by part of the board", "heading")
        self._knees = {key: label("", "secondary", wrap=True) for key in KNEES[:3]}
        self._notes = label("", "dim", wrap=True)
        super().__init__("energy", "Energy", [self._top(), self._grid()])
        self._work = Background(self)
        self.follow(store, _concerns, self._ask, _PACE_MS)
        self._show_first()
        store.changed.connect(self._on_changed)
        self._show_settings()

    # ---- made once

    def _field(self, path: str) -> QuantityField:
        name, unit, bare = _QUANTITIES[path]
        field = QuantityField(name, path.replace("point.", "energy."), unit, bare, optional=path in _EMPTY)
        field.setPlaceholderText(_EMPTY.get(path, ""))
        field.entered.connect(lambda value: self._set(path, value, field))
        field.refused.connect(self._refuse)
        return field

    def _choice(self, path: str, name: str) -> Choice:
        choice = Choice(self._theme, name, path)
        choice.activated.connect(lambda i: self._chosen(path, choice.itemData(i)))
        return choice

    def _top(self) -> Card:
        card = Card()
        card.body.addWidget(self.sentence)
        card.body.addWidget(self._limit)
        named = [(_QUANTITIES[path][0], field) for path, field in self._fields.items()]
        pairs: list[tuple[str, QWidget]] = [*named, ("Cooling", self._cooling), ("Workload", self._profile)]
        card.body.addWidget(CardGrid([_titled(*pair) for pair in pairs], _LEAST_FIELD_PX, _MOST_COLUMNS))
        card.body.addWidget(self._wrong)
        self._wrong.hide()
        return card

    def _grid(self) -> CardGrid:
        heat = Card()
        heat.body.addWidget(label("Heat map", "heading"))
        heat.body.addWidget(self.heat, 1)
        heat.body.addWidget(self._heat_words)
        return CardGrid([self._terms(), *self.cards.values(), heat])

    def _terms(self) -> Card:
        card = Card()
        card.body.addWidget(label("Power by term", "heading"))
        card.body.addWidget(self._bars)
        card.body.addWidget(self._power)
        card.body.addWidget(self._rails_name)
        card.body.addWidget(self._rails)
        card.body.addWidget(label("Best clock", "heading"))
        for part in self._knees.values():
            card.body.addWidget(part)
        card.body.addWidget(self._notes)
        card.body.addStretch(1)
        return card

    # ---- what the user does

    def _set(self, path: str, value: object, field: QuantityField | None = None) -> None:
        try:
            self._stack.push(SetValue(self._store, path, value))
        except ValueError as error:
            name, unit, _ = _QUANTITIES.get(path, (path, "", ""))
            shown = exact_text(value, unit) if isinstance(value, float) else repr(value)
            sentence = str(error).replace(repr(value), shown).replace(path, name)
            field.refuse(sentence) if field else self._refuse(sentence)

    def _chosen(self, path: str, key: str) -> None:
        if key == _FILE:
            name, _ = QFileDialog.getOpenFileName(self, "Open a workload", "", "Workloads (*.toml *.csv)")
            key = name or self._store.get(path)
        if key != self._store.get(path):
            self._set(path, key)
        self._show_settings()

    def _refuse(self, sentence: str) -> None:
        set_text(self._wrong, sentence)
        self._wrong.setVisible(bool(sentence))

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path.startswith("energy.") or path in (_POWER_LIMIT, "point"):
            self._show_settings()

    def _show_settings(self) -> None:
        store = self._store
        for path, field in self._fields.items():
            field.show_value(store.get(path))
        self._cooling.show_options(list(coolings().items()), store.get("energy.cooling"))
        profile, known = store.get("energy.profile"), workloads()
        own = [] if profile in known else [(profile, Path(profile).name)]
        self._profile.show_options([*known.items(), *own, (_FILE, "File…")], profile)

    def _show_first(self) -> None:
        """Show the facts known before the first simulation ends, and how to improve them."""
        power = self._store.prediction.power_w
        known = f"{output_text(power, 'W')} while it decodes" if isinstance(power, Estimate) else "not predicted"
        set_text(self.sentence, f"Power: {known}. Heat, throttling and battery are being simulated.")
        set_text(self._limit, "Measure this point on the board to compare.")
        for path, card in self.cards.items():
            card.show_chart(Chart(_CHARTS[path][0], ("", ""), ("", ""), message=_SOON))
        for part in (self._power, self._heat_words, next(iter(self._knees.values()))):
            set_text(part, _SOON)
        for widget in (self._rails, self._rails_name):
            widget.hide()

    def _ask(self) -> None:
        store = self._store
        self._work.run(partial(_answer, store.point, store.catalogue, store.posterior, around(store)), self.show_found)

    def show_found(self, answer: tuple[Endurance, dict[str, Chart]] | ValueError) -> None:
        """Show the result, or the reason of a failure; one chart a turn, so that no frame waits for all."""
        if isinstance(answer, ValueError):
            set_text(self.sentence, f"Not simulated: {answer}.")
            set_text(self._limit, "")
            set_text(self._heat_words, "")
            self._bars.show_bars([])
            self.heat.show_field(None)
            for part in (self._power, self._notes, *self._knees.values()):
                set_text(part, "")
            for widget in (self._rails, self._rails_name):
                widget.hide()
            for path, card in self.cards.items():
                card.show_chart(Chart(_CHARTS[path][0], ("", ""), ("", ""), message="–"))
            return
        holding, charts = answer
        self._show_words(holding)
        for path, chart in charts.items():
            QTimer.singleShot(0, self, partial(self.cards[path].show_chart, chart))

    def _show_words(self, found: Endurance) -> None:
        set_text(self.sentence, energy_data.sentence(found.run, found.results, found.device))
        set_text(self._limit, energy_data.limit_sentence(found))
        self._show_terms(found)
        heat = found.heat
        self.heat.show_field(heat)
        place = f"{heat.name[0].upper()}{heat.name[1:]}"
        set_text(self._heat_words, f"{place}, steady at {quantity_text(heat.power_w, 'W')}, below the die.")
        for key, part in self._knees.items():
            words = energy_data.KNEE_WORDS[key]
            set_text(part, f"{words[0].upper()}{words[1:]}: {energy_data.knee_text(found.knees[key])}")
        notes = [energy_data.note_text(note) for note in found.speeds.notes]
        figures = published_figures(self._store.catalogue.boards[self._store.point.board])
        notes += [f"published: {one.text} ({one.source})" for one in figures if one.name == "Clocks"]
        set_text(self._notes, "\n".join(f"· {note}" for note in notes))

    def _show_terms(self, found: Endurance) -> None:
        total = sum(found.run.terms_w.values())
        measured = self._store.measured("power_w")
        bars = [
            Bar(
                energy_data.term_text(name, found.device),
                value,
                f"{quantity_text(value, 'W')} · {number_text(100 * value / total, 0)} %",
                self._origin(name),
            )
            for name, value in found.run.terms_w.items()
            if abs(value) > 1e-4 * total
        ]
        self._bars.show_bars(bars)
        words = f"Mean over the run ({found.profile}): {quantity_text(total, 'W')}. Measured at this point: "
        if isinstance(measured, Estimate):
            idle, prompt = self._store.measured("idle_power_w"), self._store.measured("prefill_energy_j")
            beside = f", idle {quantity_text(float(idle.median), 'W')}" if isinstance(idle, Estimate) else ""
            beside += f", {quantity_text(float(prompt.median), 'J')} a prompt" if isinstance(prompt, Estimate) else ""
            words += f"{output_text(measured, 'W')}{beside}."
        else:
            words += f"{measured.reason.rstrip('.')}."
        set_text(self._power, words)
        parts = energy_data.rail_bars(self._store.rails)
        self._rails.show_bars(parts)
        for widget in (self._rails, self._rails_name):
            widget.setVisible(bool(parts))

    def _origin(self, term: str) -> Provenance:
        posterior = self._store.posterior
        if posterior is None or not posterior.n_energy or self._store.not_measured_here:
            return Provenance.PREDICTED
        if term == "idle" and posterior.idle_power_w is not None:
            return measured_as(self._store.link.hello)
        return Provenance.CALIBRATED if term in ("core", "dram") else Provenance.PREDICTED


def _answer(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None, around: Around
) -> tuple[Endurance, dict[str, Chart]]:
    """Work everything out that needs no Qt."""
    found = hold(point, catalogue, posterior, around)
    return found, {path: make(found) for path, (_, make) in _CHARTS.items()}


def _titled(name: str, field: QWidget) -> QWidget:
    """Return a field below its name."""
    made = QWidget()
    layout = QVBoxLayout(made)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(2)
    layout.addWidget(label(name, "dim"))
    field.setMinimumHeight(_FIELD_PX)
    layout.addWidget(field)
    return made


def _concerns(path: str) -> bool:
    return path.startswith("energy.") or path in ("prediction", "calibration", "measurements")
