"""The scenario view: the point judged by the user's limits, by the published scenarios, and by the user's own."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QFileDialog, QHeaderView, QTableWidget, QTableWidgetItem

from app.model.commands import SetValue
from app.model.store import Store
from app.model.verdicts import MINE, Figures, Judged, Margin, judged, judged_by_limits, known_scenarios, longest_context
from app.text.bar import Bar
from app.text.format import exact_text, quantity_text
from app.text.quantities import WORDS
from app.views.panels.triangle import Triangle
from app.views.widgets.bars import Bars
from app.views.widgets.common import Card, Choice, label, row, set_role, set_text
from app.views.widgets.page import CardGrid, Page
from app.views.widgets.theme import Theme
from core.spec import Absent, Estimate, OperatingPoint, Output, Provenance

_PACE_MS = 80
_FILE = "file"
_ROW_PX = 24
_BASIS = (
    "Agreement with the reference model counts as accuracy, and a token as one inference. The score is a weighted "
    "geometric mean of the margins, 0 beyond a limit; the article gives limits and weights, but no formula."
)


class Scenarios(Page):
    """Verdicts, margins and the triangle."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store, self._stack = store, stack
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Verdict of the scenario on this point")
        self._source = label(_BASIS, "dim", wrap=True)
        self._choice = Choice(theme, "Judged by", "scenario")
        self._choice.setMinimumWidth(230)
        self._choice.activated.connect(lambda i: self._chosen(self._choice.itemData(i)))
        self.triangle = Triangle(theme, "scenario.triangle")
        self.bars = Bars(theme, "Margins", "scenario.margins")
        self._score = label("", "secondary", wrap=True)
        self._context = label("", "secondary", wrap=True, selectable=True)
        self._context.setAccessibleName("Largest context within my limits")
        self.table = QTableWidget(0, 6)
        self.table.setObjectName("scenario.table")
        self.table.setAccessibleName("All scenarios")
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.table.setHorizontalHeaderLabels(["scenario", "accuracy", "latency", "energy", "verdict", "score"])
        self.table.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        self.table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.table.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.table.verticalHeader().hide()
        self.table.cellClicked.connect(self._clicked)
        self._keys: list[str] = []
        super().__init__("scenarios", "Scenarios", [self._top(), self._middle(), self._bottom()], fill=False)
        self.follow(store, _concerns, self.refresh, _PACE_MS)

    def _top(self) -> Card:
        card = Card()
        card.body.addLayout(row(label("Judged by", "dim"), self._choice, 1))
        card.body.addWidget(self.sentence)
        card.body.addWidget(self._source)
        return card

    def _middle(self) -> CardGrid:
        left, right = Card(), Card()
        left.body.addWidget(label("Triangle", "heading"))
        left.body.addWidget(self.triangle, 1)
        right.body.addWidget(label("Margins", "heading"))
        right.body.addWidget(self.bars)
        right.body.addWidget(self._score)
        right.body.addWidget(self._context)
        right.body.addStretch(1)
        return CardGrid([left, right])

    def _bottom(self) -> Card:
        card = Card()
        card.body.addWidget(label("All scenarios", "heading"))
        card.body.addWidget(self.table)
        return card

    # ---- what the user does

    def _chosen(self, key: str) -> None:
        if key == _FILE:
            name, _ = QFileDialog.getOpenFileName(self, "Open a scenario", "", "Scenarios (*.toml)")
            key = name or self._store.get("scenario")
        if key != self._store.get("scenario"):
            self._stack.push(SetValue(self._store, "scenario", key))
        self.refresh()

    def _clicked(self, at: int, _column: int) -> None:
        self._chosen(self._keys[at])

    # ---- what the store says

    def refresh(self) -> None:
        """Judge the point and show it."""
        chosen, wrong = self._store.get("scenario"), ""
        try:
            scenarios = known_scenarios(chosen)
        except ValueError as error:
            scenarios, wrong = known_scenarios(), f"It cannot be judged: {error}."
        figures = self._figures(None)
        mine = judged_by_limits(self._store.limits, figures)
        every = {key: judged(scenario, figures) for key, scenario in scenarios.items()}
        self._show_choice([(key, one.name) for key, one in every.items()], chosen)
        self._show_one(mine if wrong else every.get(chosen, mine), wrong)
        self._show_all([mine, *every.values()])

    def _figures(self, pinned: OperatingPoint | None) -> Figures:
        """Return the values of the point, or of the pinned one as it is predicted."""
        store = self._store

        def value(name: str) -> Output:
            if pinned is not None:
                output: Output = getattr(store.prediction_of(pinned), name)
                return output
            measured = store.measured(name)
            predicted: Output = getattr(store.prediction, name)
            return measured if isinstance(measured, Estimate) else predicted

        return Figures(
            top1_agreement=value("top1_agreement"),
            decode_s=value("decode_s"),
            energy_j_per_token=value("energy_j_per_token"),
            power_w=value("power_w"),
            ttft_s=value("ttft_s"),
            sustained_tokens_s=store.sustained if pinned is None else Absent("not simulated"),
        )

    def _context_text(self) -> str:
        """Return the largest context within the limits on times and within memory, as a sentence."""
        store = self._store
        most = longest_context(store.point, store.catalogue, store.posterior, store.limits)
        if isinstance(most, Absent):
            return f"Largest context: none, {most.reason}."
        return f"Largest context that keeps latency, request P99 and memory: {quantity_text(float(most), 'tokens')}."

    def _show_choice(self, known: list[tuple[str, str]], chosen: str) -> None:
        gone = [] if chosen in (MINE, *(key for key, _ in known)) else [(chosen, Path(chosen).name)]
        self._choice.show_options([(MINE, "my limits"), *known, *gone, (_FILE, "File…")], chosen)

    def _show_one(self, one: Judged, wrong: str) -> None:
        set_text(self.sentence, wrong or one.sentence)
        set_role(self.sentence, "bad" if wrong or one.feasible is False else "")
        source = f" Limits: {one.source.split(';')[0]}." if one.source else ""
        set_text(self._source, _BASIS + source)
        accuracy, latency, third, *more = one.margins
        order = (latency, accuracy, third)
        pinned = self._store.get("pinned")
        ghost: tuple[float | None, ...] = (None, None, None)
        if pinned is not None:
            then = self._pinned_margins(one.key, pinned)
            ghost = tuple(_used(margin) for margin in (then[1], then[0], then[2]))
        self.triangle.show_use([_left_text(margin) for margin in order], [_used(margin) for margin in order], ghost)
        self.bars.show_bars([_bar(margin) for margin in (*order, *more)], 1.0)
        set_text(self._context, self._context_text() if one.key == MINE else "")
        self._context.setVisible(one.key == MINE)
        score = "No score: the user's limits have no weights." if one.score is None else f"Score {one.score:.3f}."
        set_text(self._score, score)

    def _pinned_margins(self, key: str, pinned: OperatingPoint) -> tuple[Margin, ...]:
        figures = self._figures(pinned)
        if key == MINE:
            return judged_by_limits(self._store.limits, figures).margins
        return judged(known_scenarios(key)[key], figures).margins

    def _show_all(self, every: list[Judged]) -> None:
        self._keys = [one.key for one in every]
        self.table.setRowCount(len(every))
        for i, one in enumerate(every):
            limits = [
                "–"
                if margin.limit is None or margin.name == "power"
                else f"{'≥' if margin.at_least else '≤'} {exact_text(margin.limit, margin.unit)}"
                for margin in one.margins[:3]
            ]
            verdict = "not judged" if one.feasible is None else "meets it" if one.feasible else "fails"
            score = "–" if one.score is None else f"{one.score:.3f}"
            for k, text in enumerate((one.name, *limits, verdict, score)):
                self.table.setItem(i, k, QTableWidgetItem(text))
        self.table.verticalHeader().setDefaultSectionSize(_ROW_PX)
        self.table.setFixedHeight(_ROW_PX * (len(every) + 1) + 8)


def _used(margin: Margin) -> float | None:
    return None if margin.left is None else 1 - margin.left


def _left_text(margin: Margin) -> str:
    if margin.limit is None:
        return f"{margin.name}: no limit"
    if margin.left is None:
        return f"{margin.name}: not known"
    return f"{margin.name} {_share_text(margin.left)}"


def _share_text(left: float) -> str:
    share = 100 * abs(left)
    return f"{share:.0f} % left" if left >= 0 else f"{share:.{0 if share >= 10 else 1}f} % beyond"


def _bar(margin: Margin) -> Bar:
    if margin.left is None:
        return Bar(margin.name, 0.0, "no limit" if margin.limit is None else "not known")
    assert isinstance(margin.value, Estimate)
    origin = Provenance(margin.value.provenance)
    value = quantity_text(float(margin.value.median), margin.unit)
    likely = margin.worse is not None and (margin.left >= 0) != (margin.worse >= 0)
    left = _share_text(margin.left)
    return Bar(
        margin.name,
        margin.left,
        f"{left}{', likely' if likely else ''} · {value} {WORDS[origin]}",
        origin,
        bad=margin.left < 0,
    )


def _concerns(path: str) -> bool:
    return path in ("scenario", "prediction", "measurements", "pinned", "sustained") or path.startswith("limits.")
