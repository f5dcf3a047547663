"""Recording and replay as the screen drives them."""

import time
from datetime import UTC, datetime

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt

from app.client.events import ClockRead, Connected, Disconnected
from app.client.recorder import Recorder
from app.client.recording import Recording
from app.client.replay import ReplayTransport
from app.client.session import Session
from app.library.board_library import BoardLibrary
from app.model.commands import undo_stack
from app.model.conductor import Conductor
from app.model.recorder_controls import Tape, recordings_dir
from app.model.settings import Settings
from app.model.store import Store
from app.protocol import SAMPLES, Frame, record_struct
from app.views.main_window import MainWindow
from app.views.panels.recorder import clock_text
from app.views.widgets.theme import Theme
from core.catalogue.load import load_catalogue
from tests.waiting import PATIENCE_S

T0_NS = 5 * 10**12
CHANNEL = {"key": "board.power_w", "unit": "W", "source": "ina", "native_period_s": 0.1, "absent": ""}
HELLO = {
    "op": "hello",
    "protocol": 1,
    "agent": "9.9",
    "t_ns": T0_NS,
    "board": {"name": "Far board", "cpu": "Far CPU", "n_threads": 4},
    "can": {"measure": True, "bandwidth": True, "torch": "2"},
    "models": [{"file": "m.gguf", "byte": 1}],
}
POINT = {"board": "this", "model": "smollm2-135m", "weights": "int4", "context_tokens": 1024.0}
BODY = {"decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.021, "n": 9, "provenance": "measured"}}


def record(path, n=600):
    """Make a recording of a minute at 10 Hz: 5 W, with one measurement, a gap and the bandwidth."""
    made = Recorder(path, (T0_NS, datetime(2026, 1, 1, tzinfo=UTC)))
    made.note(HELLO)
    made.note({"op": "clock", "t_ns": T0_NS, "offset_s": 0.0, "bound_s": 1e-4, "drift": 0.0})
    made.note({"op": "catalogue", "channels": [CHANNEL], "rate_hz": 10})
    pack = record_struct(1).pack
    for i in range(0, n, 2):
        made.take(Frame(SAMPLES, i, b"".join(pack(T0_NS + k * 10**8, 5.0) for k in (i, i + 1))))
        if i == n // 2:
            request = {"op": "measure", "id": 1, "point": POINT, "what": ["decode"]}
            made.note({"op": "measured", "request": request, "body": BODY, "time_utc": "2026-01-01T00:00:30.000+00:00"})
            made.note(
                {"op": "measured", "request": {**request, "point": {"weights": 3}}, "body": BODY, "time_utc": "now"}
            )
            made.note({"op": "gap", "t_ns": T0_NS + i * 10**8, "reason": "the agent ended"})
            read = {"median": 20e9, "q05": 19e9, "q95": 21e9, "provenance": "measured"}
            bandwidth = {"op": "measured", "request": {"op": "bandwidth", "id": 2}, "body": {"read_byte_s": read}}
            made.note({**bandwidth, "time_utc": "2026-01-01T00:00:10.000+00:00"})
    made.close()
    return path


@pytest.fixture
def store():
    return Store(load_catalogue())


@pytest.fixture
def played(store, tmp_path, monkeypatch, qtbot):
    """The conductor over a recording, standing at its end."""
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    path = record(tmp_path / "far.trilemma")
    conductor = Conductor(
        store, lambda on_event: Session(lambda: ReplayTransport(path), on_event), BoardLibrary(tmp_path, pytest.fail)
    )
    conductor.start()
    qtbot.waitUntil(lambda: conductor.tape.position is not None and conductor.tape.position.paused)
    yield conductor
    conductor.stop()


def test_an_opened_recording_stands_at_its_end_with_all_that_was_measured(played, store, tmp_path):
    assert store.link.state == "attached"
    assert store.not_measurable == "This is a recording: nothing can be measured on it."
    (measurement,) = store.measurements
    assert measurement.time_utc == "2026-01-01T00:00:30.000+00:00"
    assert measurement.output("decode_s").provenance == "measured"
    assert store.measured("decode_s").median == 0.02
    assert store.catalogue.boards["this"].power_modes["default"].bandwidth_byte_s == 20e9
    assert [line.text for line in store.log if "1 frames are left out" in line.text and "measured: " in line.text]
    assert [mark.text for mark in played.tape.marks] == ["the agent ended"]
    assert not (tmp_path / "measurements.jsonl").exists()
    assert not (tmp_path / "boards").exists()
    t_s, y = played.history.series(store.link.channels, "board.power_w", 100.0)
    assert t_s[-1] == pytest.approx(0, abs=0.2)
    assert np.nansum(y == 5.0) == 600
    age_s = (played.tape.now_utc() - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds()
    assert age_s == pytest.approx(59.9, abs=0.01)


def test_a_recording_is_played_from_its_beginning_when_it_stands_at_its_end(played, qtbot):
    played.tape.toggle()
    qtbot.waitUntil(lambda: not played.tape.position.paused)
    assert played.tape.position.t_s < 5001
    played.tape.play(speed=0.0)
    qtbot.waitUntil(lambda: played.tape.position.paused)
    assert len(played.tape.marks) == 1


def test_what_is_played_cannot_be_recorded(played):
    assert played.tape.record() == "A recording is open: attach a board to record it."
    assert played.tape.recorder is None


class Live:
    """A session's place, for the tape of a live board."""

    def __init__(self):
        self.session = Session(lambda: None, lambda event: None)


def test_record_and_stop_say_where_and_how_much(store, tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    place = Live()
    tape = Tape(store, lambda: place.session)
    told = []
    tape.changed.connect(lambda: told.append(tape.recorder))
    store.set_link(hello={"board": {"name": "Orin NX / 16 GB"}})
    assert tape.record() == ""
    recorder = place.session.recorder
    assert recorder is tape.recorder is told[0]
    assert recorder.path.parent == recordings_dir()
    assert recorder.path.name.endswith("_Orin-NX-16-GB.trilemma")
    tape.stop()
    assert place.session.recorder is None
    assert told[1] is None
    until(tape, lambda: len(store.log) == 2)
    assert [line.text.split(" ")[0] for line in store.log] == ["Recording", "Recorded"]
    with Recording(recorder.path) as made:
        assert made.opening["format"] == 1


def until(tape, done):
    """Let the tape take what its threads say until it has said enough."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline_s
        tape.check()
        time.sleep(0.005)


def test_why_a_recording_does_not_begin_or_ends_is_one_sentence(store, tmp_path):
    place = Live()
    tape = Tape(store, lambda: place.session)
    refused = []
    tape.refused.connect(refused.append)
    (tmp_path / "there").write_text("x")
    assert tape.record(tmp_path / "there") == f"{tmp_path / 'there'}: exists already: expected a new file to record to."
    tape.save_buffer(tmp_path / "b", 5.0)
    until(tape, lambda: refused)
    assert refused.pop() == f"{tmp_path / 'b'}: nothing to save: no sample arrived in the last 5 s."
    assert tape.record(tmp_path / "new") == ""
    tape.recorder._fail(OSError(28, "No space left on device"))
    until(tape, lambda: refused)
    assert tape.recorder is None
    assert "no space left on device; what was recorded before is kept" in refused[0]


def test_a_jump_of_the_clock_and_a_lost_link_are_marked_once(store):
    place = Live()
    tape = Tape(store, lambda: place.session)
    tape.take(Connected(HELLO))
    tape.take(ClockRead(10.0, 1.0, 1e-4, 0.0))
    assert tape.clock.offset_s == 1.0
    tape.take(ClockRead(11.0, 6.0, 1e-4, 0.0, 5.0))
    tape.take(ClockRead(11.0, 6.0, 1e-4, 0.0, 5.0))
    store.set_link(state="attached")
    tape.take(Disconnected("the agent ended", 0.5))
    store.set_link(state="lost")
    tape.take(Disconnected("there is no host orin", 1.0))  # an attempt to have it back
    assert [mark.text for mark in tape.marks] == ["The board's clock jumped by +5 s", "the agent ended"]
    assert "jumped by +5 s" in store.log[-1].text
    tape.take(Connected(HELLO))  # the same board is back
    assert len(tape.marks) == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00.0"), (127.46, "02:07.5"), (3727.5, "1:02:07.5"), (-3, "−00:03.0")]
)
def test_times_read_as_on_a_tape(seconds, text):
    assert clock_text(seconds) == text


@pytest.fixture
def window(played, store, qtbot):
    made = MainWindow(store, undo_stack(), played, Theme("dark"), Settings())
    qtbot.addWidget(made)
    made.resize(1500, 900)
    made.show()
    made.centre.show_view("live")
    return made


def test_the_bar_of_a_recording_plays_jumps_and_changes_the_speed(window, played, qtbot):
    bar = window.findChild(object, "replay")
    assert bar.isVisible()
    scrubber = window.findChild(object, "replay.position")
    qtbot.waitUntil(lambda: scrubber.value() == 10_000)
    qtbot.mouseClick(scrubber, Qt.MouseButton.LeftButton, pos=QPoint(scrubber.width() // 2, 10))
    qtbot.waitUntil(lambda: abs(played.tape.position.t_s - 5030) < 1)
    assert played.tape.position.paused
    speed = window.findChild(object, "replay.speed")
    speed.setCurrentIndex(5)
    speed.activated.emit(5)
    qtbot.waitUntil(lambda: played.tape.position.speed == 8.0)
    window.live.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: not played.tape.position.paused)
    play = window.findChild(object, "replay.play")
    qtbot.waitUntil(lambda: play.text() == "Pause")
    qtbot.keyClick(window, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: played.tape.position.paused)
    assert not window.actions_["record"].isEnabled()
    assert window.actions_["play"].isEnabled()


def test_the_bar_goes_with_the_recording(window, played):
    bar = window.findChild(object, "replay")
    assert bar.isVisible()
    played.detach()
    assert not bar.isVisible()
    assert not window.actions_["play"].isEnabled()
    assert window.actions_["record"].isEnabled()
    assert not played.tape.marks


def test_record_is_shown_with_time_size_and_file(store, tmp_path, monkeypatch, qtbot):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    conductor = Conductor(store, lambda on_event: Session(lambda: None, on_event), BoardLibrary(tmp_path, pytest.fail))
    window = MainWindow(store, undo_stack(), conductor, Theme("dark"), Settings())
    qtbot.addWidget(window)
    window.resize(1500, 900)
    window.show()
    light = window.findChild(object, "record.light")
    assert not light.isVisible()
    assert not window.findChild(object, "replay").isVisible()
    window.actions_["record"].trigger()
    assert window.actions_["record"].isChecked()
    assert light.isVisible()
    assert light.text().startswith("● Recording 00:0")
    assert conductor.tape.recorder.path.name in light.text()
    window.actions_["record"].trigger()
    assert not light.isVisible()
    assert not window.actions_["record"].isChecked()


def test_opening_a_recording_asks_to_attach_it(window, monkeypatch, tmp_path, qtbot):
    monkeypatch.setattr(
        "app.views.panels.recorder.QFileDialog.getOpenFileName", lambda *_: (str(tmp_path / "x.trilemma"), "")
    )
    with qtbot.waitSignal(window.attach_wanted) as asked:
        window.actions_["open_recording"].trigger()
    assert asked.args == [str(tmp_path / "x.trilemma")]


def test_the_last_seconds_are_saved_from_the_menu(store, tmp_path, monkeypatch, qtbot):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    conductor = Conductor(store, lambda on_event: Session(lambda: None, on_event), BoardLibrary(tmp_path, pytest.fail))
    session = conductor._session
    session.beginning.update(hello=HELLO, clock={"op": "clock", "t_ns": 0, "offset_s": 0, "drift": 0})
    session.beginning["catalogue"] = {"op": "catalogue", "channels": [CHANNEL], "rate_hz": 10}
    session.rings.reset(1)
    session.rings.append(np.array([time.monotonic()]), np.array([[7.0]], np.float32))
    window = MainWindow(store, undo_stack(), conductor, Theme("dark"), Settings())
    qtbot.addWidget(window)
    monkeypatch.setattr("app.views.panels.recorder.QInputDialog.getDouble", lambda *_: (30.0, True))
    monkeypatch.setattr("app.views.panels.recorder.QFileDialog.getSaveFileName", lambda *_: (str(tmp_path / "b"), ""))
    window.actions_["save_buffer"].trigger()
    until(conductor.tape, lambda: any("Saved 1 records" in line.text for line in store.log))
    with Recording(tmp_path / "b.trilemma") as made:
        assert made.n_records == 1
    window.actions_["save_buffer"].trigger()
    until(conductor.tape, lambda: "exists already" in store.log[-1].text)
