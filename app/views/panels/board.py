"""The board: how it is attached, what it is, its sensors with unit, source or the reason they are absent."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.library.bandwidth import BUSY
from app.library.data_sheet import THIS, DataSheet, chosen_key, found_words, sheets
from app.model.conductor import Conductor
from app.model.store import Store
from app.text.format import as_sentence, brief, counted, number_text, quantity_text
from app.text.names import channel_name, channel_text
from app.text.published import published_figures
from app.text.state_text import state_rows, unknown_text
from app.views.panels.palette import plain
from app.views.widgets.common import Choice, Dock, ElidedLabel, clear, label, row, set_role, set_text, set_tip
from app.views.widgets.page import Scroll
from app.views.widgets.theme import PADDING, Theme

_PACE_MS = 500
_RATE_SPAN_S = 5.0
_SILENT_S = 3.0  # of an agent that is pinged each second: from then on it does not answer
_STATE_ROLES = {"attached": "ok", "lost": "bad", "does not answer": "bad", "connecting": "dim", "detached": "dim"}
_FACTS = ("State", "Board", "Memory", "Bandwidth", "Samples", "Clock")


class BoardPanel(QWidget):
    """Facts of the attached board and one row a sensor."""

    def __init__(self, store: Store, conductor: Conductor, theme: Theme, reconnect: QAction) -> None:
        super().__init__()
        self.setObjectName("board")
        self._store, self._conductor = store, conductor
        self._dock: Dock | None = None
        self._facts: dict[str, QLabel | ElidedLabel] = {name: ElidedLabel("secondary") for name in _FACTS}
        self._facts["State"] = label("", "secondary", wrap=True)
        self.sheet = Choice(theme, "Data sheet of the board", "board.data_sheet")
        self.sheet.activated.connect(lambda _index: conductor.choose_sheet(self.sheet.currentData()))
        self._found = label("", "dim", wrap=True)
        self._found.setObjectName("board.data_sheet.found")
        self._published_heading, self._published = label("", "heading", wrap=True), label("", "secondary", wrap=True)
        self._published.setObjectName("board.published")
        self._published_figures = QVBoxLayout()
        self._published_figures.addWidget(self._published_heading)
        self._published_figures.addWidget(self._published)
        self._values: dict[str, ElidedLabel] = {}
        self._shown: Sequence[object] = ()
        self._shown_state: object = None
        self._state_rows: list[tuple[QLabel, QLabel, QLabel]] = []  # name, value, warning
        self._silent = False
        self._reconnect = QPushButton(plain(reconnect))
        self._reconnect.setObjectName("reconnect.button")
        self._reconnect.setAccessibleName("Reconnect the board now")
        self._reconnect.clicked.connect(reconnect.trigger)
        self._build()
        self._tick = QTimer(self, interval=_PACE_MS)
        self._tick.timeout.connect(self._refresh_values)
        self._tick.start()
        store.changed.connect(self._on_changed)
        self._refresh()

    def _build(self) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(3)
        grid.setColumnStretch(1, 1)
        for i, (name, value) in enumerate(self._facts.items()):
            grid.addWidget(label(name, "dim"), i, 0, Qt.AlignmentFlag.AlignTop)
            value.setAccessibleName(name)
            grid.addWidget(value, i, 1)
        grid.addWidget(label("Data sheet", "dim"), len(_FACTS), 0, Qt.AlignmentFlag.AlignVCenter)
        grid.addWidget(self.sheet, len(_FACTS), 1)
        grid.addWidget(self._found, len(_FACTS) + 1, 1)
        self._sensors = QGridLayout()
        self._sensors.setHorizontalSpacing(10)
        self._sensors.setVerticalSpacing(3)
        self._sensors.setColumnStretch(1, 1)
        self._board_state = QGridLayout()
        self._board_state.setHorizontalSpacing(10)
        self._board_state.setVerticalSpacing(3)
        self._board_state.setColumnStretch(1, 1)
        self._state_heading = label("State of the board", "heading")
        self._sensors_heading = label("Sensors", "heading")
        self._unknown = label("", "dim", wrap=True)
        self._unknown.setObjectName("board.unknown")
        page = QWidget()
        page.setObjectName("page")
        inside = QVBoxLayout(page)
        inside.setContentsMargins(PADDING, 2, PADDING, PADDING - 4)
        inside.setSpacing(6)
        inside.addLayout(grid)
        inside.addLayout(row(self._reconnect, 1))
        inside.addLayout(self._published_figures)
        inside.addWidget(self._state_heading)
        inside.addLayout(self._board_state)
        inside.addWidget(self._unknown)
        inside.addWidget(self._sensors_heading)
        inside.addLayout(self._sensors)
        inside.addStretch(1)
        area = Scroll("board.area", "Board and sensors", page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(area)

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path == "link":
            self._show_aside()
        if path in ("link", "catalogue", "point", "point.board"):
            self._refresh()

    def _refresh(self) -> None:
        link, hello = self._store.link, self._store.link.hello
        board = hello.get("board", {})
        facts = {
            "Board": _board_text(board, simulated=bool(hello.get("simulated"))),
            "Memory": quantity_text(float(board["memory_byte"]), "byte") if "memory_byte" in board else "not known",
            "Bandwidth": self._bandwidth(),
        }
        for name, text in facts.items():
            set_text(self._facts[name], str(text))
        self._show_published()
        self._show_sheet(bool(hello))
        self._show_board_state(hello.get("state", {}))
        self._reconnect.setVisible(link.state in ("lost", "detached"))
        self._sensors_heading.setVisible(bool(link.channels))
        if link.channels != self._shown:
            self._show_channels()
        self._refresh_values()

    def _show_published(self) -> None:
        """Show the published figures of the point's board, with their sources on hover."""
        board = self._store.catalogue.boards[self._store.point.board]
        figures = published_figures(board)
        set_text(self._published_heading, f"Published for {board.name}")
        set_text(self._published, "\n".join(f"{one.name}: {one.text}" for one in figures))
        set_tip(self._published, "\n".join(f"{one.name}: {one.source}" for one in figures))
        for part in (self._published_heading, self._published):
            part.setVisible(bool(figures))

    def _bandwidth(self) -> str:
        """Return the bandwidth of the attached board, without one that of the point's, and its origin."""
        store = self._store
        board = store.catalogue.boards[THIS if store.link.hello else store.point.board]
        key, mode = next(iter(board.power_modes.items()))
        if mode.cpu_bandwidth_byte_s is not None:
            of_cores = quantity_text(mode.cpu_bandwidth_byte_s, "byte/s")
            return f"{quantity_text(mode.bandwidth_byte_s, 'byte/s')} · CPU {of_cores}"
        source = board.sources.get(f"{key}.bandwidth_byte_s", "")
        assumed = "peak of the data sheet" if board.data_sheet or board.key in sheets() else "assumed"
        word = "measured, read" if source.startswith("measured") else assumed
        word = "measured, disturbed" if source.endswith(BUSY) else word
        return f"{quantity_text(mode.bandwidth_byte_s, 'byte/s')} {word}"

    def _show_sheet(self, attached: bool) -> None:
        """Show which data sheet describes the board, by what it was found, and the others."""
        known, found = sheets(), self._conductor.sheet
        chosen = chosen_key(found)
        if chosen:
            first = "recognise it again"
        else:
            first = f"{known[found.key].name} (found)" if isinstance(found, DataSheet) else "none found"
        options = [("", first), (THIS, "none"), *((key, board.name) for key, board in known.items())]
        self.sheet.show_options(options, chosen)
        self.sheet.setEnabled(attached)
        words = found_words(found.by) if isinstance(found, DataSheet) else f"{found.reason}: generic priors are used"
        words = f"{words[:1].upper()}{words[1:]}." if attached else ""
        set_text(self._found, words)
        self._found.setVisible(bool(words))

    def _show_board_state(self, state: Mapping[str, Any]) -> None:
        """Show each entry in a row, and below it, in a colour of its own, what would spoil a measurement."""
        rows = state_rows(state)
        unknown, reasons = unknown_text(state)
        if (rows, unknown) == self._shown_state:
            return
        self._shown_state = (rows, unknown)
        while len(self._state_rows) < len(rows):
            self._add_state_row()
        for i, (head, value, said) in enumerate(self._state_rows):  # kept from state to state: new ones would flicker
            name, text, warning = rows[i] if i < len(rows) else ("", "", "")
            set_text(head, name)
            set_text(value, text)
            value.setAccessibleName(name)
            set_text(said, f"Warning: {warning}." if warning else "")
            said.setAccessibleName(f"Warning about {name}")
            for part in (head, value):
                part.setVisible(i < len(rows))
            said.setVisible(bool(warning))
        set_text(self._unknown, unknown)
        set_tip(self._unknown, reasons)
        self._unknown.setVisible(bool(unknown))
        self._state_heading.setVisible(bool(rows or unknown))

    def _add_state_row(self) -> None:
        made = label("", "dim"), label("", "secondary", wrap=True), label("", "bad", wrap=True)
        at = 2 * len(self._state_rows)
        self._board_state.addWidget(made[0], at, 0, Qt.AlignmentFlag.AlignTop)
        self._board_state.addWidget(made[1], at, 1)
        self._board_state.addWidget(made[2], at + 1, 0, 1, 2)
        self._state_rows.append(made)

    def _show_channels(self) -> None:
        clear(self._sensors)
        self._shown = self._store.link.channels
        self._values = {}
        for i, channel in enumerate(sorted(self._store.link.channels, key=lambda c: bool(c.absent))):
            words = channel_name(channel.key)
            name = label(
                f"{words}: {brief(channel.absent)}" if channel.absent else words, "dim", wrap=bool(channel.absent)
            )
            set_tip(name, channel_text(channel))
            if channel.absent:
                self._sensors.addWidget(name, i, 0, 1, 2)
                continue
            value = ElidedLabel("secondary", Qt.AlignmentFlag.AlignRight)
            value.setAccessibleName(words)
            value.setText("–")
            self._sensors.addWidget(name, i, 0)
            self._sensors.addWidget(value, i, 1)
            self._values[channel.key] = value

    def _refresh_values(self) -> None:
        self._show_state()
        if not self.isVisible():
            return
        link = self._store.link
        units = {channel.key: channel.unit for channel in link.channels}
        for key, value in self._values.items():
            latest = self._conductor.history.latest(link.channels, key)
            set_text(value, "–" if latest is None else quantity_text(latest, units[key]))
        set_text(self._facts["Samples"], self._samples_text())
        set_text(self._facts["Clock"], self._clock_text())

    def _show_state(self) -> None:
        """Show the state of the link, and the silence of a board that sends nothing."""
        link = self._store.link
        state = as_sentence(link.text)
        if link.retry_at_s is not None:
            state += f" Next try in {max(link.retry_at_s - time.monotonic(), 0):.0f} s."
        silent_s = self._conductor.silent_s if link.state == "attached" else 0.0
        if silent_s > _SILENT_S:
            state = f"It has not answered for {silent_s:.0f} s."
        set_text(self._facts["State"], state)
        if self._silent != (silent_s > _SILENT_S):
            self._silent = not self._silent
            self._show_aside()

    def _samples_text(self) -> str:
        link = self._store.link
        if not self._values:
            return "none"
        t_s, _ = self._conductor.history.series(link.channels, next(iter(self._values)), _RATE_SPAN_S)
        lost = "none lost" if link.n_lost == 0 else f"{link.n_lost} lost"
        return f"{len(t_s) / _RATE_SPAN_S:.0f} Hz · {len(self._values)} channels · {lost}"

    def _clock_text(self) -> str:
        """Return the accuracy of the board's clock: bound of its offset, and its drift."""
        read = self._conductor.tape.clock
        if self._store.link.state != "attached" or read is None or not math.isfinite(read.bound_s):
            return "no reading yet"
        return f"±{quantity_text(read.bound_s, 's', 2)} · drift {number_text(read.drift * 1e6, 1)} ppm"

    def follow(self, dock: Dock) -> None:
        """Show the state in the dock's title."""
        self._dock = dock
        self._show_aside()

    def _show_aside(self) -> None:
        if self._dock is not None:
            state = "does not answer" if self._silent else self._store.link.state
            set_text(self._dock.aside, f"● {state}" if state == "attached" else f"○ {state}")
            set_role(self._dock.aside, _STATE_ROLES[state])


def _board_text(board: Mapping[str, Any], *, simulated: bool) -> str:
    """Return the board's name, its processor where that is another name, and what it has of both.

    The name of a simulated board says all.
    """
    if not board:
        return "not attached"
    name, cpu = str(board["name"]), str(board.get("cpu", ""))
    parts = [name] if simulated or not cpu or cpu in name else [name, cpu]
    if "n_threads" in board:
        parts.append(counted(int(board["n_threads"]), "thread"))
    if board.get("virtual"):
        parts.append("virtual")
    return " · ".join(parts)
