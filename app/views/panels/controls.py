"""The left column: the operating point, and what to do with it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction, QUndoStack
from PySide6.QtWidgets import QGridLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.library.axes import SLIDERS
from app.library.machine import modes_here
from app.library.prediction_curves import Mark
from app.model.commands import SetValue
from app.model.store import Store
from app.text.format import at_most_text, change_text, exact_text, number_text
from app.text.names import short_name
from app.text.published import beta_choices
from app.text.quantities import LATENCY, POWER, REQUEST, SUSTAINED, TOP1, Quantity
from app.views.panels.palette import plain
from app.views.widgets.common import Choice, ElidedLabel, label, row, set_text, set_tip
from app.views.widgets.field import QuantityField
from app.views.widgets.page import Scroll
from app.views.widgets.slider import SliderControl, SliderLine
from app.views.widgets.theme import PADDING, Theme
from core.predict.request import ANSWER_TOKENS
from core.spec import BY_PATH

ANSWER = Quantity("answer_tokens", "Tokens of the answer of a request", "Answer", "tokens", "limits.answer")
LIMITS = (LATENCY, POWER, TOP1, REQUEST, ANSWER, SUSTAINED)
_LIMIT_NAMES = {
    LATENCY: "Latency at most",
    POWER: "Power at most",
    TOP1: "Top-1 at least",
    REQUEST: "Request P99 at most",
    ANSWER: "Answer of a request",
    SUSTAINED: "Sustained at least",
}
_LIMIT_UNITS = {LATENCY: "ms", POWER: "W", TOP1: "", REQUEST: "s", ANSWER: "", SUSTAINED: ""}
_LIMIT_TIPS = {
    REQUEST: "99 % quantile of the time from a prompt of the context's length to the last token of its answer",
    ANSWER: "Tokens that a request generates",
    SUSTAINED: "Speed at the end of a simulated run, in the surroundings of the Energy view",
}
NAMES = {"point.layout": "Kept tokens", "point.reselect": "Re-select"}
"""Shorter names than the axis has, for the column."""

_BEFORE = list(BY_PATH).index(SLIDERS[0])
ABOVE = tuple(list(BY_PATH)[:_BEFORE])
BELOW = tuple(path for path in list(BY_PATH)[_BEFORE:] if path not in SLIDERS and not BY_PATH[path].aside)
"""The choices above and below the sliders, in the order of the table of fields."""
ASIDE = tuple(path for path, field in BY_PATH.items() if field.aside)
"""The controls under "More"."""
BARE_UNITS = {"point.bandwidth": "GB/s"}
STOPS = ("point.weights", "point.kv")
"""Choices that are sliders as well, since their options have an order: fewer to more bits."""
_WORDS_MS, _DOTS_MS = 50, 120  # what is said and marked under the sliders follows a drag at this pace


class Controls(QWidget):
    """Choices and sliders of the operating point.

    Parameters
    ----------
    store : Store
    stack : QUndoStack
        Gets one command for each change.
    theme : Theme
    measure, pin : QAction
        What the two buttons do.
    """

    refused = Signal(str)

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme, measure: QAction, pin: QAction) -> None:
        super().__init__()
        self.setObjectName("controls")
        self._store, self._stack, self._theme = store, stack, theme
        self.choices = {path: self._choice(path) for path in (*ABOVE, *BELOW, *ASIDE) if path not in SLIDERS}
        self.sliders = {path: self._slider(path) for path in SLIDERS}
        self.stops = {path: self._stops(path) for path in STOPS}
        self._names = {path: label(NAMES.get(path, store.axis_range(path).label)) for path in self.choices}
        self.more = self._more_button()
        self._hidden = set[str]()  # sliders
        self.limits = {quantity: self._limit(quantity) for quantity in LIMITS}
        self._limit_words = label("", "bad", wrap=True)
        self._activity, self._progress = ElidedLabel("dim"), QProgressBar()
        self._build(measure, pin)
        self._later = QTimer(self, singleShot=True, interval=_DOTS_MS)
        self._later.timeout.connect(self._refresh_marks)
        self._soon = QTimer(self, singleShot=True, interval=_WORDS_MS)
        self._soon.timeout.connect(self._say)
        store.changed.connect(self._on_changed)
        self._refresh()
        self._refresh_marks()
        self._say()
        self._refresh_activity()
        self._refresh_limits()
        self._limit_words.hide()

    # ---- made once

    def _choice(self, path: str) -> Choice:
        store = self._store

        def shorten(key: str, name: str) -> str:
            return short_name(path, key, name, store.catalogue)

        choice = Choice(self._theme, store.axis_range(path).label, path, shorten)
        choice.activated.connect(lambda i, c=choice: self._move(path, c.itemData(i), -1))
        if BY_PATH[path].read is not None:
            choice.take_text(lambda text: self._move(path, text, -1))
        return choice

    def _stops(self, path: str) -> SliderLine:
        store, axis = self._store, self._store.axis_range(path)
        line = SliderLine(self._theme, axis, f"{axis.label} by bits")
        line.moved.connect(lambda at, drag: self._move(path, store.axis_range(path).options[round(at)][0], drag))
        line.reset.connect(lambda: self._reset(path))
        return line

    def _slider(self, path: str) -> SliderControl:
        control = SliderControl(self._theme, self._store.axis_range(path), BARE_UNITS.get(path, ""))
        if path == "point.beta":
            control.offer("Published factors, relative to ARM SVE2", beta_choices(self._store.catalogue.boards))
        control.moved.connect(self._move)
        control.reset.connect(self._reset)
        return control

    def _more_button(self) -> QPushButton:
        button = QPushButton("More")
        button.setObjectName("controls.more")
        button.setAccessibleName("More options of the operating point")
        button.setToolTip("Score weights, activations, layouts, sparsity, on-chip memory, adapters")
        button.setCheckable(True)
        button.toggled.connect(lambda _: self._refresh_aside())
        return button

    def _limit(self, quantity: Quantity) -> QuantityField:
        field = QuantityField(
            _LIMIT_NAMES[quantity],
            quantity.limit,
            quantity.unit,
            _LIMIT_UNITS[quantity],
            optional=True,
            per_token=quantity is LATENCY,
        )
        field.setPlaceholderText(f"{ANSWER_TOKENS:g} tokens" if quantity is ANSWER else "no limit")
        set_tip(field, _LIMIT_TIPS.get(quantity, ""))
        field.setFixedWidth(106)
        field.entered.connect(lambda value: self._set_limit(quantity, value))
        field.refused.connect(self._refused_limit)
        return field

    def _limit_grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setVerticalSpacing(6)
        for i, (quantity, field) in enumerate(self.limits.items()):
            grid.addWidget(label(_LIMIT_NAMES[quantity]), i, 0)
            grid.addWidget(field, i, 1, Qt.AlignmentFlag.AlignRight)
        grid.addWidget(self._limit_words, len(self.limits), 0, 1, 2)
        return grid

    def _grid(self, paths: tuple[str, ...]) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        grid.setColumnMinimumWidth(0, 72)
        for i, path in enumerate(paths):
            grid.addWidget(self._names[path], 2 * i, 0)
            grid.addWidget(self.choices[path], 2 * i, 1)
            if path in self.stops:
                grid.addWidget(self.stops[path], 2 * i + 1, 0, 1, 2)
        return grid

    def _build(self, measure: QAction, pin: QAction) -> None:
        page = QWidget()
        page.setObjectName("page")
        inside = QVBoxLayout(page)
        inside.setContentsMargins(PADDING, 4, PADDING, 4)
        inside.setSpacing(9)
        inside.addLayout(self._grid(ABOVE))
        for path, control in self.sliders.items():
            if path not in ASIDE:
                inside.addWidget(control)
        inside.addLayout(self._grid(BELOW))
        inside.addWidget(self.more, 0, Qt.AlignmentFlag.AlignLeft)
        for path in ASIDE:
            if path in self.sliders:
                inside.addWidget(self.sliders[path])
        inside.addLayout(self._grid(tuple(path for path in ASIDE if path in self.choices)))
        inside.addSpacing(6)
        inside.addWidget(label("Limits", "heading"))
        inside.addLayout(self._limit_grid())
        inside.addStretch(1)
        area = Scroll("controls.area", "Operating point", page)
        self._progress.setRange(0, 1000)
        self._progress.setTextVisible(False)
        self._progress.setObjectName("controls.progress")
        self._progress.setAccessibleName("Progress of the job on the board")
        self.measure, self.pin = _button(measure, "primary"), _button(pin, "")
        foot = QVBoxLayout()
        foot.setContentsMargins(PADDING, 4, PADDING, PADDING - 4)
        foot.setSpacing(6)
        foot.addWidget(self._activity)
        foot.addWidget(self._progress)
        foot.addLayout(row(self.measure, self.pin, spacing=8))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(area, 1)
        layout.addLayout(foot)

    # ---- what the user does

    def _move(self, path: str, value: object, drag: int) -> None:
        try:
            command = SetValue(self._store, path, value, None if drag < 0 else drag)
        except ValueError as error:
            sentence = str(error).replace(path, self._store.axis_range(path).label)
            if path in self.sliders:
                self.sliders[path].field.refuse(sentence)
            self.refused.emit(sentence)
            return
        self._stack.push(command)
        if path in self.sliders:  # a value already there changes nothing in the store, but is shown as it holds
            self._refresh_slider(path)

    def _set_limit(self, quantity: Quantity, value: object) -> None:
        try:
            self._stack.push(SetValue(self._store, quantity.limit, value))
        except ValueError as error:
            self.limits[quantity].refuse(str(error).replace(quantity.limit, _LIMIT_NAMES[quantity]))

    def _refused_limit(self, sentence: str) -> None:
        set_text(self._limit_words, sentence)
        self._limit_words.setVisible(bool(sentence))

    def _refresh_limits(self) -> None:
        for quantity, field in self.limits.items():
            field.show_value(self._store.get(quantity.limit))

    def _reset(self, path: str) -> None:
        default = BY_PATH[path].default
        at_most = self._store.axis_range(path).high
        self._move(path, min(default, at_most) if isinstance(default, float) else default, -1)

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path in self.sliders:
            self._refresh_slider(path)
            self._refresh_aside()
        elif path in self.choices or path in ("catalogue", "link"):
            self._refresh()
        elif path == "prediction":
            if not self._soon.isActive():
                self._soon.start()
            self._later.start()
        elif path == "measurements":
            self._later.start()
        elif path == "activity":
            self._refresh_activity()
        elif path.startswith("limits."):
            self._refresh_limits()
            self._refresh_slider("point.alpha")

    def _refresh(self) -> None:
        store = self._store
        for path, choice in self.choices.items():
            axis = store.axis_range(path)
            modes = path == "point.power_mode"
            options = modes_here(axis.options, store.point, store.link.hello) if modes else axis.options
            choice.show_options(options, store.get(path) or axis.options[0][0])
        self._show_choice("point.power_mode", len(store.axis_range("point.power_mode").options) > 1)
        self._refresh_aside()
        for path in self.sliders:
            self._refresh_slider(path)
        self._refresh_stops()

    def _refresh_stops(self) -> None:
        store = self._store
        for path, line in self.stops.items():
            dots = tuple(store.dots("decode_s", path).x.tolist())
            line.show_value(store.axis_range(path), store.position(path), dots, None)

    def _refresh_aside(self) -> None:
        """Show all under "More", or those that are not at their defaults; what belongs to another one follows that."""
        point, more = self._store.point, self.more.isChecked()
        for path in ASIDE:
            field = BY_PATH[path]
            shown = more or self._store.get(path) != field.default
            if field.effective is not None:
                shown = field.effective(point)
            if path in self.choices:
                self._show_choice(path, shown)
                continue
            self.sliders[path].setVisible(shown)
            if shown and path in self._hidden:
                self._hidden.discard(path)
                self._refresh_words(path)
            elif not shown:
                self._hidden.add(path)

    def _show_choice(self, path: str, shown: bool) -> None:
        self.choices[path].setVisible(shown)
        self._names[path].setVisible(shown)

    def _refresh_slider(self, path: str) -> None:
        control, mark = self.sliders[path], self._store.r_max if path == "point.alpha" else Mark(None, "")
        control.show_value(self._store.axis_range(path), self._store.position(path), control.dots, mark.alpha)
        measured = self._store.beta_measured if path == "point.beta" else {}
        factors = ", ".join(f"{name} {number_text(beta, 2)}" for name, beta in measured.items())
        set_tip(control.line, f"Measured here, relative to the machine's own: {factors}." if factors else mark.text)

    def _say(self) -> None:
        for path in self.sliders:
            self._refresh_words(path)

    def _refresh_words(self, path: str) -> None:
        if path not in self._hidden:
            self.sliders[path].say(self._words(path))
            self._refresh_slider(path)

    def _refresh_marks(self) -> None:
        for path, control in self.sliders.items():
            if path in self._hidden:
                continue
            control.dots = tuple(self._store.dots("decode_s", path).x.tolist())
            if path == "point.beta":
                control.dots += tuple(self._store.beta_measured.values())
            self._refresh_slider(path)
        self._refresh_stops()

    def _words(self, path: str) -> str:
        board = self._store.catalogue.boards[self._store.point.board]
        if path == "point.on_chip_bandwidth" and self._store.get(path) is None and board.on_chip_byte_s is None:
            return "not known: these bytes take no time"
        step = self._store.sensitivities[path]
        own = "board's own · " if path == "point.bandwidth" and self._store.get(path) is None else ""
        if not step.binding:
            return f"{own}not binding here"
        now = self._store.prediction
        parts = []
        if step.decode_s is not None and abs(step.decode_s) > 0:
            parts.append(change_text(step.decode_s, "s", like=getattr(now.decode_s, "median", None)))
        if step.top1_agreement is not None and abs(step.top1_agreement) >= 5e-5:
            parts.append(f"top-1 {change_text(step.top1_agreement, 'frac')}")
        per = (
            "GB/s"
            if path == "point.bandwidth" and step.axis.step == 1e9
            else exact_text(step.axis.step, step.axis.unit)
        )
        mark = self._store.r_max.alpha
        if path == "point.alpha" and mark is not None and self._store.point.alpha > mark:
            own, parts = f"beyond r_max {at_most_text(mark, 2)} · ", parts[:1]
        if path == "point.alpha" and "alpha" not in self._store.catalogue.runtimes[self._store.point.runtime].knobs:
            own, parts = "not in this runtime · ", parts[:1]
        return f"{own}{', '.join(parts)} per {per.removesuffix(' tokens')}"

    def _refresh_activity(self) -> None:
        activity = self._store.activity
        running = activity.kind != "idle"
        self._progress.setVisible(running)
        self._progress.setValue(round(1000 * activity.done_frac))
        set_text(self._activity, activity.text)
        self._activity.setVisible(bool(activity.text))


def _button(action: QAction, role: str) -> QPushButton:
    """Return a button that is an action: same text, same tool tip, enabled when it is."""
    button = QPushButton(plain(action))
    button.setObjectName(f"{action.objectName()}.button")
    button.setAccessibleName(plain(action))
    button.setAutoDefault(False)
    if role:
        button.setProperty("role", role)

    def follow() -> None:
        button.setText(plain(action))
        button.setEnabled(action.isEnabled())
        shortcut = action.shortcut().toString()
        button.setToolTip(f"{action.toolTip()}{f' ({shortcut})' if shortcut else ''}")

    action.changed.connect(follow)
    button.clicked.connect(action.trigger)
    follow()
    return button
