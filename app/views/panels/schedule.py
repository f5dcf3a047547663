"""The schedule view: when what runs. The request of the point, or a file with operations, stages or tasks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QFileDialog, QTableWidget, QTableWidgetItem

from app.library.timelines import Chain, Graph, Request, Tasks, graph_of_point, request_of, timing_of_file
from app.model.background import Background
from app.model.commands import SetValue
from app.model.store import Store
from app.text.schedule_data import ScheduleContent, Timeline, content_of
from app.views.widgets.common import Card, Choice, label, row, set_role, set_text
from app.views.widgets.page import Page
from app.views.widgets.theme import Theme
from app.views.widgets.timeline import TimelineView

_PACE_MS = 150
_FILE = "file"
_LAYER, _TOKEN = "model.layer", "model.token"
OPTIONS = (
    ("", "the request of this point"),
    (_LAYER, "this model: one layer on two engines"),
    (_TOKEN, "this model: all layers on two engines"),
    ("schedule", "example: operations on two engines"),
    ("pipeline", "example: mixed-precision pipeline"),
    ("realtime", "example: real-time tasks"),
)
_ROW_PX, _MOST_ROWS = 24, 200


class ScheduleView(Page):
    """A timeline with its deadline, worst case and jitter."""

    def __init__(self, store: Store, stack: QUndoStack, theme: Theme) -> None:
        self._store, self._stack = store, stack
        self.sentence = label("", wrap=True, selectable=True)
        self.sentence.setAccessibleName("Result of the schedule")
        self._facts = label("", "dim", wrap=True, selectable=True)
        self._choice = Choice(theme, "Schedule of", "schedule.file")
        self._choice.activated.connect(lambda i: self._chosen(self._choice.itemData(i)))
        self._choice.setMinimumWidth(290)
        self.timeline = TimelineView(theme, "schedule.timeline", "Timeline")
        self.inside = TimelineView(theme, "schedule.inside", "Inside a token")
        self.table = QTableWidget()
        self.table.setObjectName("schedule.table")
        self.table.setAccessibleName("The schedule as a table")
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.verticalHeader().hide()
        self.table.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft)
        super().__init__(
            "schedule", "Schedule", [self._top(), self._middle(), self._within(), self._bottom()], fill=False
        )
        self._work = Background(self)
        self.follow(store, _concerns, self._ask, _PACE_MS)
        store.changed.connect(self._on_changed)
        self._show_choice()

    def _top(self) -> Card:
        card = Card()
        card.body.addLayout(row(label("Schedule of", "dim"), self._choice, 1))
        card.body.addWidget(self.sentence)
        card.body.addWidget(self._facts)
        return card

    def _middle(self) -> Card:
        card = Card()
        card.body.addWidget(label("Timeline", "heading"))
        card.body.addWidget(self.timeline)
        return card

    def _within(self) -> Card:
        self._token = Card()
        self._token.body.addWidget(label("Inside a token", "heading"))
        self._token.body.addWidget(self.inside)
        return self._token

    def _bottom(self) -> Card:
        self._below = Card()
        self._below.body.addWidget(self.table)
        return self._below

    # ---- what the user does

    def _chosen(self, key: str) -> None:
        if key == _FILE:
            name, _ = QFileDialog.getOpenFileName(self, "Open a schedule", "", "Schedules (*.toml)")
            key = name or self._store.get("schedule.file")
        if key != self._store.get("schedule.file"):
            self._stack.push(SetValue(self._store, "schedule.file", key))
        self._show_choice()

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path == "schedule.file":
            self._show_choice()

    def _show_choice(self) -> None:
        chosen = self._store.get("schedule.file")
        own = [] if chosen in dict(OPTIONS) else [(chosen, Path(chosen).name)]
        self._choice.show_options([*OPTIONS, *own, (_FILE, "File…")], chosen)

    def _ask(self) -> None:
        store, name = self._store, self._store.get("schedule.file")
        if name in (_LAYER, _TOKEN):
            n_layers = 1 if name == _LAYER else None
            known = (store.point, store.catalogue, store.prediction, store.limits.latency_s)
            self._work.run(partial(graph_of_point, *known, n_layers), self.show_found)
        elif name:
            self._work.run(partial(timing_of_file, name), self.show_found)
        else:
            request = request_of(store.point, store.catalogue, store.prediction, store.limits.latency_s)
            self._work.run(lambda: request, self.show_found)

    def show_found(self, found: Graph | Chain | Tasks | Request | ValueError) -> None:
        """Show a timing, or why there is none."""
        if isinstance(found, ValueError):
            shown = ScheduleContent(Timeline((), (), "s", message="–"), f"It cannot be shown: {found}.")
        else:
            shown = content_of(found)
        set_text(self.sentence, shown.sentence[0].upper() + shown.sentence[1:])
        set_role(self.sentence, "bad" if shown.holds is False else "")
        set_text(self._facts, "\n".join(shown.facts))
        self.timeline.show_timeline(shown.timeline)
        self._token.setVisible(shown.inside is not None)
        if shown.inside is not None:
            self.inside.show_timeline(shown.inside)
        self._show_table(shown.table)

    def _show_table(self, rows: tuple[tuple[str, ...], ...]) -> None:
        self._below.setVisible(bool(rows))
        head, *body = rows or ((),)
        body = body[:_MOST_ROWS]
        self.table.setRowCount(len(body))
        self.table.setColumnCount(len(head))
        self.table.setHorizontalHeaderLabels(list(head))
        for i, cells in enumerate(body):
            for k, text in enumerate(cells):
                self.table.setItem(i, k, QTableWidgetItem(text))
        self.table.resizeColumnsToContents()
        self.table.verticalHeader().setDefaultSectionSize(_ROW_PX)
        self.table.setFixedHeight(_ROW_PX * (len(body) + 1) + 8)


def _concerns(path: str) -> bool:
    return path in ("schedule.file", "prediction", "limits.latency")
