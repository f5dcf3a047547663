"""Trade-off, breakdown and pruning views: what they draw is what core says, and a click goes there."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent

from app.library.limits import Limits
from app.library.measurements import Measurement
from app.model.breakdown import roofline
from app.model.commands import undo_stack
from app.model.store import Store
from app.model.tradeoff import AGAINST, trade
from app.text.chart import Chart, Points, Series
from app.views.panels.breakdown import Breakdown, roofline_chart, stage_bars
from app.views.panels.pruning import Pruning
from app.views.panels.tradeoff import TradeOff
from app.views.widgets.chart_card import ChartCard
from app.views.widgets.chart_plot import ChartPlot
from app.views.widgets.label_place import overlap
from app.views.widgets.theme import DARK, Theme
from core.catalogue.load import load_catalogue
from core.physics.pruning import r_max_zipf
from core.physics.quality import retrieval_score
from core.predict.scenario import predict
from core.spec import Absent, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
RK = OperatingPoint(board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8", kv="fp16")


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE)


def shown(qtbot, made, size=(900, 700)):
    qtbot.addWidget(made)
    made.resize(*size)
    made.show()
    qtbot.waitExposed(made)
    return made


# ---- trade-off


@pytest.mark.parametrize(
    ("point", "foreign"),
    [(RK, {"q4_0", "q4_k_m", "int4", "fp32"}), (replace(RK, runtime="llamacpp_cpu", weights="q4_0"), {"w4a16", "nf4"})],
)
def test_points_are_of_the_formats_that_the_runtime_takes_and_the_one_asked_for(point, foreign):
    found = {each.weights for each in trade(point, CATALOGUE, None, AGAINST[0], Limits()).points}
    assert point.weights in found
    assert len(found) > 3
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
    assert view.sentence.text().startswith("The front bends at")
    assert not isinstance(view._trade.bend, Absent)
    assert view._trade.on_front[view._trade.bend.index]


# ---- breakdown


def test_spots_lie_under_the_roofs_and_roofs_meet_at_the_ridge():
    point = OperatingPoint()
    said = predict(point, CATALOGUE)
    found = roofline(point, CATALOGUE, None, said)
    assert [spot.name for spot in found.spots] == ["decode", "prompt"]
    for spot in found.spots:
        assert spot.op_s <= min(spot.op_per_byte * found.bandwidth_byte_s, found.compute_op_s)
    assert found.spots[0].op_per_byte < found.ridge_op_per_byte < found.spots[1].op_per_byte
    chart = roofline_chart(found, Provenance.PREDICTED)
    peak, reached = chart.series
    assert np.all(reached.y <= peak.y)
    assert chart.rules[0].at == pytest.approx(found.ridge_op_per_byte)
    assert peak.y[-1] == found.compute_op_s
    doubled = roofline(replace(point, beta=2.0), CATALOGUE, None, predict(replace(point, beta=2.0), CATALOGUE))
    assert doubled.compute_op_s == 2 * found.compute_op_s


def test_parts_add_up_and_stages_say_what_is_missing(qtbot, store):
    store.set_machine("here", [], "")
    view = shown(qtbot, Breakdown(store, undo_stack(), Theme("dark")))
    assert sum(bar.value for bar in view.parts._bars) == pytest.approx(store.prediction.decode_s.median)
    assert "Not measured" in view._stage_words.text()
    spans = [
        {"stage": "prompt_load_s", "start_s": 1.0, "end_s": 1.1},
        {"stage": "first_token_s", "start_s": 1.1, "end_s": 1.4},
        {"stage": "decode_s", "start_s": 1.4, "end_s": 2.0},
    ]
    value = {"median": 0.02, "q05": 0.02, "q95": 0.02, "n": 9, "provenance": "measured"}
    store.add_measurement(
        Measurement(store.point, {"decode_s": value, "spans": spans}, "2026-01-01T00:00:00+00:00", "here")
    )
    view.refresh()
    assert [bar.value for bar in view.stages._bars] == pytest.approx([0.1, 0.3, 0.6])
    assert all(bar.provenance is Provenance.MEASURED for bar in view.stages._bars)
    assert "Together 1.00 s" in view._stage_words.text()


def test_measured_stages_stand_beside_their_predictions(qtbot, store):
    store.set_machine("here", [], "")
    view = shown(qtbot, Breakdown(store, undo_stack(), Theme("dark")))
    assert "Board menu" in view._token_words.text()
    predicted = {bar.name: bar.value for bar in view.token._bars}
    assert sum(predicted.values()) == pytest.approx(store.prediction.decode_s.median, rel=1e-6)

    def value(seconds):
        return {"median": seconds, "q05": seconds, "q95": seconds, "n": 9, "provenance": "measured"}

    body = {
        "stages_s": {"attention_s": value(0.004), "head_s": value(0.001)},
        "request_stages_s": {"prompt_load_s": value(0.01), "protocol_s": {"absent": "nobody is told"}},
    }
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", "here"))
    store.add_measurement(Measurement(store.point, {"top1_agreement": value(0.9)}, "2026-01-01T00:00:01+00:00", "here"))
    view.refresh()
    bars = {bar.name: bar for bar in view.token._bars}
    assert bars["attention"].provenance is Provenance.MEASURED
    assert bars["attention"].value == 0.004
    assert f"predicted {1e3 * predicted['attention']:.2f} ms"[:14] in bars["attention"].text
    assert bars["query, key, value"].provenance is Provenance.PREDICTED
    assert [bar.name for bar in view.stages._bars] == ["prompt load"]
    assert "protocol" in view._stage_words.text()
    store.set("point.alpha", 0.5)
    view.refresh()
    assert all(bar.provenance is Provenance.PREDICTED for bar in view.token._bars)


def test_spans_of_one_stage_are_added():
    bars = stage_bars([{"stage": "protocol_s", "start_s": i, "end_s": i + 0.25} for i in range(4)])
    assert [(bar.name, bar.value) for bar in bars] == [("protocol", 1.0)]


# ---- pruning


def test_pruning_curves_are_the_predictions_and_end_at_r_max(qtbot, store):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")))
    chart = view.time.chart
    masked = next(line for line in chart.series if line.name == "masked")
    compacted = next(line for line in chart.series if "compacted" in line.name)
    assert np.ptp(masked.y) == pytest.approx(0)
    assert compacted.y[-1] < compacted.y[0]
    mark = next(rule for rule in chart.rules if rule.name == "r_max")
    assert mark.at == chart.wash_from == pytest.approx(r_max_zipf(1024))
    mass = view.mass.chart.series[0]
    assert mass.y[0] == pytest.approx(1)
    assert np.interp(mark.at, mass.x, mass.y) == pytest.approx(0.98, abs=0.002)
    names = ", ".join(line.name for line in view.agreement.chart.series)
    assert "attention mass" in names
    assert "key norm" in names
    found = view.retrieval.chart
    own = next(line for line in found.series if line.low is not None)
    assert own.name == "attention mass"
    band = retrieval_score(own.x, "attention_mass")
    np.testing.assert_allclose(np.stack([own.low, own.y, own.high]), np.stack([band.q05, band.median, band.q95]))
    assert "expected attention 97 %" in found.description
    store.set("point.policy", "page_bounds")
    qtbot.waitUntil(lambda: "No published table has" in view.retrieval.chart.description)


def test_the_mass_that_was_measured_stands_beside_the_assumed_one(qtbot, store):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")))
    assert not view.mass.chart.points
    store.set_machine("here", [])
    record = {"n_tokens": 512, "keep_shares": [0.25, 0.5, 1.0], "retained_mass": [0.9, 0.97, 1.0]}
    store.add_measurement(Measurement(store.point, {"attention": record}, "2026-01-01T00:00:00+00:00", "here"))
    view.refresh()
    (dots,) = view.mass.chart.points
    np.testing.assert_allclose((dots.x, dots.y), ([0.75, 0.5, 0.0], [0.9, 0.97, 1.0]))
    assert view.mass.chart.description.endswith("dots: measured on this model at 512 tokens.")
    assert store.r_max.alpha == pytest.approx(1 / 3)  # where the dots say: from 0.5 at 97 % to 0 at 100 %
    store.set("point.board", "raspberry_pi_5")
    view.refresh()
    assert not view.mass.chart.points


@pytest.mark.parametrize("size", [(900, 700), (560, 1200)])
def test_no_name_of_a_curve_is_cut_or_written_over_another(qtbot, qapp, store, size):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")), size)
    cards = (view.mass, view.time, view.agreement, view.retrieval)
    qtbot.waitUntil(lambda: all(card.plot is not None and card.plot._names.shown for card in cards))
    view.resize(size[0] + 40, size[1])  # they are placed anew
    qapp.processEvents()
    view.grab()  # painted, whenever Qt would do it: where items lie in the scene is known only then
    for card in cards:
        plot = card.plot
        assert [name.toPlainText() for name in plot._names.shown] == [line.name for line in card.chart.series]
        room = plot.box.sceneBoundingRect().adjusted(-1, -1, 1, 1)
        boxes = [name.sceneBoundingRect() for name in plot._names.shown]
        assert all(room.contains(box) for box in boxes)
        boxes += [line.label.sceneBoundingRect() for line in plot._rules["x"].shown if line.label.format]
        edges = [box.adjusted(1, 1, -1, -1).getCoords() for box in boxes]
        assert not any(overlap(a, b) for a, b in combinations(edges, 2))


def test_the_mark_follows_the_accuracy_limit(qtbot, store):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")))
    before = view.time.chart.wash_from
    store.set("limits.accuracy", 0.97)
    qtbot.waitUntil(lambda: view.time.chart.wash_from != before)
    assert "97.0 %" in view.sentence.text()


# ---- the chart itself


def test_a_chart_draws_on_logarithmic_axes_and_reads_plain_values(qtbot, qapp):
    x = np.geomspace(1, 1000, 31)
    chart = Chart(
        "t", ("a", "1"), ("b", "s"), (Series(x, x / 10, Provenance.PREDICTED),), points=(Points(x[:1], x[:1]),),
        x_range=(1, 1000), y_range=(0.1, 100), log=(True, True),
    )  # fmt: skip
    card = shown(qtbot, ChartCard(Theme("dark"), "c", "t"), (500, 300))
    card.show_chart(chart)
    card.make_plot()
    assert card.plot.box.viewRange()[0] == pytest.approx([0, 3])
    card.plot.pointed.emit(2.0)
    assert card._words.text() == "100  10.0 s"
    card.plot.pointed.emit(None)
    assert card._words.text() == "b in s against a"
    n_items = len(card.plot.plotItem.items)
    card.show_chart(chart)
    assert len(card.plot.plotItem.items) == n_items  # the old ones are gone


def test_a_chart_without_data_says_why(qtbot, qapp):
    card = shown(qtbot, ChartCard(Theme("light"), "c", "t"), (500, 300))
    card.make_plot()
    card.show_chart(Chart("t", ("a", "1"), ("b", "s"), message="Not predicted: no source"))
    assert card._space.message.text() == "Not predicted: no source"
    assert card.plot.accessibleDescription() == "Not predicted: no source"


def test_the_dot_under_the_pointer_says_which_mix_it_is(qtbot, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view._trade is not None and view.card.plot is not None)
    axes, found, plot = view.card._words.text(), view._trade, view.card.plot

    def point_at(x, y):
        at = plot.box.mapViewToScene(QPointF(x, y))
        none = Qt.MouseButton.NoButton
        plot.mouseMoveEvent(QMouseEvent(QEvent.Type.MouseMove, at, at, none, none, Qt.KeyboardModifier(0)))

    index = int(np.flatnonzero(found.on_front)[0])
    point_at(*(found.found.outputs[n].median[index] for n in ("decode_s", "top1_agreement")))
    said = view.card._words.text()
    assert said.startswith(f"{view._name(found.points[index])}: ")
    assert said.count("predicted") == 2
    plot.pointed.emit(None)
    assert view.card._words.text() == axes


def test_families_of_points_are_named_and_no_name_is_written_over_another(qtbot, qapp, store):
    view = shown(qtbot, TradeOff(store, undo_stack(), Theme("dark")))
    qtbot.waitUntil(lambda: view._trade is not None and view.card.plot is not None)
    named = {text for *_, text in view.card.chart.words}
    assert len(named) == len({point.weights for point in view._trade.points})
    qapp.processEvents()
    shown_texts = [item for item in view.card.plot._texts.shown if item.isVisible()]
    assert {"here"} < {item.toPlainText() for item in shown_texts} <= named | {"here"}
    for width, height in ((1000, 700), (420, 320), (700, 500)):  # placed anew where the size changes
        view.resize(width, height)
        qapp.processEvents()
        shown_texts = [item for item in view.card.plot._texts.shown if item.isVisible()]
        boxes = [item.sceneBoundingRect().adjusted(1, 1, -1, -1) for item in shown_texts]
        assert boxes
        assert not any(a.intersects(b) for i, a in enumerate(boxes) for b in boxes[:i]), (width, height)
        ((x, y, _),) = view.card.plot._named
        here = view.card.plot.box.mapViewToScene(QPointF(x, y))
        assert not any(box.contains(here) for box in boxes), (width, height)
