"""The live view: pause, zoom, pan, readout."""

from datetime import UTC, datetime, timedelta

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
)

from app.client.events import Channel
from app.library.measurements import Measurement
from app.views.main_window import MainWindow
from core.spec import Provenance
from tests.app.views.silent_session import attach


def test_the_live_view_of_a_board_attached_before_it_was_made_says_that_it_is_simulated(parts, qtbot):
    store = parts[0]
    attach(store)
    store.set_link(hello={**store.link.hello, "simulated": True})
    made = MainWindow(*parts)
    qtbot.addWidget(made)
    live = made.centre.pages["live"].fill()
    assert live._measured.text() == "simulated"
    assert {card.plot.marks_provenance for card in live.cards} == {Provenance.SIMULATED}


def test_pause_holds_the_view_and_live_returns(window, qtbot):
    attach(window._store)
    window.tabs.setCurrentIndex(1)
    live = window.live
    qtbot.waitUntil(lambda: len(live.cards[1].plot.trace.getData()[1]) > 0)
    window._store.set("paused", True)
    held = live._origin_s
    qtbot.wait(120)
    assert live._origin_s == held
    assert "recording continues" in live._state.text()
    live.run_on()
    assert live._origin_s > held


def test_zoom_works_while_live_and_keeps_the_edge(window):
    window.tabs.setCurrentIndex(1)
    QApplication.processEvents()
    plots = [card.plot for card in window.live.cards]
    at = QPointF(plots[0].viewport().rect().center())
    zoom = QWheelEvent(
        at,
        QPointF(plots[0].viewport().mapToGlobal(at)),
        QPoint(0, 0),
        QPoint(0, 240),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier(0),
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(plots[0].viewport(), zoom)
    left, right = plots[0].x_range
    assert -60.0 < left < -5.0
    assert right == pytest.approx(0.0)
    assert window._store.get("paused") is False
    assert [plot.x_range for plot in plots] == [pytest.approx((left, right))] * 3
    window.live.run_on()
    assert plots[2].x_range == pytest.approx((-60.0, 0.0))


def test_a_pan_holds_the_view(window):
    window.tabs.setCurrentIndex(1)
    QApplication.processEvents()
    plot, other = window.live.cards[1].plot, window.live.cards[0].plot
    middle = plot.viewport().rect().center()
    QTest.mousePress(plot.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0), middle)
    for dx in (20, 60, 100):
        QTest.mouseMove(plot.viewport(), middle + QPoint(dx, 0))
        QTest.qWait(40)
    QTest.mouseRelease(plot.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0), middle + QPoint(100, 0))
    assert window._store.get("paused") is True
    left, right = plot.x_range
    assert right < -1.0
    assert right - left == pytest.approx(60.0)
    assert other.x_range == pytest.approx((left, right))
    QTest.mouseDClick(plot.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0), middle)
    assert window._store.get("paused") is False


def test_the_readout_follows_the_pointer_while_live(window, qtbot):
    window.tabs.setCurrentIndex(1)
    window._store.set("point.alpha", 0.5)
    window.live.cards[0].plot.pointed.emit(-0.0)
    qtbot.waitUntil(lambda: "ms" in window.live._cells[0][0].text())
    assert window.live.cards[2].plot.cross.isVisible()


@pytest.mark.parametrize("stepped_back_s", [0.0, 3600.0])
def test_a_measurement_lies_at_most_at_the_live_edge_though_the_date_has_stepped_back(window, stepped_back_s):
    attach(window._store)
    window.tabs.setCurrentIndex(1)
    body = {"decode_s": {"median": 0.01, "q05": 0.01, "q95": 0.01, "n": 1, "provenance": "measured"}}
    made = (datetime.now(UTC) + timedelta(seconds=stepped_back_s)).isoformat()
    window._store.add_measurement(Measurement(window._store.point, body, made, "m"))
    window.live._place_measurements(100.0)
    assert window.live._measured_at[-1] == pytest.approx(100.0, abs=60.0)
    assert window.live._measured_at[-1] <= 100.0


def test_temperatures_are_drawn_over_time_where_the_board_has_sensors(window, qtbot):
    store = window._store
    attach(store)
    window.tabs.setCurrentIndex(1)
    heat = window.live.heat
    QApplication.processEvents()
    assert not heat.isVisible()  # the sensor is absent
    there = [Channel(f"{name}.temp_c", "degC", "hwmon", None) for name in ("cpu", "gpu")]
    store.set_link(channels=(*store.link.channels, *there))
    qtbot.waitUntil(lambda: heat.isVisible() and len(heat.plot.traces) == 2)
    assert list(heat.plot.named) == ["CPU temperature", "GPU temperature"]
    assert heat.plot.x_range == window.live.cards[0].plot.x_range
    assert heat.reading(0.0) == "CPU temperature 6.00 °C · GPU temperature 6.00 °C"
    pens = [trace.opts["pen"] for trace in heat.plot.traces]
    assert pens[0].color() != pens[1].color()
    store.set_link(channels=store.link.channels[:2])
    qtbot.waitUntil(lambda: not heat.isVisible())
