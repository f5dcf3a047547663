"""Recordings on the screen: the commands, the light that shows one is being made, and the bar that plays one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QHideEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFileDialog, QFrame, QHBoxLayout, QInputDialog, QPushButton, QSlider, QWidget

from app.model.recorder_controls import SPEEDS, SUFFIX, Tape, recordings_dir
from app.model.store import Store
from app.text.format import MINUS, quantity_text
from app.views.actions import Actions
from app.views.widgets.common import Choice, ElidedLabel, fill, label, set_text
from app.views.widgets.theme import Theme

_FILTER = f"Trilemma recordings (*{SUFFIX});;All files (*)"
_TICKS = 10_000
_PLAY_MS, _LIGHT_MS = 50, 500
_BUFFER_S = 60.0
_NAMED_FROM_PX = 640  # the width of the bar that has room for the recording's name


def clock_text(seconds: float) -> str:
    """Return a time as people read tapes: ``1:02:07.5``, ``02:07.5``."""
    tenths = round(abs(seconds) * 10)
    hours, rest = divmod(tenths, 36_000)
    minutes, rest = divmod(rest, 600)
    text = f"{minutes:02d}:{rest // 10:02d}.{rest % 10}"
    return (MINUS if seconds < 0 and tenths else "") + (f"{hours}:{text}" if hours else text)


class TapeCommands:
    """Recording commands of the Board menu.

    Parameters
    ----------
    refuse
        Takes the reason of a refusal in a sentence; "" clears it.
    open_recording
        Attaches a recording in place of the board.
    """

    def __init__(
        self,
        actions: Actions,
        tape: Tape,
        window: QWidget,
        refuse: Callable[[str], object],
        open_recording: Callable[[Path], object],
    ) -> None:
        self._tape, self._window, self._refuse, self._open = tape, window, refuse, open_recording
        actions.separate("&Board")
        self._record = actions.add(
            "&Board", "record", "&Record", self._toggle, "Ctrl+Shift+R", "Record everything the board reports to a file"
        )
        self._record.setCheckable(True)
        tip = "Write the last seconds of samples that are in memory to a file"
        self._save = actions.add("&Board", "save_buffer", "Save the &last seconds…", self._ask_save, tip=tip)
        actions.add("&Board", "open_recording", "&Open recording…", self._ask_open, "Ctrl+Shift+O")
        tip = "Play or pause the recording"
        self._play = actions.add("&Board", "play", "&Play or pause the recording", tape.toggle, tip=tip)
        tape.changed.connect(self._show)
        tape.refused.connect(refuse)
        self._show()

    def _toggle(self) -> None:
        if self._tape.recorder is None:
            self._refuse(self._tape.record())
        else:
            self._tape.stop()
        self._show()

    def _ask_save(self) -> None:
        title, words = "Save the last seconds", "Seconds back from now:"
        seconds, chosen = QInputDialog.getDouble(self._window, title, words, _BUFFER_S, 1.0, 36_000.0, 0)
        if not chosen:
            return
        name, _ = QFileDialog.getSaveFileName(self._window, title, str(_folder() / f"buffer{SUFFIX}"), _FILTER)
        if name:
            path = Path(name)
            self._tape.save_buffer(path if path.suffix else path.with_suffix(SUFFIX), seconds)

    def _ask_open(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self._window, "Open recording", str(_folder()), _FILTER)
        if name:
            self._open(Path(name))

    def _show(self) -> None:
        tape = self._tape
        self._record.setChecked(tape.recorder is not None)
        self._record.setEnabled(tape.position is None)
        self._save.setEnabled(tape.position is None)
        self._play.setEnabled(tape.position is not None)


def _folder() -> Path:
    folder = recordings_dir()
    return folder if folder.is_dir() else Path.home()


class RecordLight(ElidedLabel):
    """Says in the status bar that a recording is being made: how long, how large, and to which file."""

    def __init__(self, tape: Tape) -> None:
        super().__init__("bad", Qt.AlignmentFlag.AlignRight)
        self.setObjectName("record.light")
        self.setAccessibleName("Recording")
        self.setMinimumWidth(380)
        self._tape = tape
        self._tick = QTimer(self, interval=_LIGHT_MS)
        self._tick.timeout.connect(self._show)
        tape.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        recorder = self._tape.recorder
        self.setVisible(recorder is not None)
        if recorder is None:
            self._tick.stop()
            return
        self._tick.start()
        dropped = f" · {recorder.n_dropped} frames dropped" if recorder.n_dropped else ""
        size = quantity_text(float(recorder.n_byte), "byte")
        self.setText(f"● Recording {clock_text(recorder.age_s())} · {size}{dropped} · {recorder.path.name}")
        self.set_tip(str(recorder.path))


class Scrubber(QSlider):
    """The length of a recording, where it is played, and a tick for each gap. A click jumps there."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setObjectName("replay.position")
        self.setAccessibleName("Position in the recording")
        self.setRange(0, _TICKS)
        self.setPageStep(_TICKS // 20)
        self.setSingleStep(_TICKS // 200)
        self.setMinimumWidth(120)
        self._theme = theme
        self._marks: list[float] = []
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the size of a line."""
        return QSize(300, 22)

    def show_marks(self, shares: list[float]) -> None:
        """Show ticks at shares of the length, 0 to 1."""
        if shares != self._marks:
            self._marks = shares
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the length, what was played of it, the ticks and the handle."""
        p, painter = self._theme.palette, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        left, width, middle = 7.0, self.width() - 14.0, self.height() / 2
        at = left + width * self.value() / _TICKS
        painter.setPen(Qt.PenStyle.NoPen)
        for color, end in (("line", left + width), ("accent", at)):
            painter.setBrush(p.color(color))
            painter.drawRoundedRect(QRectF(left, middle - 2, end - left, 4), 2, 2)
        painter.setPen(QPen(p.color("bad"), 1))
        for share in self._marks:
            x = left + width * share
            painter.drawLine(QPointF(x, middle - 7), QPointF(x, middle + 7))
        painter.setPen(QPen(p.color("text" if self.hasFocus() else "accent"), 1))
        painter.setBrush(p.color("accent"))
        painter.drawEllipse(QPointF(at, middle), 6, 6)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Jump to where the pointer is, and follow it."""
        self.setSliderDown(True)
        self._go(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follow the pointer."""
        if self.isSliderDown():
            self._go(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Stay where it was let go."""
        self.setSliderDown(False)

    def _go(self, event: QMouseEvent) -> None:
        share = (event.position().x() - 7.0) / max(self.width() - 14.0, 1.0)
        self.setValue(round(_TICKS * min(max(share, 0.0), 1.0)))


class ReplayBar(QFrame):
    """Play, stand, jump, speed. There only while a recording is open."""

    def __init__(self, store: Store, tape: Tape, theme: Theme) -> None:
        super().__init__()
        self.setObjectName("replay")
        self.setProperty("role", "card")
        self._store, self._tape = store, tape
        self._play = QPushButton("Play")
        self._play.setObjectName("replay.play")
        self._play.setAccessibleName("Play the recording")
        self._play.setMinimumWidth(72)
        self._play.setToolTip("Play or pause (Space)")
        self._play.clicked.connect(tape.toggle)
        self._scrubber = Scrubber(theme)
        self._scrubber.valueChanged.connect(self._moved)
        self._time = label("", "secondary")
        self._time.setAccessibleName("Time in the recording")
        self._name = ElidedLabel("dim")
        self._name.setAccessibleName("Recording")
        self._name.setMinimumWidth(180)
        self._speed = Choice(theme, "Speed", "replay.speed")
        self._speed.setMaximumWidth(120)
        self._speed.show_options([(str(speed), _speed_text(speed)) for speed in SPEEDS], "1.0")
        self._speed.activated.connect(lambda _: tape.play(speed=float(self._speed.currentData())))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 5, 14, 5)
        layout.setSpacing(10)
        fill(layout, (self._play, self._scrubber, self._time, self._speed, self._name))
        layout.setStretch(1, 3)
        layout.setStretch(4, 2)
        self._tick = QTimer(self, interval=_PLAY_MS)
        self._tick.timeout.connect(self._refresh)
        tape.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        position = self._tape.position
        self.setVisible(position is not None)
        if position is None:
            return
        self._play.setText("Play" if position.paused else "Pause")
        self._play.setAccessibleName("Play the recording" if position.paused else "Pause the recording")
        self._speed.show_options([(str(s), _speed_text(s)) for s in SPEEDS], str(position.speed))
        recording = self._store.link.hello.get("recording", {})
        self._name.setText(f"{recording.get('file', '')} · {str(recording.get('time_utc', ''))[:19].replace('T', ' ')}")
        self._refresh()

    def _refresh(self) -> None:
        position = self._tape.position
        if position is None or not self.isVisible():
            return
        length_s = max(position.last_s - position.first_s, 1e-9)
        if not self._scrubber.isSliderDown():
            blocked = self._scrubber.blockSignals(True)
            self._scrubber.setValue(round(_TICKS * min(max((position.now_s - position.first_s) / length_s, 0.0), 1.0)))
            self._scrubber.blockSignals(blocked)
            self._scrubber.update()
        self._scrubber.show_marks([(mark.t_s - position.first_s) / length_s for mark in self._tape.marks])
        set_text(self._time, f"{clock_text(position.now_s - position.first_s)} / {clock_text(length_s)}")

    def _moved(self, value: int) -> None:
        position = self._tape.position
        if position is not None:
            self._tape.play(t_s=position.first_s + (position.last_s - position.first_s) * value / _TICKS)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the name out where there is no room for it."""
        super().resizeEvent(event)
        self._name.setVisible(self.width() >= _NAMED_FROM_PX)

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the position."""
        super().showEvent(event)
        self._tick.start()
        self._refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Cost nothing while there is no recording."""
        super().hideEvent(event)
        self._tick.stop()


def _speed_text(speed: float) -> str:
    return "max" if speed == 0 else f"{speed:g} ×"
