"""The controls push commands: sliders, fields, limits."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest

from app.text.quantities import LATENCY, TOP1
from app.views.panels.controls import ASIDE
from core.spec import BY_PATH
from tests.app.views.parts import CATALOGUE, measured


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
    assert "board's own" in controls.sliders["point.bandwidth"].words.text()


@pytest.mark.parametrize(("key", "moves"), [(Qt.Key.Key_Right, 1), (Qt.Key.Key_Down, -1), (Qt.Key.Key_PageUp, 1)])
def test_keys_step(controls, store, key, moves):
    QTest.keyClick(controls.sliders["point.alpha"].line, key)
    assert np.sign(store.point.alpha - 0.3) == moves


def test_the_wheel_steps_a_field(controls, store):
    controls.resize(300, 1200)  # with room for all, the panel does not need the wheel
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
    controls.more.setChecked(True)
    words = {path: slider.words.text() for path, slider in controls.sliders.items() if not slider.isHidden()}
    assert {"point.alpha", "point.activation_keep", "point.weight_sparsity", "point.on_chip"} < words.keys()
    for path, text in words.items():
        assert ("not binding here" in text) == (not store.sensitivities[path].binding)
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


def test_limits_on_requests_and_sustained_speed_are_typed_with_units(controls, store):
    fields = {quantity.limit: field for quantity, field in controls.limits.items()}
    type_into(fields["limits.request"], "1.5")
    type_into(fields["limits.answer"], "256")
    type_into(fields["limits.sustained"], "8 tok/s")
    limits = store.limits
    assert (limits.request_p99_s, limits.answer_tokens, limits.sustained_tokens_s) == (1.5, 256.0, 8.0)
    type_into(fields["limits.answer"], "2.5")
    assert "Answer of a request" in controls._limit_words.text()
    assert store.limits.tokens == 256.0


def test_a_closed_drop_down_is_short_and_its_list_and_tool_tip_full(controls, store):
    choice = controls.choices["point.weights"]
    full = CATALOGUE.weight_formats[store.point.weights].name
    assert choice.shown().endswith(" bit")
    assert choice.currentText() == choice.toolTip() == full


def test_weights_and_kv_are_sliders_ordered_by_bits_over_what_the_runtime_supports(controls, store):
    bits = {key: one.bits_per_weight for key, one in store.catalogue.weight_formats.items()}
    line, choice = controls.stops["point.weights"], controls.choices["point.weights"]
    store.set("point.runtime", "llamacpp_cpu")
    keys = [choice.itemData(i) for i in range(choice.count())]
    assert [bits[key] for key in keys] == sorted(bits[key] for key in keys)
    assert {"tq1_0", "q4_k_m", "fp32"} < set(keys)
    assert not {"w8a8", "fp8", "int2"} & set(keys)
    line.setFocus()
    QTest.keyClick(line, Qt.Key.Key_Home)
    assert store.point.weights == keys[0]
    QTest.keyClick(line, Qt.Key.Key_Right)
    assert store.point.weights == keys[1] == choice.currentData()
    QTest.keyClick(line, Qt.Key.Key_End)
    assert store.point.weights == "fp32"
    assert line.accessibleDescription() == store.catalogue.weight_formats["fp32"].name
    kv = controls.stops["point.kv"]
    kv.move_to(0.0, new_drag=True)
    assert store.point.kv == "q4_0"
    assert (line.objectName(), kv.objectName()) == ("point.weights.line", "point.kv.line")


def test_more_shows_the_options_that_have_an_effect(controls, store):
    widgets = controls.choices | controls.sliders
    assert all(widgets[path].isHidden() for path in ASIDE)
    store.set("point", replace(store.point, alpha=0.5, policy="composite"))
    controls.more.setChecked(True)
    without = {"point.sparsity_pattern", "point.on_chip_bandwidth", "point.adapter_matrices"}
    assert {path for path in ASIDE if widgets[path].isHidden()} == without
    store.set("point.adapter_rank", 16.0)
    assert not widgets["point.adapter_matrices"].isHidden()
    controls.more.setChecked(False)
    shown = {"point.score_weights", "point.adapter_rank", "point.adapter_matrices"}
    assert {path for path in ASIDE if not widgets[path].isHidden()} == shown


def test_score_weights_are_typed(controls, store):
    store.set("point", replace(store.point, alpha=0.5, policy="composite"))
    controls.more.setChecked(True)
    line = controls.choices["point.score_weights"].lineEdit()
    refused = []
    controls.refused.connect(refused.append)
    for text in ("0.1, 0.2, 0.3, 0.4", "1, 1, 1, 1"):
        line.setText(text)
        QTest.keyClick(line, Qt.Key.Key_Return)
        assert line.text() == store.point.score_weights == "0.1/0.2/0.3/0.4"
    assert [sentence.startswith("Score weights: got '1, 1, 1, 1', expected four shares") for sentence in refused] == [
        True
    ]
