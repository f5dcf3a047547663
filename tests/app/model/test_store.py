"""The one mutable state: what it accepts, what it emits, what follows from it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from app.library import axes
from app.library.limits import Limits
from app.library.measurements import Measurement
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import Absent, Estimate, OperatingPoint

HELLO = {
    "board": {"cpu": "test cpu", "n_threads": 2},
    "can": {"measure": True, "bandwidth": True},
    "models": [{"file": "m.gguf", "byte": 98}],
}


def value(median, spread=1.05):
    return {"median": median, "q05": median / spread, "q95": median * spread, "n": 9, "provenance": "measured"}


def run_of(point, **outputs):
    return Measurement(point, {name: value(v) for name, v in outputs.items()}, "2026-01-01T00:00:00+00:00", "m")


@pytest.fixture
def store(qapp):
    return Store(load_catalogue())


@pytest.fixture
def attached(store):
    store.set_link(state="attached", text="Attached.", hello=HELLO)
    store.set_machine("m", [])
    return store


@pytest.fixture
def seen(store):
    paths = []
    store.changed.connect(paths.append)
    return paths


@pytest.mark.parametrize(
    ("path", "bad", "expected"),
    [
        ("point.alpha", 1.0, "0 <= alpha < 1"),
        ("point.alpha", -0.1, "0 <= alpha < 1"),
        ("point.alpha", "abc", "expected a number"),
        ("point.alpha", True, "expected a number"),
        ("point.alpha", math.nan, "expected a finite number"),
        ("point.beta", 0.0, "0.001 to 1000"),
        ("point.reselect", -1.0, "whole number of tokens, or 0"),
        ("point.reselect", 2.5, "whole number of tokens, or 0"),
        ("point.reselect", "often", "expected a number"),
        ("point.bandwidth", -1.0, "1 kB/s to 1 EB/s"),
        ("point.context", 0, "at least 1 token"),
        ("point.context", 8193, "at most 8192 tokens"),
        ("point.board", "no such board", "expected one of"),
        ("point.model", "gpt-9", "expected one of"),
        ("point.weights", "int7", "expected one of"),
        ("point.power_mode", "turbo", "expected one of"),
        ("point", {"alpha": 0.5}, "expected an operating point"),
        ("limits.latency", 0.0, "above 0"),
        ("limits.latency", math.inf, "above 0"),
        ("limits.accuracy", 1.5, "0 < limit <= 1"),
        ("limits.request", math.nan, "above 0"),
        ("limits.sustained", -1.0, "above 0"),
        ("limits.answer", 1.5, "a whole number of tokens"),
        ("limits.answer", 1e9, "1 to 1000000"),
        ("axis", "point.colour", "expected one of"),
        ("theme", "pink", "expected one of"),
        ("paused", 1, "true or false"),
        ("colour", 1, "no path"),
    ],
)
def test_a_wrong_value_is_one_sentence_and_changes_nothing(store, seen, path, bad, expected):
    before = store.point, store.limits, store.axis
    with pytest.raises(ValueError, match=expected) as caught:
        store.set(path, bad)
    assert "\n" not in str(caught.value)
    assert (store.point, store.limits, store.axis) == before
    assert seen == []


def test_an_unknown_path_cannot_be_read(store):
    with pytest.raises(ValueError, match="no path"):
        store.get("point.colour")


def test_it_changes_before_it_says_so(store):
    heard = []
    store.changed.connect(lambda path: heard.append((path, store.point.alpha, store.axis)))
    store.set("point.alpha", 0.5)
    assert heard == [("point.alpha", 0.5, "point.alpha"), ("prediction", 0.5, "point.alpha")]


def test_setting_what_is_there_says_nothing(store, seen):
    store.set("point.alpha", store.point.alpha)
    store.set("limits.power", None)
    store.set("theme", "system")
    assert seen == []


def test_the_slider_last_moved_is_the_axis_but_a_board_is_not(store, seen):
    store.set("point.context", 2048)
    assert store.axis == "point.context"
    store.set("point.weights", "int8")
    assert store.axis == "point.weights"
    store.set("point.board", "rk3588")
    assert store.axis == "point.weights"
    assert seen[:3] == ["point.context", "prediction", "axis"]


def test_a_model_with_a_shorter_context_takes_the_context_along_and_says_so(store):
    shorter = next(m for m in store.catalogue.models.values() if m.max_context_tokens < 8192)
    store.set("point.context", 8192)
    store.set("point.model", shorter.key)
    assert store.point.context_tokens == shorter.max_context_tokens
    assert shorter.name in store.log[-1].text


def test_a_board_without_the_power_mode_goes_back_to_its_default(store):
    board = next(b for b in store.catalogue.boards.values() if len(b.power_modes) > 1 and b.key != "this")
    store.set("point.board", board.key)
    store.set("point.power_mode", list(board.power_modes)[1])
    store.set("point.board", "this")
    assert store.point.power_mode == ""


def test_prediction_is_the_engine_s_and_is_made_once(store):
    store.set("point.alpha", 0.3)
    assert store.prediction == predict(store.point, store.catalogue)
    assert store.prediction is store.prediction
    first = store.prediction
    store.set("point.alpha", 0.4)
    assert store.prediction.decode_s.median < first.decode_s.median


@pytest.mark.parametrize("axis", ["point.alpha", "point.bandwidth", "point.beta", "point.context"])
def test_a_curve_runs_through_the_predictions_of_its_points(store, axis):
    x, curve = store.curve(64, axis)
    i = 40
    store.set(axis, float(x[i]))
    np.testing.assert_allclose(curve.decode_s.median[i], store.prediction.decode_s.median, rtol=2e-3)
    np.testing.assert_allclose(curve.decode_s.q95[i], store.prediction.decode_s.q95, rtol=2e-2)


@pytest.mark.parametrize("axis", ["point.weights", "point.kv", "point.policy", "point.board", "point.model"])
def test_a_curve_of_names_has_one_point_an_option(store, axis):
    x, curve = store.curve(axis=axis)
    options = store.axis_range(axis).options
    assert x.tolist() == list(range(len(options)))
    assert curve.decode_s.median.shape == x.shape
    for i in (0, len(options) - 1):
        store.set(axis, options[i][0])
        assert store.position(axis) == i
        at = store.prediction.decode_s
        if isinstance(at, Absent):  # a format for accuracy only has no speed
            assert np.isnan(curve.decode_s.median[i])
        else:
            assert curve.decode_s.median[i] == pytest.approx(at.median)


def test_the_formats_offered_are_those_the_runtime_runs_and_the_one_in_use(store):
    offered = [key for key, _ in store.axis_range("point.weights").options]
    own = ["int2", "int3", "int4_g128", "int4_g64", "int4", "int8", "bf16", "fp16", "fp32"]  # by bits
    assert offered == own
    store.set("point.weights", "q4_k_m")  # a preset may hold it: predicted, not measured
    with_it = [key for key, _ in store.axis_range("point.weights").options]
    assert sorted(with_it) == sorted([*own, "q4_k_m"])
    store.set("point.runtime", "llamacpp_cpu")
    llama = [key for key, _ in store.axis_range("point.weights").options]
    assert {"q4_k_m", "q8_0", "iq1_s"} < set(llama)
    assert not {"w4a16", "int2"} & set(llama)  # not its own, and one that no runtime has a kernel for


def test_sensitivity_is_the_difference_of_two_predictions(store):
    store.set("point.alpha", 0.2)
    before = store.prediction.decode_s.median
    stated = store.sensitivities["point.alpha"]
    store.set("point.alpha", 0.3)
    assert stated.axis.step == 0.1
    assert stated.decode_s == pytest.approx(store.prediction.decode_s.median - before)
    assert stated.binding


def test_sensitivity_at_the_end_of_the_axis_looks_back(store):
    store.set("point.context", 8192)
    end = store.sensitivities["point.context"].decode_s
    store.set("point.context", 4096)
    assert end == pytest.approx(store.sensitivities["point.context"].decode_s, rel=0.3)
    assert end > 0


def test_alpha_on_a_tiny_context_is_not_binding(store):
    store.set("point.context", 1)
    assert not store.sensitivities["point.alpha"].binding


def test_the_mark_on_alpha_follows_the_accuracy_limit(store):
    by_mass = store.r_max
    assert 0 < by_mass.alpha < 1
    assert "attention mass" in by_mass.text
    store.set("limits.accuracy", 0.5)
    loose = store.r_max
    store.set("limits.accuracy", 0.9)
    tight = store.r_max
    assert "top-1" in tight.text
    assert tight.alpha <= loose.alpha
    store.set("point.alpha", tight.alpha)
    assert tight.alpha == 0 or store.prediction.top1_agreement.median >= 0.9 - 1e-9


def test_a_measurement_counts_at_exactly_its_point(attached):
    attached.add_measurement(run_of(OperatingPoint(alpha=0.5), decode_s=0.009))
    assert isinstance(attached.measured("decode_s"), Absent)
    attached.set("point.alpha", 0.5)
    assert attached.measured("decode_s") == Estimate(0.009, 0.009 / 1.05, 0.009 * 1.05, "measured")
    attached.set("point.kv", "int8")
    assert attached.measured("decode_s") == Absent("not measured yet")


def test_the_latest_measurement_counts_output_by_output(attached):
    point = attached.point
    attached.add_measurement(run_of(point, decode_s=0.012))
    attached.add_measurement(run_of(point, top1_agreement=0.97))
    attached.add_measurement(run_of(point, decode_s=0.011))
    assert attached.measured("decode_s").median == 0.011
    assert attached.measured("top1_agreement").median == 0.97
    assert "decode_s" in attached.measurement.body


def test_a_value_the_board_cannot_give_is_absent_with_its_reason(attached):
    attached.add_measurement(Measurement(attached.point, {"power_w": {"absent": "no power sensor"}}, "t", "m"))
    assert attached.measured("power_w") == Absent("no power sensor")


def test_dots_are_the_measurements_that_differ_in_the_axis_only(attached):
    for alpha, decode_s in ((0.0, 0.012), (0.5, 0.010), (0.5, 0.009), (0.9, 0.007)):
        attached.add_measurement(run_of(OperatingPoint(alpha=alpha), decode_s=decode_s))
    attached.add_measurement(run_of(OperatingPoint(alpha=0.3, kv="int8"), decode_s=0.008))
    attached.add_measurement(run_of(OperatingPoint(alpha=0.4), top1_agreement=0.9))
    dots = attached.dots("decode_s", "point.alpha")
    assert dots.x.tolist() == [0.0, 0.5, 0.5, 0.9]  # a repeat stands beside what it repeats
    assert dots.median.tolist() == [0.012, 0.010, 0.009, 0.007]
    assert (dots.q05 < dots.median).all()
    assert attached.dots("decode_s", "point.context").x.tolist() == [1024.0]


def test_the_unpruned_point_belongs_to_every_policy(attached):
    attached.add_measurement(run_of(OperatingPoint(alpha=0.0), decode_s=0.012))
    attached.add_measurement(run_of(OperatingPoint(alpha=0.9), decode_s=0.007))
    attached.set("point.policy", "key_norm")
    assert attached.measured("decode_s").median == 0.012
    assert attached.dots("decode_s", "point.alpha").x.tolist() == [0.0]  # 0.9 is another policy's
    attached.set("point.alpha", 0.5)
    assert attached.dots("decode_s", "point.alpha").x.tolist() == [0.0]


def test_dots_on_the_bandwidth_axis_lie_at_the_board_s_own(attached):
    attached.add_measurement(run_of(attached.point, decode_s=0.012))
    attached.set("point.bandwidth", 20e9)
    own = attached.catalogue.boards["this"].power_modes
    dots = attached.dots("decode_s", "point.bandwidth")
    assert dots.x.tolist() == [next(iter(own.values())).bandwidth_byte_s]
    assert isinstance(attached.measured("decode_s"), Absent)


def test_another_board_has_no_measurements_and_says_why(attached):
    attached.add_measurement(run_of(attached.point, decode_s=0.012))
    attached.set("point.board", "rk3588")
    name = attached.catalogue.boards["rk3588"].name
    assert attached.not_measurable == f"{name} is not attached: its numbers are predicted from its data sheet."
    assert attached.measured("decode_s") == Absent(attached.not_measurable)
    assert attached.dots("decode_s").x.size == 0
    assert attached.measurement is None


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("point.runtime", "llamacpp_cpu", "is not configured on this machine"),
        ("point.weights", "q4_k_m", "runs weights in"),
        ("point.kv", "q4_0", "runs kv in"),
        ("point.bandwidth", 1e12, "reads no more than its own memory bandwidth"),
        ("point.beta", 2.0, "instruction set"),
        ("point.model", "llama-3.2-1b", "not on this machine"),
    ],
)
def test_a_point_the_board_cannot_run_says_why(attached, path, value, words):
    assert attached.not_measurable == ""
    attached.set(path, value)
    assert words in attached.not_measurable


def test_without_a_link_nothing_is_measurable(store):
    assert store.not_measurable == "This board has not been measured yet."
    store.set_machine("m", [])
    store.set_link(state="lost", text="The agent ended.")
    assert store.not_measurable == "The agent ended."


def test_limits_are_set_one_by_one_or_whole(store, seen):
    store.set("limits.latency", 0.01)
    store.set("limits", Limits(0.02, None, 0.97))
    assert store.limits == Limits(0.02, None, 0.97)
    assert seen == ["limits.latency", "limits.latency", "limits.accuracy"]


def test_the_log_is_bounded(store):
    for i in range(1500):
        store.say("info", str(i))
    assert len(store.log) == 1000
    assert store.log[-1].text == "1499"


def test_a_curve_is_kept_while_its_own_slider_moves_and_forgotten_by_any_other(store):
    store.set("point.context", 512.0)
    _, first = store.curve(11)
    store.set("point.context", 4096.0)
    assert store.curve(11)[1] is first
    store.set("point.alpha", 0.5)
    _, other = store.curve(11, axis="point.context")
    assert other is not first
    assert other.decode_s.median[-1] < first.decode_s.median[-1]


def test_how_often_tokens_are_chosen_is_an_option_among_others(store):
    store.set("point.alpha", 0.5)
    store.set("point.reselect", 100)
    assert store.point.reselect_tokens == 100.0
    assert store.axis == "point.reselect"
    names = [name for _, name in store.axis_range("point.reselect").options]
    assert names[:2] == ["never", "every 16 tokens"]
    assert names[int(store.position("point.reselect"))] == "every 100 tokens"
    assert axes.canonical(replace(store.point, alpha=0.0), store.catalogue).reselect_tokens == 0.0


def test_a_new_board_takes_its_usual_runtime_with_weights_that_this_takes(store):
    store.set("point.board", "rk3588")
    assert (store.point.runtime, store.point.weights) == ("rkllm_npu", "w8a8")
    assert "rkllm" in store.log[-1].text
    store.set("point.board", "jetson_orin_nano_8gb_super")
    assert store.point.runtime == "llamacpp_gpu"
    store.set("point.runtime", "llamacpp_cpu")
    store.set("point.board", "raspberry_pi_5")
    assert store.point.runtime == "llamacpp_cpu"  # chosen, and it runs there
    store.set("point.board", "mlu370_x8")
    store.set("point.board", "this")
    assert store.point.runtime == "llamacpp_cpu"
