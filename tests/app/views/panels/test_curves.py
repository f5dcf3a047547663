"""The curves show the store: predictions, measurements, limits, the pinned point."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox

from app.library.measurements import Measurement
from app.text.names import short_name
from app.text.quantities import LATENCY, POWER, TOP1
from app.views.panels.curves import Curves
from app.views.widgets.marks import DASHES
from app.views.widgets.numbers import NumbersPanel
from app.views.widgets.plots import AXIS_WIDTH
from app.views.widgets.theme import DARK, LIGHT
from core.spec import Absent, Estimate, Provenance
from tests.app.views.parts import CATALOGUE, measured


def test_the_curve_is_the_store_s_and_its_dash_its_provenance(curves, store):
    x, prediction = store.curve(101)
    plot = curves.cards[0].plot
    assert plot.curve.getData() == (pytest.approx(x), pytest.approx(prediction.decode_s.median))
    assert plot.band.low.getData()[1] == pytest.approx(prediction.decode_s.q05)
    assert plot.curve.opts["pen"].style() == DASHES[prediction.decode_s.provenance]


def test_measured_dots_stand_beside_the_curve_and_make_the_big_number(curves, store):
    measured(store, decode_s=0.0123)
    card = curves.cards[0]
    assert card.plot.marks.dots.getData() == (pytest.approx([0.3]), pytest.approx([0.0123]))
    assert card.plot.marks.bars.opts["top"] == pytest.approx([0.05 * 0.0123])
    assert card._number.text().endswith("ms measured")
    assert "predicted" in card._pair.text()


def test_absent_is_words(curves, store):
    body = {"power_w": {"absent": "no power sensor on this machine: no RAPL domain"}}
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", store.machine))
    assert curves.cards[1]._pair.text().endswith("measured – no power sensor on this machine")
    assert "no RAPL domain" in curves.cards[1]._pair.toolTip()


def test_why_nothing_is_measured_follows_the_board(curves, store):
    card = curves.cards[0]
    store.set_link(state="attached", hello={"recording": {"file": "r"}})
    assert "measured – this is a recording" in card._pair.text()
    store.set_link(state="detached", hello={})
    assert "recording" not in card._pair.text()


def test_limits_get_a_sign_and_a_word(curves, store):
    store.set("limits.latency", 1e-6)
    assert curves.cards[0]._verdict.text() == "limit 1 µs ✗ missed"
    store.set("limits.latency", 100.0)
    assert curves.cards[0]._verdict.text() == "limit 100 s ✓ holds"
    estimate = Estimate(0.010, 0.009, 0.011, Provenance.CALIBRATED)
    assert LATENCY.verdict(estimate, 0.0105) == ("✓ likely", True)
    assert LATENCY.verdict(estimate, 0.0095) == ("✗ likely missed", False)
    assert TOP1.verdict(Estimate(0.98, 0.97, 0.99, Provenance.MEASURED), 0.96) == ("✓ holds", True)
    assert LATENCY.verdict(Absent("none"), 1.0) == ("", None)


def test_a_press_in_a_plot_moves_the_slider_of_its_axis(curves, store, stack):
    curves.cards[0].plot.pressed.emit(0.6, True)
    curves.cards[0].plot.pressed.emit(0.7, False)
    assert store.point.alpha == pytest.approx(0.7)
    assert stack.count() == 1


def test_a_categorical_axis_has_names(curves, store):
    store.set("point.weights", "int8")
    assert store.axis == "point.weights"
    ticks = [tick for level in curves.cards[0].plot.bottom._tickLevels for tick in level]
    options = store.axis_range("point.weights").options
    names = [short_name("point.weights", *option, CATALOGUE).split(" · ")[0] for option in options]
    assert sorted(ticks) == [(float(i), name) for i, name in enumerate(names)]


def test_pinning_keeps_a_ghost(curves, store):
    store.set("pinned", store.point)
    store.set("point.context", 4096.0)
    store.set("axis", "point.alpha")
    plot = curves.cards[0].plot
    assert plot.ghost.isVisible()
    _, pinned = store.curve(101, point=store.get("pinned"))
    assert plot.ghost.getData()[1] == pytest.approx(pinned.decode_s.median)


def test_the_pointer_reads_prediction_and_measurement(curves, store):
    measured(store, decode_s=0.0123)
    curves.cards[0].plot.pointed.emit(0.3)
    assert "measured 12.3" in curves.cards[0]._pair.text()
    assert curves.cards[2].plot.cross.isVisible()
    curves.cards[0].plot.pointed.emit(None)
    assert not curves.cards[2].plot.cross.isVisible()


def test_the_left_axes_line_up(curves):
    insides = [card.plot.box.sceneBoundingRect() for card in curves.cards]
    assert {inside.left() for inside in insides} == {AXIS_WIDTH}
    assert len({inside.width() for inside in insides}) == 1


def test_plots_describe_themselves(curves, qtbot):
    qtbot.waitUntil(lambda: "against" in curves.cards[0].plot.accessibleDescription())
    assert "measured points" in curves.cards[0].plot.accessibleDescription()


def test_accuracy_can_be_the_perplexity_ratio(curves, store):
    card = curves.cards[2]
    card._choice.activated.emit(1)
    assert card.quantity.output == "perplexity_ratio"
    assert not card._verdict.isVisible()


def test_a_ghost_that_is_the_same_curve_leaves_the_dashes_alone(curves, store):
    store.set("pinned", store.point)
    store.set("point.alpha", 0.8)
    plot = curves.cards[0].plot
    assert not plot.ghost.isVisible()
    assert plot.pin.isVisible()
    assert plot.pin.value() == pytest.approx(0.3)


def test_a_theme_repaints_everything(curves, theme):
    def ground():
        return curves.cards[0].plot.grab().toImage().pixelColor(2, 2).name()

    def colors():
        plot = curves.cards[0].plot
        return plot.curve.opts["pen"].color().name(), plot.here.pen.color().name(), plot.left.textPen().color().name()

    for palette, choice in ((DARK, "dark"), (LIGHT, "light"), (DARK, "dark")):
        theme.choose(choice)
        assert ground() == palette.panel
        assert colors() == (palette.accent, palette.text, palette.dim)


def test_the_pointer_and_the_pixels_are_inverse(curves, store):
    plot = curves.cards[0].plot
    at = plot.box.mapViewToScene(QPointF(0.4, plot.box.viewRange()[1][0]))
    assert plot.x_at(at) == pytest.approx(0.4)
    seen = []
    plot.pointed.connect(seen.append)
    QTest.mouseMove(plot.viewport(), at.toPoint() - QPoint(0, 20))
    assert seen[-1] == pytest.approx(0.4, abs=0.002)
    QTest.mousePress(plot.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0), at.toPoint())
    assert store.point.alpha == pytest.approx(0.4, abs=0.006)


def test_what_is_not_predicted_is_said_in_the_plot(curves, store, monkeypatch):
    card, (x, prediction) = curves.cards[1], store.curve(101)
    without = replace(prediction, power_w=Absent("no source states the energy per byte"))
    monkeypatch.setattr(store, "curve", lambda n, **_: (x, without))
    card.refresh()
    assert card.space.message.text() == "Not predicted: no source states the energy per byte"
    assert card.space.message.isVisible()
    assert not card.plot.left.style["showValues"]
    monkeypatch.undo()
    card.refresh()
    assert not card.space.message.isVisible()
    assert card.plot.left.style["showValues"]


def test_the_plots_come_after_the_first_paint_and_move_nothing(qtbot, store, stack, theme):
    made = Curves(store, stack, theme)
    qtbot.addWidget(made)
    made.resize(900, 800)
    made.cards[2]._choice.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its focus would be another difference
    assert all(card.plot is None for card in made.cards)
    before, number = made.grab(), made.cards[0]._number.text()
    places = [card.space.geometry() for card in made.cards]
    made.show()
    qtbot.waitUntil(lambda: made.cards[2].plot is not None)
    assert [card.space.geometry() for card in made.cards] == places
    assert made.cards[0]._number.text() == number
    after = made.grab().toImage()
    for card in made.cards:  # nothing but the space of the plot has changed
        words = 0, card.y(), made.width(), card.space.y()
        assert before.toImage().copy(*words) == after.copy(*words)


def test_a_number_without_its_interval_has_no_more_digits_than_one_reads(curves, store, qtbot):
    body = {"power_w": {"median": 14.4131, "q05": 14.4012, "q95": 14.4213, "n": 9, "provenance": "measured"}}
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", store.machine))
    panel = NumbersPanel(store)
    qtbot.addWidget(panel)
    curves.refresh()
    assert panel._cells[POWER][0].text() == "14.4 W"
    assert curves.cards[1]._number.text().startswith("14.4 W")
    wide = Estimate(0.0071, 0.003, 0.016, Provenance.PREDICTED)
    assert LATENCY.figure(wide).value == LATENCY.text(wide).value == "7"  # and no more than the interval bears


def test_the_golden_formula_is_drawn_as_published_and_one_click_hides_it(curves, store, qtbot):
    card = curves.cards[0]
    golden, box = card.plot.golden, card.findChild(QCheckBox, "curves.as_published")
    assert golden.isVisible()
    assert box.isChecked()
    assert golden.opts["pen"].style() is DASHES[Provenance.AS_PUBLISHED]
    _, y = golden.getData()
    assert y[0] / y[-1] == pytest.approx(1.0 / 0.05)  # (1 - alpha) from 0 to 0.95
    assert "No model size" in card._note.text()
    box.click()
    assert not store.get("curves.as_published")
    assert not golden.isVisible()
    assert card._note.text() == ""
    assert all(c.plot.golden.isVisible() is False for c in curves.cards[1:])  # a formula of latency only
