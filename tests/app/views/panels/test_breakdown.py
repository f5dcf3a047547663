"""The breakdown: roofline and stages."""

from dataclasses import replace

import numpy as np
import pytest

from app.library.measurements import Measurement
from app.model.breakdown import roofline
from app.model.commands import undo_stack
from app.model.store import Store
from app.views.panels.breakdown import Breakdown, roofline_chart, stage_bars
from app.views.widgets.theme import Theme
from core.predict.scenario import predict
from core.spec import OperatingPoint, Provenance
from tests.app.views.parts import CATALOGUE, shown


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE)


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


@pytest.mark.parametrize("absent", [{"absent": "no request was measured"}, {"decode_s": {"absent": "not timed"}}, {}])
def test_predicted_stages_are_shown_where_none_is_measured(qtbot, store, absent):
    store.set_machine("here", [], "")
    view = shown(qtbot, Breakdown(store, undo_stack(), Theme("dark")))
    value = {"median": 0.02, "q05": 0.02, "q95": 0.02, "n": 9, "provenance": "measured"}
    body = {"decode_s": value, "request_stages_s": absent}
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", "here"))
    view.refresh()
    assert [bar.provenance for bar in view.stages._bars] == [Provenance.PREDICTED, Provenance.MEASURED]
    assert [bar.value for bar in view.stages._bars] == [store.prediction.ttft_s.median, 0.02]
    assert "Not measured at this point: prompt load" in view._stage_words.text()


def test_spans_of_one_stage_are_added():
    bars = stage_bars([{"stage": "protocol_s", "start_s": i, "end_s": i + 0.25} for i in range(4)])
    assert [(bar.name, bar.value) for bar in bars] == [("protocol", 1.0)]


def test_stages_within_the_spans_of_a_request_stand_behind_them(qtbot, store):
    store.set_machine("here", [], "")
    view = shown(qtbot, Breakdown(store, undo_stack(), Theme("dark")))
    names = ("prompt_load_s", "kv_build_s", "first_token_s", "decode_s", "protocol_s")
    spans = [{"stage": name, "start_s": i, "end_s": i + 1.0} for i, name in enumerate(names)]
    value = {"median": 0.25, "q05": 0.25, "q95": 0.25, "n": 2, "provenance": "measured"}
    body = {"spans": spans, "request_stages_s": {"buffer_write_s": value, "peripheral_s": {"absent": "not told"}}}
    store.add_measurement(Measurement(store.point, body, "2026-01-01T00:00:00+00:00", "here"))
    view.refresh()
    assert [bar.value for bar in view.stages._bars] == [1.0] * 5 + [0.25]
    words = view._stage_words.text()
    assert "Together 5.00 s, end to end. Buffer write lies within them." in words
    assert words.endswith("Not measured at this point: peripheral interrupt.")


def test_breakdown_and_roofline_name_the_power_limit(qtbot, store):
    view = shown(qtbot, Breakdown(store, undo_stack(), Theme("dark")))
    store.set("point", OperatingPoint(board="raspberry_pi_5", runtime="llamacpp_cpu", weights="q4_k_m", kv="fp16"))
    view.refresh()
    assert "power limit" not in view.sentence.text()
    store.set("point.power_limit", 4.0)
    view.refresh()
    assert view.sentence.text().endswith("The power limit binds.")
    named = roofline(store.point, store.catalogue, store.posterior, store.prediction)
    assert named.spots[0].name == "decode, limited by power"
