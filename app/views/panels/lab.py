"""The lab view: an item of the articles with the user's own numbers, made from the rows of `app.text.lab.table`."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.model.background import Background
from app.model.commands import SetValue
from app.model.store import Store
from app.text.chart import Chart
from app.text.lab.item import Found, Input, Lab, Values, chart, sweep
from app.text.lab.table import LABS
from app.text.quantities import WORDS
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.common import Card, Choice, label, row, set_role, set_text
from app.views.widgets.field import QuantityField
from app.views.widgets.marks import COLORS
from app.views.widgets.page import CardGrid, Page
from app.views.widgets.theme import Theme

_PACE_MS = 150
_FIELD_PX, _COLUMN_PX = 28, 185
_SOURCES = {"published": "printed", "assumed": "assumed"}


class LabField(QuantityField):
    """The field of one input of an item; it reads and shows what the row of the input says."""

    def __init__(self, key: str, one: Input) -> None:
        super().__init__(one.label, f"lab.{key}.{one.option}", one.unit)
        self.input = one

    def show_value(self, value: float | None) -> None:
        """Show a value as it can be typed."""
        assert value is not None
        super().show_value(value)
        self.setText(self.input.text(value))

    def _read(self, text: str) -> float:
        return self.input.read(text)


class LabView(Page):
    """Fields, plot and sentence of one item."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store, self._stack = store, stack
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Result of the formula")
        self._wrong, self._check = label("", "bad", wrap=True), label("", "dim", wrap=True, selectable=True)
        self._wrong.hide()
        self._choice = Choice(theme, "Item", "lab.item")
        self._choice.activated.connect(lambda i: self._set("lab.item", self._choice.itemData(i)))
        self._choice.setMinimumWidth(200)
        self._along = Choice(theme, "Plotted against", "lab.along")
        self._along.setMinimumWidth(190)
        self._along.activated.connect(lambda i: self._set(self._along.objectName(), self._along.itemData(i)))
        self.back = QPushButton("Printed values")
        self.back.setObjectName("lab.defaults")
        self.back.setAccessibleName("Set every input to its printed or assumed value")
        self.back.clicked.connect(self._set_defaults)
        self.fields: dict[str, LabField] = {}
        self._sources: dict[str, QLabel] = {}
        self._forms: dict[str, QWidget] = {}
        self.results, self._grid = list[tuple[QLabel, ...]](), QGridLayout()
        self.card = ChartCard(theme, "lab.chart", "Along an input")
        self.card.setMinimumHeight(270)
        super().__init__("lab", "Lab", [self._top(), CardGrid([self._results_card(), self.card])])
        self._work = Background(self)
        self.follow(store, lambda path: path.startswith("lab."), self.refresh, _PACE_MS)

    def _top(self) -> Card:
        card = Card()
        card.body.addLayout(row(label("Item", "dim"), self._choice, self.back))
        card.body.addWidget(self.sentence)
        self._form = QVBoxLayout()
        card.body.addLayout(self._form)
        card.body.addWidget(self._wrong)
        card.body.addWidget(self._check)
        return card

    def _results_card(self) -> Card:
        card = Card()
        card.body.addWidget(label("Results", "heading"))
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(0, 1)
        card.body.addLayout(self._grid)
        card.body.addLayout(row(label("Plotted against", "dim"), self._along, 1))
        card.body.addStretch(1)
        return card

    def _made_form(self, one: Lab) -> QWidget:
        """Return the fields of an item, made when it is first chosen."""
        if one.key not in self._forms:
            cells = []
            for given in one.inputs:
                field = LabField(one.key, given)
                path = field.objectName()
                field.entered.connect(partial(self._entered, field))
                field.refused.connect(self._refuse)
                field.setToolTip(f"{given.label}: {given.expected}")
                field.setMinimumHeight(_FIELD_PX)
                self.fields[path], self._sources[path] = field, label("", "dim")
                cell = QWidget()
                inside = QVBoxLayout(cell)
                inside.setContentsMargins(0, 0, 0, 0)
                inside.setSpacing(2)
                inside.addWidget(self._sources[path])
                inside.addWidget(field)
                cells.append(cell)
            self._forms[one.key] = CardGrid(cells, _COLUMN_PX, 6)
            self._form.addWidget(self._forms[one.key])
        return self._forms[one.key]

    # ---- what the user does

    @property
    def lab(self) -> Lab:
        """The item shown."""
        return LABS[self._store.get("lab.item")]

    def _set(self, path: str, value: object) -> None:
        if value != self._store.get(path):
            self._stack.push(SetValue(self._store, path, value))

    def _entered(self, field: LabField, value: float) -> None:
        try:
            self._set(field.objectName(), value)
        except ValueError as error:
            field.refuse(str(error))
        else:
            field.show_value(value)

    def _set_defaults(self) -> None:
        self._stack.beginMacro(f"Set {self.lab.key} to its printed values")
        for one in self.lab.inputs:
            self._set(f"lab.{self.lab.key}.{one.option}", one.default)
        self._stack.endMacro()
        self.refresh()

    def _refuse(self, sentence: str) -> None:
        set_text(self._wrong, f"{sentence}." if sentence else "")
        self._wrong.setVisible(bool(sentence))

    # ---- what the store says

    def refresh(self) -> None:
        """Show the item, its values, and ask for its results."""
        one = self.lab
        self._choice.show_options([(key, f"{key}  {known.title}") for key, known in LABS.items()], one.key)
        form = self._made_form(one)
        for other in self._forms.values():
            other.setVisible(other is form)
        self._along.setObjectName(f"lab.{one.key}.along")
        along = self._store.get(self._along.objectName())
        self._along.show_options([(given.option, given.label) for given in one.inputs], along)
        values = {given.name: self._store.get(f"lab.{one.key}.{given.option}") for given in one.inputs}
        self._refuse("")
        for given in one.inputs:
            path = f"lab.{one.key}.{given.option}"
            source = _SOURCES[given.source] if values[given.name] == given.default else "yours"
            set_text(self._sources[path], f"{given.label} · {source}")
            self.fields[path].show_value(values[given.name])
        self._work.run(partial(_answer, one, values, along), self.show_found)

    def show_found(self, answer: tuple[Lab, str, Found, Chart, str] | ValueError) -> None:
        """Show the results, or the reason why there are none."""
        if isinstance(answer, ValueError):
            set_text(self.sentence, f"No result: {answer}.")
            set_role(self.sentence, "bad")
            self._show_results(self.lab, None)
            self.card.show_chart(Chart("Along an input", ("", ""), ("", ""), message="–"))
            return
        one, sentence, found, drawn, check = answer
        set_text(self.sentence, sentence)
        set_role(self.sentence, "")
        set_text(self._check, f"The article: {check}")
        self._show_results(one, found)
        self.card.show_chart(drawn)

    def _show_results(self, one: Lab, found: Found | None) -> None:
        while len(self.results) < len(one.outputs):
            made = (label("", "dim", wrap=True), label("", selectable=True), label("", "secondary"))
            for column, part in enumerate(made):
                self._grid.addWidget(part, len(self.results), column, Qt.AlignmentFlag.AlignTop)
            self.results.append(made)
        for i, parts in enumerate(self.results):
            for part in parts:
                part.setVisible(i < len(one.outputs))
        for parts, output in zip(self.results, one.outputs, strict=False):
            text = "–" if found is None else output.text(found[output.name])
            for part, words in zip(parts, (output.label, text, WORDS[output.provenance]), strict=True):
                set_text(part, words)
            parts[1].setAccessibleName(output.label)
            set_role(parts[2], "published" if COLORS[output.provenance] == "published" else "secondary")


def _answer(one: Lab, values: Values, along: str) -> tuple[Lab, str, Found, Chart, str]:
    """Work everything out that needs no Qt."""
    found = one.evaluate(values)
    return one, one.sentence(values, found), found, chart(one, values, sweep(one, values, along)), one.check
