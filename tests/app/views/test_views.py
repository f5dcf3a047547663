"""The panels against a store: what they show, what they push, and that provenance survives without colour."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QColor, QGuiApplication, QImage, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from app.client.events import Channel
from app.library.axes import axis_of
from app.library.measurements import Measurement
from app.model.commands import undo_stack
from app.model.explained import explained
from app.model.store import Store
from app.text.explain import ranked, rich
from app.text.names import accuracy_note, channel_name, short_name
from app.text.quantities import LATENCY, POWER, TOP1, WORDS
from app.views.panels.controls import Controls
from app.views.panels.curves import Curves
from app.views.panels.headline import why_html
from app.views.panels.legend import ENTRIES
from app.views.panels.log import LogPanel
from app.views.panels.table import CurveTable, curve_table
from app.views.widgets.common import label
from app.views.widgets.curve_data import curve_data, held_range, within_reach
from app.views.widgets.curve_plot import CurvePlot
from app.views.widgets.live_card import Past, TimePlot
from app.views.widgets.marks import DASHES, draw_symbol
from app.views.widgets.numbers import NumbersPanel
from app.views.widgets.plots import AXIS_WIDTH, TEXT_PX, Marks, TickAxis, log_ticks
from app.views.widgets.slider import at_fraction, fraction, snapped, step_size, stepped
from app.views.widgets.theme import DARK, LIGHT, Theme
from core.catalogue.load import load_catalogue
from core.predict.changes import Kind
from core.spec import BY_PATH, Absent, Estimate, OperatingPoint, Provenance

CATALOGUE = load_catalogue()


@pytest.fixture
def store(qapp):
    made = Store(CATALOGUE)
    made.set_machine("this test", [], "")
    made.set("point.context", 1024.0)
    made.set("point.alpha", 0.3)
    return made


@pytest.fixture(scope="module")
def theme(qapp):
    return Theme("dark")


@pytest.fixture
def stack(qapp):
    return undo_stack()


@pytest.fixture
def controls(qtbot, store, stack, theme):
    made = Controls(store, stack, theme, QAction("&Measure this point"), QAction("&Pin as A"))
    qtbot.addWidget(made)
    made.resize(300, 900)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def curves(qtbot, store, stack, theme):
    made = Curves(store, stack, theme)
    qtbot.addWidget(made)
    made.resize(900, 800)
    made.show()
    qtbot.waitExposed(made)
    made.make_plots()
    return made


def measured(store, **outputs):
    body = {
        name: {"median": v, "q05": v * 0.95, "q95": v * 1.05, "n": 9, "provenance": "measured"}
        for name, v in outputs.items()
    }
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", store.machine))


# ---- the slider's arithmetic


def test_steps_are_one_two_or_five_and_powers_of_two_for_tokens():
    point = OperatingPoint()
    alpha, bandwidth, context = (axis_of(f"point.{n}", point, CATALOGUE) for n in ("alpha", "bandwidth", "context"))
    assert step_size(alpha, 0.5) == pytest.approx(0.005)
    leading = float(f"{step_size(bandwidth, bandwidth.high):e}".partition("e")[0])
    assert leading in (1.0, 2.0, 5.0)
    assert step_size(context, 2048.0) == 64.0
    assert stepped(context, 2048.0, 1) == 2112.0
    assert stepped(context, 2100.0, -1) == 2048.0
    assert stepped(alpha, alpha.high, 5) == alpha.high
    assert snapped(alpha, 0.3012) == pytest.approx(0.3)


def test_fraction_and_value_are_inverse_on_linear_and_logarithmic_axes():
    for name in ("alpha", "bandwidth", "beta", "context"):
        axis = axis_of(f"point.{name}", OperatingPoint(), CATALOGUE)
        for share in (0.0, 0.25, 1.0):
            assert fraction(axis, at_fraction(axis, share)) == pytest.approx(share)


def test_logarithmic_ticks_are_round():
    tokens = log_ticks(64.0, 8192.0, "tokens")
    assert [10.0**at for at, _ in tokens] == pytest.approx([2.0**i for i in range(6, 14)])
    assert tokens[-1][1] == "8\u2009192"
    assert [text for _, text in log_ticks(1e9, 2e10, "byte/s")] == ["1", "2", "5", "10", "20"]


# ---- controls


def drag(line, *xs):
    def event(kind, x, button):
        at = QPointF(x, 9)
        return QMouseEvent(kind, at, line.mapToGlobal(at), button, Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0))

    line.mousePressEvent(event(QEvent.Type.MouseButtonPress, xs[0], Qt.MouseButton.LeftButton))
    for x in xs[1:]:
        line.mouseMoveEvent(event(QEvent.Type.MouseMove, x, Qt.MouseButton.NoButton))
    return lambda: line.mouseReleaseEvent(event(QEvent.Type.MouseButtonRelease, xs[-1], Qt.MouseButton.LeftButton))


def test_a_drag_is_one_step_of_undo(controls, store, stack):
    release = drag(controls.sliders["point.alpha"].line, 40, 80, 120, 150)
    release()
    assert store.point.alpha > 0.3
    assert stack.count() == 1
    stack.undo()
    assert store.point.alpha == 0.3
    assert controls.sliders["point.alpha"].field.text() == "0.30"


def test_escape_takes_a_drag_back(controls, store):
    line = controls.sliders["point.alpha"].line
    drag(line, 150, 200)
    assert store.point.alpha != 0.3
    QTest.keyClick(line, Qt.Key.Key_Escape)
    assert store.point.alpha == pytest.approx(0.3)


def test_a_double_click_resets(controls, store):
    store.set("point.bandwidth", 5e9)
    QTest.mouseDClick(controls.sliders["point.bandwidth"].line, Qt.MouseButton.LeftButton)
    assert store.point.bandwidth_byte_s is None
    assert "the board's own" in controls.sliders["point.bandwidth"].words.text()


@pytest.mark.parametrize(("key", "moves"), [(Qt.Key.Key_Right, 1), (Qt.Key.Key_Down, -1), (Qt.Key.Key_PageUp, 1)])
def test_keys_step(controls, store, key, moves):
    QTest.keyClick(controls.sliders["point.alpha"].line, key)
    assert np.sign(store.point.alpha - 0.3) == moves


def test_the_wheel_steps_a_field(controls, store):
    field = controls.sliders["point.alpha"].field
    at = QPointF(5, 5)
    event = QWheelEvent(
        at,
        field.mapToGlobal(at),
        QPoint(0, 0),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier(0),
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    field.wheelEvent(event)
    assert store.point.alpha > 0.3


@pytest.mark.parametrize(
    ("path", "typed", "value"),
    [
        ("point.alpha", "45 %", 0.45),
        ("point.bandwidth", "51.2", 51.2e9),
        ("point.bandwidth", "800 MB/s", 0.8e9),
        ("point.context", "2 048", 2048.0),
        ("point.beta", "1,5", 1.5),
    ],
)
def test_a_field_reads_units(controls, store, path, typed, value):
    type_into(controls.sliders[path].field, typed)
    assert store.get(path) == pytest.approx(value)


def type_into(field, text):
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text)
    QTest.keyClick(field, Qt.Key.Key_Return)


@pytest.mark.parametrize(
    ("path", "typed", "says"),
    [
        ("point.alpha", "abc", "expected a number"),
        ("point.alpha", "1.0", "0 <= alpha < 1"),
        ("point.context", "0", "at least 1 token"),
        ("point.context", "9000000", "the longest"),
    ],
)
def test_a_wrong_entry_is_one_sentence_and_changes_nothing(controls, store, path, typed, says):
    control, before = controls.sliders[path], store.point
    type_into(control.field, typed)
    assert store.point == before
    assert says in control.wrong.text()
    assert control.wrong.isVisible()
    assert path not in control.wrong.text()
    QTest.keyClick(control.field, Qt.Key.Key_Escape)
    assert not control.wrong.isVisible()


@pytest.mark.parametrize(("path", "value"), [("point.head", "fp16"), ("point.graph", 4096.0)])
def test_a_rare_field_is_a_choice_where_a_preset_has_set_it(controls, store, path, value):
    choice = controls.choices[path]
    assert choice.isHidden()
    store.set("point", replace(store.point, **{BY_PATH[path].name: value}))
    assert not choice.isHidden()
    assert choice.currentData() == value
    choice.setCurrentIndex(0)
    choice.activated.emit(0)
    assert store.get(path) == BY_PATH[path].default
    assert choice.isHidden()


def test_dots_and_the_red_part_of_the_slider(controls, store, qtbot):
    measured(store, decode_s=0.01)
    line = controls.sliders["point.alpha"].line
    qtbot.waitUntil(lambda: tuple(line._dots) == (0.3,))
    assert line._bad_from == pytest.approx(store.r_max.alpha)


def test_what_does_not_matter_is_said(controls, store):
    words = {path: controls.sliders[path].words.text() for path in controls.sliders}
    for path, step in store.sensitivities.items():
        assert ("not binding here" in words[path]) == (not step.binding)
    assert "ms" in words["point.alpha"]


def test_a_bandwidth_is_read_as_the_command_line_reads_it(controls, store):
    slider = controls.sliders["point.bandwidth"]
    for text, expected in (("25.6GBps", 25.6e9), ("３２ＧＢ／ｓ", 32e9), ("3200 MT/s x 64 bit", 25.6e9)):
        slider.field.selectAll()
        slider.field.insert(text)  # as pasted
        QTest.keyClick(slider.field, Qt.Key.Key_Return)
        assert store.point.bandwidth_byte_s == expected
    type_into(slider.field, "51.2gbps")
    assert "51.2GB/s, gigabits 51.2Gbit/s" in slider.wrong.text()
    assert store.point.bandwidth_byte_s == 25.6e9


def test_limits_are_typed_with_units_and_can_be_emptied(controls, store, stack):
    field = controls.limits[LATENCY]
    type_into(field, "10")
    assert store.limits.latency_s == pytest.approx(0.010)
    type_into(field, "20 tok/s")
    assert store.limits.latency_s == pytest.approx(0.050)
    type_into(controls.limits[TOP1], "97")
    assert store.limits.top1_agreement == pytest.approx(0.97)
    field.setFocus()
    field.clear()
    QTest.keyClick(field, Qt.Key.Key_Backspace)
    field.setModified(True)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert store.limits.latency_s is None


# ---- curves


def test_a_prediction_is_dashed_and_a_calibration_solid():
    patterns = [DASHES[p] for p in (Provenance.CALIBRATED, Provenance.PREDICTED, Provenance.AS_PUBLISHED)]
    assert len(set(patterns)) == 3
    assert set(WORDS) == set(Provenance)
    assert {kind for kind, _ in ENTRIES} >= {p.value for p in Provenance}


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


def test_power_that_no_sensor_reads_is_not_called_not_measured_yet(store):
    why = "no power sensor on this machine: it is a virtual one"
    store.set_link(state="attached", channels=(Channel("board.power_w", "W", "", None, absent=why),))
    assert store.measured("power_w").reason == why
    assert store.measured("energy_j_per_token").reason == why
    assert "sensor" not in store.measured("decode_s").reason
    both = (*store.link.channels, Channel("soc.power_w", "W", "hwmon", 0.1))
    store.set_link(channels=both)
    assert "sensor" not in store.measured("power_w").reason


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


def test_accuracy_says_what_it_is_relative_to(curves, store):
    assert "4-bit (Q4_1): formats at or above it add no weight error; rounding" in accuracy_note(store.point, CATALOGUE)
    assert curves.cards[2]._note.text() == accuracy_note(store.point, CATALOGUE)
    store.set("point.runtime", "llamacpp_gpu")
    store.set("point.model", "gpt-oss-20b")
    assert "weights are 4-bit (MXFP4" in accuracy_note(store.point, CATALOGUE)


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


# ---- words


def test_a_missed_accuracy_names_the_prune_rate_that_holds_it(store):
    store.set("point.alpha", 0.9)
    store.set("limits.accuracy", 0.95)
    assert f"Pruning at most <b>α\u00a0{store.r_max.alpha:.2f}</b> would hold it." in rich(explained(store))
    held = store.prediction_of(replace(store.point, alpha=store.r_max.alpha))
    assert held.top1_agreement.median >= 0.95


def test_the_sentence_adds_up_and_names_what_it_proposes(store):
    store.set("point.alpha", 0.0)
    assert sum(share for _, _, share in ranked(explained(store).parts_s)) == pytest.approx(1.0)
    text = rich(explained(store))
    assert "of each token's time" in text
    assert "would save <b>" in text
    change = next(one for one in explained(store).changes if one.step.kind is Kind.SETTING)
    there = store.prediction_of(change.step.point)
    assert (1.0 + change.decode_frac) * store.prediction.decode_s.median == pytest.approx(there.decode_s.median)
    assert replace(change.step.point, alpha=0.0, weights="", kv="") == replace(
        store.point, alpha=0.0, weights="", kv=""
    )


def test_the_table_keeps_room_for_a_only_where_a_is_pinned(store, qtbot):
    panel = NumbersPanel(store)
    qtbot.addWidget(panel)
    panel.resize(panel.minimumSizeHint())
    panel.show()
    cell = panel._cells[LATENCY][2]
    assert not cell.isVisible()
    store.set("pinned", replace(store.point, alpha=0.9))
    panel.refresh()
    panel.resize(panel.minimumSizeHint())
    qtbot.waitUntil(lambda: cell.isVisible() and cell.width() >= 50)


def test_a_missed_limit_comes_first(store):
    store.set("limits.latency", 1e-4)
    assert rich(explained(store)).startswith("Latency per token misses its limit")
    store.set("limits.accuracy", 0.999)
    assert rich(explained(store)).startswith("Limits are missed: latency by <b>")
    assert "top-1 by <b>" in rich(explained(store))


def test_no_proposal_leaves_what_the_accuracy_budget_allows(store):
    mark = store.r_max.alpha
    for alpha in (0.0, mark, 0.8):
        store.set("point.alpha", alpha)
        pruned = [one.step.point.alpha for one in explained(store).changes if one.step.point.alpha != alpha]
        assert all(alpha < other <= mark for other in pruned)
        assert bool(pruned) == (alpha < mark - 0.01)


@pytest.mark.parametrize(
    ("runtime", "weights", "kv", "proposed"),
    [
        ("rkllm_npu", "w4a16", "fp16", set()),
        ("builtin", "fp32", "bf16", {"int8 weights", "pruning up to r_max (α 0.28)"}),
    ],
)
def test_only_what_the_runtime_can_do_is_proposed(store, runtime, weights, kv, proposed):
    store.set("point.alpha", 0.0)
    for path, value in (("runtime", runtime), ("weights", weights), ("kv", kv)):
        store.set(f"point.{path}", value)
    assert {change.step.text for change in explained(store).changes if change.step.kind is Kind.SETTING} == proposed
    assert "10 % more bandwidth" in why_html(store)


def test_a_point_outside_the_model_is_said_first(store):
    for path, value in (("board", "jetson_orin_nano_8gb_super"), ("model", "llama-3.1-8b"), ("weights", "q8_0")):
        store.set(f"point.{path}", value)
    text = rich(explained(store))
    assert text.startswith(
        "<b>Llama-3.1-8B in GGUF Q8_0 does not fit in the memory of NVIDIA Jetson Orin Nano Super 8GB: "
    )
    store.set("point.runtime", "llamacpp_gpu")
    store.set("point.alpha", 0.5)
    assert "<b>llama.cpp or Ollama on a GPU prunes no cache: " in rich(explained(store))


def test_names_are_short_where_there_is_no_room():
    formats, kv = CATALOGUE.weight_formats, CATALOGUE.kv_formats
    names = [short_name("point.weights", key, formats[key].name, CATALOGUE) for key in ("int4", "q4_k_m", "fp32")]
    assert names == ["int4 · 5.0 bit", "Q4_K_M · 4.9 bit", "fp32 · 32 bit"]
    assert all(len(short_name("point.weights", key, form.name, CATALOGUE)) <= 22 for key, form in formats.items())
    assert all(len(short_name("point.kv", key, form.name, CATALOGUE)) <= 22 for key, form in kv.items())
    assert short_name("point.runtime", "llamacpp_gpu", "llama.cpp or Ollama on a GPU", CATALOGUE) == "llama.cpp, GPU"
    for name, short in (
        ("Rockchip RK3588 (simulated)", "sim: Rockchip RK3588"),
        ("Rockchip RK3588 (simulated, its time 20 times as fast)", "sim: Rockchip RK3588"),
        ("Apple M3 Max (40-core GPU)", "Apple M3 Max"),
    ):
        assert short_name("point.board", "this", name, CATALOGUE) == short


def test_a_closed_drop_down_is_short_and_its_list_and_tool_tip_full(controls, store):
    choice = controls.choices["point.weights"]
    full = CATALOGUE.weight_formats[store.point.weights].name
    assert choice.shown().endswith(" bit")
    assert choice.currentText() == choice.toolTip() == full


def test_sensors_have_names_in_words():
    assert channel_name("cpu.steal_frac") == "CPU stolen by the host"
    assert channel_name("cpu0.clock_hz") == "CPU 0 clock"
    assert channel_name("package.temp_c") == "Package temperature"
    assert channel_name("gpu.power_w") == "GPU power"
    assert channel_name("fan.speed_rpm") == "fan.speed_rpm"


def test_why_shows_parts_changes_and_the_mark(store):
    html = why_html(store)
    for words in ("Where the time goes", "What one change would do", "What each slider does", "r_max"):
        assert words in html


def test_the_table_compares_with_the_pinned_point(qtbot, store):
    panel = NumbersPanel(store)
    qtbot.addWidget(panel)
    store.set("pinned", store.point)
    store.set("point.alpha", 0.9)
    panel.refresh()
    assert panel._cells[LATENCY][2].text().startswith("−")
    assert panel._cells[LATENCY][0].text() == "–"
    assert panel._cells[LATENCY][0].accessibleDescription() == store.measured("decode_s").reason


def test_the_curves_are_there_as_a_table(store, qtbot, qapp):
    head, rows = curve_table(store, 5)
    _, prediction = store.curve(5)
    assert head[0] == "KV prune rate α"
    assert head[1] == f"Latency per token, {WORDS[prediction.decode_s.provenance]}"
    assert len(rows) == 5
    assert rows[0][1] == str(
        LATENCY.text(
            replace(
                prediction.decode_s,
                median=prediction.decode_s.median[0],
                q05=prediction.decode_s.q05[0],
                q95=prediction.decode_s.q95[0],
            )
        )
    )
    dialog = CurveTable(store, None)
    qtbot.addWidget(dialog)
    dialog.copy()
    assert QGuiApplication.clipboard().text().count("\t") == 4 * 22


# ---- over time


def test_a_long_trace_keeps_its_extremes(qtbot, theme):
    plot = TimePlot(theme, POWER)
    qtbot.addWidget(plot)
    plot.resize(600, 200)
    plot.show()
    t, y = np.linspace(-60.0, 0.0, 100_000), np.random.default_rng(1).normal(size=100_000)
    y[12_345] = 9.0
    plot.show_ranges((-60.0, 0.0), (-10.0, 10.0))
    plot.trace.setData(t, y)
    drawn = plot.trace.curve.getData()[1]
    assert len(drawn) < 10_000
    assert drawn.max() == 9.0
    assert drawn.min() == y.min()


def test_the_past_holds_the_last_value_until_now_and_merges_what_follows_at_once():
    past = Past()
    past.add(1.0, Estimate(2.0, 1.0, 3.0, Provenance.PREDICTED))
    past.add(1.01, Estimate(2.5, 1.0, 3.0, Provenance.CALIBRATED))
    rows = past.arrays(5.0)
    assert rows[0].tolist() == [1.01, 5.0]
    assert rows[1].tolist() == [2.5, 2.5]
    assert past.provenance is Provenance.CALIBRATED


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


# ---- drawing


def test_an_axis_says_its_ticks_in_one_unit(qapp):
    def texts(unit, low, high):
        axis = TickAxis("left")
        axis.describe(unit, high)
        spacing, values = axis.tickValues(low, high, 200)[0]
        return axis.tickStrings(values, axis.scale, spacing)

    assert texts("s", 0.0, 0.012) == ["0", "2", "4", "6", "8", "10", "12"]
    assert texts("frac", 0.9, 1.0) == ["90", "92", "94", "96", "98", "100"]
    assert texts("s", -0.2, 0.1)[0].startswith("−")


@pytest.mark.parametrize("px", [30, 44, 60, 100, 200, 400])
@pytest.mark.parametrize(("low", "high"), [(3.3, 5.2), (0.0, 83.0), (0.0, 1.0), (58.0, 100.0), (2e-7, 9e-7)])
def test_texts_of_a_vertical_axis_do_not_touch(qapp, px, low, high):
    spacing, values = TickAxis("left").tickValues(low, high, px)[0]
    assert spacing * px / (high - low) >= TEXT_PX
    assert len(values) >= (2 if px >= 100 else 0)


def strips(band):
    return [polygon.boundingRect().getRect() for polygon in band.item.path().toSubpathPolygons()]


def test_a_band_breaks_where_it_is_not_finite(qtbot, theme):
    plot = CurvePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    x, low = np.arange(5.0), np.array([1.0, 1.0, np.nan, 1.0, 1.0])
    plot.band.set_data(x, low, low + 2.0)
    assert strips(plot.band) == [(0.0, 1.0, 1.0, 2.0), (3.0, 1.0, 1.0, 2.0)]


def test_a_step_holds_until_the_next(qtbot, theme):
    plot = TimePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    plot.line.setData(np.array([0.0, 1.0, 3.0]), np.array([5.0, 6.0, 7.0]))
    path = plot.line.getPath()
    corners = [(path.elementAt(i).x, path.elementAt(i).y) for i in range(path.elementCount())]
    assert corners[:4] == [(0.0, 5.0), (1.0, 5.0), (1.0, 6.0), (3.0, 6.0)]


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


def test_the_vertical_range_holds_still_until_it_must_move():
    have = (0.0, 10.0)
    assert held_range(have, [np.array([1.0, 9.0])]) == have
    assert held_range(have, [np.array([1.0, 11.0]), None, np.nan])[1] > 11.0
    assert held_range(have, [np.array([2.0, 3.0])])[1] < 4.0
    assert 1.0 <= held_range(have, [np.array([0.97, 1.0])], least=0.0, most=1.0)[1] < 1.01
    assert held_range(have, [np.array([np.nan])]) == have


SYMBOLIC = (Provenance.MEASURED, Provenance.PUBLISHED, Provenance.SIMULATED)


def test_each_provenance_draws_its_own_symbol(qapp):
    def drawn(which):
        image = QImage(20, 20, QImage.Format.Format_RGB32)
        image.fill(QColor("white"))
        painter = QPainter(image)
        draw_symbol(painter, QPointF(10, 10), which, QColor("black"), QColor("white"))
        painter.end()
        return bytes(image.constBits())

    assert len({drawn(p) for p in SYMBOLIC}) == 3


def test_each_provenance_has_its_own_symbol_in_a_plot(qtbot, theme):
    plot = CurvePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    looks = set()
    for which in SYMBOLIC:
        opts = Marks(plot, which).dots.opts
        looks.add((opts["symbol"], opts["brush"].color().name() == theme.palette.panel))
    assert looks == {("o", False), ("o", True), ("d", True)}


def test_a_dot_has_the_colour_of_what_is_measured(qtbot, theme):
    plot = CurvePlot(theme, LATENCY)
    qtbot.addWidget(plot)
    plot.resize(300, 200)
    plot.show()
    plot.show_ranges((0.0, 1.0), (0.0, 1.0))
    one = np.array([0.5])
    plot.marks.set_data(one, one, one - 0.3, one + 0.3)
    at = plot.box.mapViewToScene(QPointF(0.5, 0.5)).toPoint()
    assert plot.grab().toImage().pixelColor(at).name() == theme.palette.measured


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


def test_the_words_of_a_plot_are_those_of_its_data(store):
    data = curve_data(store, LATENCY)
    assert data.reading(0.3, 0.01).startswith("0.304: ")
    assert "against KV prune rate α" in data.description()


def test_one_long_error_bar_does_not_flatten_the_curve(store):
    data = curve_data(store, LATENCY)
    at = np.array([float(data.x[3])])
    far = replace(data, dots=(at, np.array([0.01]), np.array([0.009]), np.array([12.0])))
    held = np.concatenate([np.ravel(v) for v in far.y_values if v is not None])
    assert held.max() <= 3 * max(float(data.q95.max()), 0.01)
    outlier = replace(data, dots=(at, np.array([12.0]), np.array([11.0]), np.array([13.0])))
    assert max(np.max(v) for v in outlier.y_values if v is not None) >= 12.0  # a dot is always in the picture


def test_no_line_of_a_wrapped_label_ends_between_a_number_and_its_unit(qtbot):
    made = label("at most 53 °C", wrap=True)
    qtbot.addWidget(made)
    assert QLabel.text(made) == "at most 53\u00a0°C"
    made.setText("up to 24 %")
    assert QLabel.text(made) == "up to 24\u00a0%"
    assert made.text() == "up to 24 %"  # as it was given, for those who compare


def test_old_bands_and_long_bars_do_not_flatten_what_came_after_them():
    values = (np.array([9.0, 9.2, 9.1]), np.array([9.5]))
    held, bound = within_reach(values, (np.array([3.0, 8.7]), np.array([60.0, 9.6, np.nan])))
    assert sorted(held) == [9.0, 9.1, 9.2, 9.5]
    assert np.nanmin(bound) >= 9.0 - 0.5 * 9.5
    assert np.nanmax(bound) <= 9.5 + 0.5 * 9.5
    assert bound[1] == 8.7  # what lies near is held as it is
    assert within_reach((np.array([np.nan]),), (np.array([1.0]),))[1].tolist() == [1.0]


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


def test_the_log_gives_the_word_of_a_warning_its_colour(qtbot, store):
    theme = Theme("dark")
    panel = LogPanel(store, theme)
    qtbot.addWidget(panel)
    store.say("error", "it broke")

    def colors():
        return {f.format.foreground().color().name() for f in panel.document().lastBlock().layout().formats()}

    qtbot.waitUntil(lambda: colors() >= {DARK.dim, DARK.bad})
    theme.choose("light")
    qtbot.waitUntil(lambda: colors() >= {LIGHT.dim, LIGHT.bad})
