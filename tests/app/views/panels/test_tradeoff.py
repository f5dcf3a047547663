"""The trade-off: dots of the formats, front, limits; a click goes there."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent

from app.library.limits import Limits
from app.model.commands import undo_stack
from app.model.store import Store
from app.model.tradeoff import AGAINST, trade
from app.text.chart import Chart, Points
from app.views.panels.tradeoff import TradeOff
from app.views.widgets.chart_plot import ChartPlot
from app.views.widgets.theme import DARK, Theme
from core.predict.request import p99_s
from core.predict.scenario import predict
from core.spec import Absent, Estimate, OperatingPoint, Provenance
from tests.app.views.parts import CATALOGUE, shown

TIMES = "ttft_s", "decode_s"
RK = OperatingPoint(board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8", kv="fp16")


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE)


@pytest.mark.parametrize(
    ("point", "foreign"),
    [
        (RK, {"q4_0", "q4_k_m", "int4", "fp32", "w4a16"}),
        (replace(RK, runtime="llamacpp_cpu", weights="q4_0"), {"w4a16", "nf4"}),
    ],
)
def test_points_are_of_the_formats_that_the_runtime_takes_and_the_one_asked_for(point, foreign):
    found = {each.weights for each in trade(point, CATALOGUE, None, AGAINST[0], Limits()).points}
    assert point.weights in found
    assert len(found) >= 2
    assert not found & foreign
    asked = replace(point, weights="tq1_0")
    assert "tq1_0" in {each.weights for each in trade(asked, CATALOGUE, None, AGAINST[0], Limits()).points}


@pytest.mark.parametrize("against", AGAINST)
def test_no_point_beats_the_front_and_every_point_is_the_prediction(against):
    point = OperatingPoint()
    found = trade(point, CATALOGUE, None, against, Limits())
    sign = -1 if against == "accuracy" else 1
    names = {"accuracy": "top1_agreement", "energy": "energy_j_per_token", "power": "power_w", "memory": "memory_byte"}
    x, y = found.found.outputs["decode_s"].median, sign * found.found.outputs[names[against]].median
    for i in np.flatnonzero(found.on_front):
        assert not np.any((x <= x[i]) & (y <= y[i]) & ((x < x[i]) | (y < y[i])))
    for i in (0, 57, len(found.points) - 1):
        assert float(predict(found.points[i], CATALOGUE).decode_s.median) == pytest.approx(x[i])
    assert {p.context_tokens for p in found.points} == {point.context_tokens}
    assert not {p.weights for p in found.points} & {"int3", "int2"}  # they have no speed to trade


def test_limits_part_the_points():
    limits = Limits(latency_s=0.012, top1_agreement=0.95)
    found = trade(OperatingPoint(), CATALOGUE, None, "accuracy", limits)
    x, a = (found.found.outputs[name].median for name in ("decode_s", "top1_agreement"))
    assert np.array_equal(found.feasible, (x <= 0.012) & (a >= 0.95))
    assert 0 < found.feasible.sum() < len(x)


def test_the_p99_of_a_request_parts_the_points():
    tails = trade(OperatingPoint(), CATALOGUE, None, "accuracy", Limits()).found.outputs
    ttft, decode = (p99_s(Estimate(o.median, o.q05, o.q95, Provenance.PREDICTED)) for o in map(tails.get, TIMES))
    limit = float(np.nanmedian(ttft + 9 * decode))
    found = trade(OperatingPoint(), CATALOGUE, None, "accuracy", Limits(request_p99_s=limit, answer_tokens=10.0))
    assert np.array_equal(found.feasible, ~(ttft + 9 * decode > limit))
    assert 0 < found.feasible.sum() < len(ttft)


def test_a_runtime_without_knobs_trades_what_it_can():
    found = trade(RK, CATALOGUE, None, "memory", Limits())
    assert {float(p.alpha) for p in found.points} == {float(RK.alpha)}
    assert len({p.weights for p in found.points}) > 1


def test_a_click_on_a_dot_goes_there_and_undo_comes_back(qtbot, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view._trade is not None and view.card.plot is not None)
    found, before, plot = view._trade, store.point, view.card.plot
    index = int(np.flatnonzero(found.on_front)[0])
    x, y = (found.found.outputs[n].median[index] for n in ("decode_s", "top1_agreement"))
    at = plot.box.mapViewToScene(QPointF(x, y))
    for kind in (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonRelease):
        event = QMouseEvent(kind, at, at, Qt.MouseButton.LeftButton, Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0))
        (plot.mousePressEvent if kind == QEvent.Type.MouseButtonPress else plot.mouseReleaseEvent)(event)
    assert store.point == found.points[index] != before
    view._stack.undo()
    assert store.point == before


def test_the_front_is_dashed_until_all_of_it_is_calibrated(qtbot, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: bool(view.card.chart.series))
    found = view._trade
    assert view.card.chart.series[0].provenance is Provenance.PREDICTED
    told = {
        name: replace(column, provenance=np.full(len(column.median), "calibrated"))
        for name, column in found.found.outputs.items()
    }
    for outputs, provenance in (
        (told, Provenance.CALIBRATED),
        ({**told, "top1_agreement": found.found.outputs["top1_agreement"]}, Provenance.PREDICTED),
    ):
        chart = view._chart(replace(found, found=replace(found.found, outputs=outputs)))
        assert chart.series[0].provenance is provenance


def test_the_name_of_a_dot_stands_behind_it_on_a_ground_of_its_own(qtbot, qapp):
    plot = shown(qtbot, ChartPlot(Theme("dark"), "p", "P"), (400, 300))
    at = np.array([0.5])
    plot.show_chart(Chart("P", ("x", "1"), ("y", "1"), points=(Points(at, at, "text", True, 13, names=("A",)),)))
    qapp.processEvents()
    (text,) = plot._texts.shown
    room = text.sceneBoundingRect()
    dot = plot.box.mapViewToScene(QPointF(0.5, 0.5))
    assert 6.5 < room.left() - dot.x() < 12
    assert text.fill.color().name() == DARK.panel


def test_what_cannot_be_traded_is_said(qtbot, store):
    bare = replace(CATALOGUE.boards["this"], system_energy_j_byte=None)
    poor = Store(replace(CATALOGUE, boards={**CATALOGUE.boards, "this": bare}))
    poor.set("trade.against", "energy")
    view = shown(qtbot, TradeOff(poor, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view.sentence.text() != "")
    assert "energy per byte" in view.sentence.text()


def test_the_sentence_names_the_bend(qtbot, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view._trade is not None)
    assert view.sentence.text().startswith("The knee is at")
    assert not isinstance(view._trade.knee, Absent)
    assert view._trade.on_front[view._trade.knee.index]
