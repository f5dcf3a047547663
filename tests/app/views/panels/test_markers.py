"""Markers over the live plots, what lies between them, and a plot's picture and data."""

import math
import re
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtSvg import QSvgRenderer

from app.client.events import Channel
from app.client.replay import ReplayTransport
from app.client.session import Session
from app.client.transport import LocalTransport
from app.library.board_library import BoardLibrary
from app.library.channel_stats import between
from app.library.measurements import Measurement
from app.model.commands import undo_stack
from app.model.conductor import Conductor
from app.model.recorder_controls import Mark
from app.model.settings import Settings, apply, capture
from app.model.state import MarkerPair
from app.model.store import Store
from app.views.main_window import MainWindow
from app.views.panels.markers import power_between
from app.views.widgets.plot_picture import png, svg, tsv
from app.views.widgets.theme import Theme
from core.catalogue.load import load_catalogue
from core.spec import Provenance

CHANNELS = (Channel("board.power_w", "W", "x", 0.1),)
BODY = {"decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.021, "n": 9, "provenance": "measured"}}


# --- what lies between ------------------------------------------------------------------------------------------------


def test_energy_is_the_integral_with_its_edges_interpolated():
    t = np.arange(0.0, 10.5, 0.5)
    tally = between(t, 2 * t, 1.25, 4.6)
    assert tally.integral == pytest.approx(4.6**2 - 1.25**2)
    assert tally.covered_s == pytest.approx(3.35)
    assert tally.mean == pytest.approx((4.6**2 - 1.25**2) / 3.35)
    assert (tally.least, tally.most) == pytest.approx((2.5, 9.2))
    assert between(t, 2 * t, 4.6, 1.25).integral == pytest.approx(tally.integral)


def test_nothing_is_integrated_across_a_gap_or_beyond_the_samples():
    t = np.array([0.0, 1.0, 1.0 + 1e-12, 5.0, 6.0])
    y = np.array([4.0, 4.0, np.nan, 4.0, 4.0])
    tally = between(t, y, -10.0, 20.0)
    assert tally.integral == pytest.approx(8.0)
    assert tally.covered_s == pytest.approx(2.0)
    assert tally.mean == pytest.approx(4.0)
    inside = between(t, y, 2.0, 3.0)
    assert inside.n == 0
    assert "2.00 s of it covered" in power_between(t, y, 0.0, 6.0)
    assert power_between(t, y, 2.0, 3.0) == "–"
    assert power_between(t, y, 5.0, 6.0) == "4.00 J · mean 4.00 W"


@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=40),
    st.data(),
)
def test_energies_of_neighbouring_spans_add_up(steps, data):
    t = np.cumsum(steps)
    y = np.array(data.draw(st.lists(st.floats(0, 100), min_size=len(t), max_size=len(t))))
    a, b, c = sorted(data.draw(st.floats(float(t[0]), float(t[-1]))) for _ in range(3))
    whole = between(t, y, a, c).integral
    assert between(t, y, a, b).integral + between(t, y, b, c).integral == pytest.approx(whole, rel=1e-9, abs=1e-9)


# --- on the screen ----------------------------------------------------------------------------------------------------


class Window:
    """A window over a session whose rings the test fills: 5 W at 10 Hz for a minute, a gap of 4 s in the middle."""

    def __init__(self, tmp_path):
        self.store = Store(load_catalogue())
        self.conductor = Conductor(
            self.store, lambda on_event: Session(lambda: None, on_event), BoardLibrary(tmp_path, pytest.fail)
        )
        self.rings = self.conductor._session.rings
        self.rings.reset(1)
        self.now_s, now_utc_s = time.monotonic(), time.time()
        for begin, end in ((-60.0, -32.0), (-28.0, 0.0)):
            t = self.now_s + np.arange(begin, end, 0.1)
            self.rings.append(t, np.full((len(t), 1), 5.0, np.float32))
            self.rings.mark_gap()
        self.store.set_link(state="attached", channels=CHANNELS)
        utc = datetime.fromtimestamp(now_utc_s - 20, UTC).isoformat(timespec="milliseconds")
        self.store.set_machine("m", [Measurement(self.store.point, BODY, utc, "m")])
        self.window = MainWindow(self.store, undo_stack(), self.conductor, Theme("dark"), Settings())
        self.window.resize(1500, 950)
        self.window.show()
        self.window.centre.show_view("live")
        self.live = self.window.live
        self.reset()

    def reset(self):
        """Hold the view where the samples end, the markers hidden and floating."""
        markers, tape = self.live.markers, self.conductor.tape
        markers.pin(False)
        if markers.shown:
            markers.toggle()
        tape.marks.clear()
        self.store.set_link(hello={})
        self.store.set("paused", True)
        self.live._set_range(-60.0, 0.0)
        self.live._origin_s = self.now_s
        self.live._pointed(None)
        self.live._draw()


@pytest.fixture(scope="module")
def made(qapp, tmp_path_factory):
    made = Window(tmp_path_factory.mktemp("markers"))
    yield made
    made.window.close()
    made.window.deleteLater()
    qapp.processEvents()


@pytest.fixture
def screen(made):
    made.reset()
    return made


def texts(live, row):
    return [cells[row].text() for cells in live._cells]


def test_two_markers_show_time_means_and_energy_while_live(screen):
    screen.window.actions_["markers"].trigger()
    markers = screen.live.markers
    assert markers.shown
    assert all(line.isVisible() for card in screen.live.cards for line in card.plot.markers)
    power = screen.live.cards[1].plot
    power.marker_moved.emit(0, -24.0)
    power.marker_moved.emit(1, -14.0)
    assert markers.delta_s == pytest.approx(10.0)
    assert texts(screen.live, 3) == ["mean of 1: 20.0 ms", "50.0 J · mean 5.00 W", "–"]
    assert screen.live._between.text() == "A to B, 10.0 s"
    assert [line.value() for line in screen.live.cards[2].plot.markers] == pytest.approx([-24.0, -14.0])
    power.marker_moved.emit(0, -34.0)
    assert "of it covered" in texts(screen.live, 3)[1]  # over the gap
    screen.window.actions_["markers"].trigger()
    assert not any(line.isVisible() for card in screen.live.cards for line in card.plot.markers)
    assert texts(screen.live, 3) == ["", "", ""]


def test_markers_float_with_the_live_edge_or_stay_with_the_data(screen):
    live = screen.live
    live.markers.toggle()
    floating = live.markers.times
    live._origin_s += 5.0
    live._draw()
    assert live.markers.times == pytest.approx([t + 5 for t in floating])
    live.markers.pin(True)
    pinned = live.markers.times
    live._origin_s += 5.0
    live._draw()
    assert live.markers.times == pytest.approx(pinned)
    assert live.cards[0].plot.markers[0].value() == pytest.approx(pinned[0] - live._origin_s)
    live.markers.pin(False)
    assert live.markers.times == pytest.approx(pinned)


def test_the_time_between_markers_can_be_typed_and_zoomed_to(screen):
    live = screen.live
    live.markers.toggle()
    field = screen.window.findChild(object, "markers.delta")
    field.setText("2.5 s")
    field.setModified(True)
    field.editingFinished.emit()
    assert live.markers.delta_s == pytest.approx(2.5)
    live.markers.set_delta(12.0)
    screen.window.findChild(object, "markers.zoom").click()
    left, right = live.cards[0].plot.x_range
    low, high = (t - live._origin_s for t in live.markers.times)
    assert left < low < high < right
    assert right - left < 15
    assert screen.store.get("paused")


def test_a_gap_is_a_gap_and_what_happened_is_said_at_the_pointer(screen):
    live = screen.live
    _, y = live.cards[1].plot.trace.getOriginalDataset()
    assert np.isnan(y).any()
    screen.conductor.tape.marks.append(Mark(screen.now_s - 30.0, "the agent ended"))
    live._draw()
    x, _ = live.cards[1].plot.happened.getData()
    assert x == pytest.approx([-30.0, -30.0])
    live._pointed(-30.0)
    assert live._head.text() == "−30.0 s: the agent ended"
    assert texts(live, 2)[1] == "–"
    live._pointed(-10.0)
    assert texts(live, 2) == ["", "5.00 W", ""]
    assert live._head.text() == "−10.0 s"


def test_pause_freezes_the_view_not_the_recording(screen, tmp_path):
    assert screen.conductor.tape.record(tmp_path / "x.trilemma") == ""
    origin_s = screen.live._origin_s
    screen.live._tick()
    assert screen.live._origin_s == origin_s
    assert not screen.conductor.tape.recorder.failure
    screen.conductor.tape.stop()


def test_a_simulated_board_is_drawn_hollow_and_named_so(screen):
    assert screen.live.cards[0].plot.marks_provenance is Provenance.MEASURED
    screen.store.set_link(hello={"simulated": True})
    assert screen.live.cards[0].plot.marks_provenance is Provenance.SIMULATED
    assert screen.live._measured.text() == "simulated"


def test_a_plot_is_saved_at_one_and_two_pixels_and_in_lines(screen):
    plot = screen.live.cards[1].plot
    for scale in (1, 2):
        image = QImage.fromData(QByteArray(png(plot, scale)), "PNG")
        assert (image.width(), image.height()) == (plot.width() * scale, plot.height() * scale)
        colors = {
            image.pixelColor(x, y).name() for x in range(0, image.width(), 3) for y in range(0, image.height(), 3)
        }
        assert len(colors) > 3
    drawn = svg(plot)
    assert drawn.startswith(b"<?xml")
    assert b"Power over time" in drawn
    assert drawn.count(b"<polyline") + drawn.count(b"<path") > 3
    assert QSvgRenderer(QByteArray(drawn)).isValid()


def test_the_data_of_a_plot_are_copied_as_series_in_si(screen):
    lines = [line.split("\t") for line in tsv(screen.live.cards[1].plot).splitlines()]
    assert lines[0] == ["series", "value [s]", "value [W]"]
    sensor = [(float(x), float(y)) for name, x, y in lines[1:] if name == "sensor"]
    assert len(sensor) > 400
    assert {y for _, y in sensor} == {5.0}
    assert all(-60 <= x <= 0 for x, _ in sensor)
    screen.window.actions_["picture.data"].trigger()
    copied = QGuiApplication.clipboard().text()
    assert "Latency per token over time" in copied
    assert "measured\t" in copied
    assert not any(math.isnan(float(line.split("\t")[2])) for line in copied.splitlines() if line.startswith("sensor"))


def test_the_picture_of_the_view_is_saved_or_refused_in_one_sentence(screen, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("app.views.widgets.plot_picture.QMessageBox.warning", lambda *words: said.append(words[2]))
    for name in ("view.png", "view.svg"):
        monkeypatch.setattr(
            "app.views.widgets.plot_picture.QFileDialog.getSaveFileName", lambda *_, n=name: (str(tmp_path / n), "")
        )
        screen.window.actions_[f"picture.{name[-3:]}"].trigger()
        assert (tmp_path / name).stat().st_size > 1000
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(
        "app.views.widgets.plot_picture.QFileDialog.getSaveFileName", lambda *_: (str(tmp_path / "file" / "x"), "")
    )
    screen.window.actions_["picture.png"].trigger()
    assert len(said) == 1
    assert "cannot be saved" in said[0]
    screen.window.actions_["picture.copy"].trigger()
    assert QGuiApplication.clipboard().image().width() == 2 * screen.live.width()


def test_markers_are_undone_a_drag_as_one_and_the_axis_stays(screen):
    live, stack = screen.live, screen.window._stack
    live.markers.toggle()
    before, n = live.markers.times, stack.index()
    power = live.cards[1].plot
    for x in (-30.0, -25.0, -24.0):
        power.marker_moved.emit(0, x)
    power.marker_dropped.emit()
    power.marker_moved.emit(0, -10.0)
    assert stack.index() == n + 2
    stack.undo()
    assert live.markers.times[0] == pytest.approx(live._origin_s - 24.0)
    assert power.markers[0].value() == pytest.approx(-24.0)
    stack.undo()
    assert live.markers.times == pytest.approx(before)
    stack.undo()
    assert not live.markers.shown
    stack.redo()
    assert live.markers.shown


def test_markers_come_back_with_the_session_and_with_the_recording(qtbot, tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    store, settings = Store(load_catalogue()), Settings()
    store.set("markers", MarkerPair(-20.0, -10.0, shown=True))
    capture(settings, store)
    other = Store(load_catalogue())
    assert apply(settings, other) == []
    assert other.get("markers") == store.get("markers")
    store.set("markers", MarkerPair(5.0, 6.0, shown=True, pinned=True))
    capture(settings, store)
    assert settings.markers is None  # another session has another clock

    path = tmp_path / "made.trilemma"
    made = Conductor(store, lambda on_event: Session(LocalTransport, on_event), BoardLibrary(tmp_path, pytest.fail))
    store.set("auto_measure", False)
    made.start()
    try:
        qtbot.waitUntil(lambda: store.link.state == "attached")
        assert made.tape.record(path) == ""
        now_s = time.monotonic()
        store.set("markers", MarkerPair(now_s, now_s + 1.0, shown=True, pinned=True))
        recorder = made.tape.recorder
        qtbot.waitUntil(lambda: recorder.n_byte > 3000)
    finally:
        made.stop()
    qtbot.waitUntil(lambda: recorder._fd < 0)

    played = Conductor(
        other, lambda on_event: Session(lambda: ReplayTransport(path), on_event), BoardLibrary(tmp_path, pytest.fail)
    )
    played.start()
    try:
        qtbot.waitUntil(lambda: other.get("markers").pinned)
        pair = other.get("markers")
        assert (pair.a_s, pair.b_s, pair.shown) == (pytest.approx(now_s), pytest.approx(now_s + 1.0), True)
        other.set("markers", MarkerPair(1.0, 2.0, shown=True, pinned=True))
        played.tape.play(speed=0.0)
        qtbot.wait(50)
        assert other.get("markers").a_s == 1.0  # those of the file are told once
    finally:
        played.stop()


# --- whose measurement stands beside which prediction -----------------------------------------------------------------


def test_only_what_was_measured_at_the_point_on_the_screen_stands_beside_its_prediction(screen):
    store, live, (latency, *_) = screen.store, screen.live, screen.live.cards

    def measure(point, decode_s, ago_s):
        utc = datetime.fromtimestamp(time.time() - ago_s, UTC).isoformat(timespec="milliseconds")
        record = {"median": decode_s, "q05": decode_s, "q95": decode_s, "n": 3, "provenance": "measured"}
        store.add_measurement(Measurement(point, {"decode_s": record}, utc, "m"))

    before = store.measurements
    here, there = store.point, replace(store.point, context_tokens=2048.0)
    measure(there, 0.5, 5)  # of a calibration, newer than the one of the point
    live._draw()
    assert texts(live, 1)[0].startswith("20.0 ms [19.0 – 21.0]")
    latency.setFixedWidth(300)
    live._draw()
    assert re.match(r"20\.0 ms \(−(20|19\.9)", texts(live, 1)[0])  # the interval gives way
    latency.setMaximumWidth(16777215)
    latency.setMinimumWidth(0)
    assert latency.plot.marks.dots.getData()[1].tolist() == [0.02]
    assert latency.plot.others.getData()[1].tolist() == [0.5]
    assert latency._y_range[1] < 0.5  # and takes no room from it
    store.set("point.context", 2048.0)  # from now on the other one is on the screen
    measure(there, 0.4, -1)
    measure(here, 0.03, -1)
    live._draw()
    assert sorted(latency.plot.marks.dots.getData()[1].tolist()) == [0.02, 0.4]
    assert sorted(latency.plot.others.getData()[1].tolist()) == [0.03, 0.5]
    store.set("point", here)
    store.set_machine("m", before)
