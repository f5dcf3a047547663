from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics.traffic import weight_byte
from core.predict import scenario
from core.predict.parameters import extended, prior
from core.predict.scenario import IDLE_FRAC, initial_posterior, predict
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Prior, Provenance
from core.spec.interval_scale import IntervalScale

CATALOGUE = load_catalogue()
OUTPUTS = ("decode_s", "ttft_s", "power_w", "energy_j_per_token", "perplexity_ratio", "top1_agreement", "memory_byte")
LLAMA = OperatingPoint(
    board="jetson_agx_orin_64gb", runtime="llamacpp_gpu", model="llama-3-8b", weights="q4_k_m", kv="fp16",
    context_tokens=2048.0,
)  # fmt: skip
HERE = OperatingPoint(weights="int8", context_tokens=2048.0)


def medians(point, name="decode_s"):
    return np.asarray(getattr(predict(point, CATALOGUE), name).median)


@pytest.mark.parametrize("point", [LLAMA, HERE])
@pytest.mark.parametrize("name", OUTPUTS)
def test_array_equals_scalars(point, name):
    fields = {
        "alpha": np.array([0.0, 0.3, 0.9]),
        "context_tokens": np.array([16.0, 512.0, 8192.0]),
        "beta": np.array([0.5, 1.0, 3.0]),
        "bandwidth_byte_s": np.array([5e9, 50e9, 100e9]),
    }
    together = getattr(predict(replace(point, **fields), CATALOGUE), name)
    for i in range(3):
        alone = getattr(predict(replace(point, **{k: v[i] for k, v in fields.items()}), CATALOGUE), name)
        assert isinstance(alone.median, float)
        for quantile in ("median", "q05", "q95"):
            assert np.broadcast_to(getattr(together, quantile), 3)[i] == pytest.approx(
                getattr(alone, quantile), rel=1e-12
            )


def test_chunks_equal_one_pass(monkeypatch):
    point = replace(HERE, alpha=np.linspace(0, 0.9, 7)[:, None], context_tokens=np.array([64.0, 1024.0, 4096.0]))
    whole = predict(point, CATALOGUE)
    monkeypatch.setattr(scenario, "CHUNK", 4)
    chunked = predict(point, CATALOGUE)
    for name in ("decode_s", "ttft_s", "power_w", "top1_agreement"):
        for quantile in ("median", "q05", "q95"):
            expected = np.broadcast_to(getattr(getattr(whole, name), quantile), (7, 3))
            np.testing.assert_array_equal(getattr(getattr(chunked, name), quantile), expected)
    assert chunked.parts_s.keys() == whole.parts_s.keys()
    np.testing.assert_array_equal(chunked.parts_s["kv"], whole.parts_s["kv"])
    np.testing.assert_array_equal(chunked.binding, whole.binding)


@pytest.mark.parametrize("weights", ["int3", "int2"])
def test_a_format_without_a_kernel_has_accuracy_and_size_and_no_speed(weights):
    found = predict(replace(HERE, weights=weights, alpha=np.array([0.0, 0.5])), CATALOGUE)
    for name in ("decode_s", "ttft_s", "power_w", "energy_j_per_token"):
        assert weights in getattr(found, name).reason
        assert "accuracy only" in getattr(found, name).reason
    assert found.parts_s == {}
    assert found.binding == ""
    int4 = predict(replace(HERE, weights="int4", alpha=np.array([0.0, 0.5])), CATALOGUE)
    assert np.all(found.memory_byte.median < int4.memory_byte.median)
    assert np.all(found.perplexity_ratio.median > int4.perplexity_ratio.median)


@pytest.mark.parametrize("point", [LLAMA, HERE])
def test_intervals_contain_the_median(point):
    prediction = predict(replace(point, alpha=np.linspace(0, 0.95, 20)), CATALOGUE)
    for name in OUTPUTS:
        output = getattr(prediction, name)
        assert np.all(np.asarray(output.q05) <= output.median)
        assert np.all(np.asarray(output.median) <= output.q95)


@pytest.mark.parametrize("point", [LLAMA, HERE])
def test_parts_add_up_to_the_decode_time(point):
    for bandwidth in (20e9, 1e15):  # memory bound, compute bound
        at = replace(point, bandwidth_byte_s=bandwidth)
        prediction = predict(at, CATALOGUE)
        assert sum(prediction.parts_s.values()) == pytest.approx(prediction.decode_s.median, rel=1e-12)
        assert (prediction.binding == "memory") == (prediction.parts_s["compute"] == 0.0)


def test_times_fall_with_bandwidth_alpha_and_beta():
    for field, values in (
        ("bandwidth_byte_s", np.geomspace(1e9, 1e13, 30)),
        ("alpha", np.linspace(0, 0.99, 30)),
        ("beta", np.geomspace(0.1, 10, 30)),
    ):
        for point in (LLAMA, HERE):
            assert np.all(np.diff(medians(replace(point, **{field: values}))) <= 0)
    assert np.all(np.diff(medians(replace(HERE, context_tokens=np.arange(1.0, 4096.0, 100)))) > 0)
    assert np.all(np.diff(medians(replace(HERE, context_tokens=np.arange(1.0, 4096.0, 100)), "ttft_s")) > 0)


def test_pruning_everything_leaves_the_weights():
    almost = predict(replace(LLAMA, alpha=0.999), CATALOGUE)
    assert almost.parts_s["weights"] == predict(LLAMA, CATALOGUE).parts_s["weights"] > 0
    assert almost.decode_s.median > almost.parts_s["weights"]


def test_layouts_decide_what_pruning_saves():
    pruned = {
        layout: predict(replace(LLAMA, alpha=0.6, layout=layout), CATALOGUE).parts_s["kv"]
        for layout in ("compacted", "paged", "masked")
    }
    full = predict(LLAMA, CATALOGUE).parts_s["kv"]
    assert pruned["compacted"] == pytest.approx(0.4 * full)
    assert pruned["paged"] == pytest.approx((1 - 0.6**16) * full)
    assert pruned["masked"] == full
    contiguous = replace(LLAMA, alpha=0.6, layout="paged", policy="sinks_recent")
    assert predict(contiguous, CATALOGUE).parts_s["kv"] == pytest.approx(0.4 * full)


def test_cost_of_the_cache_does_not_depend_on_the_weight_format():
    kv = {predict(replace(HERE, weights=w), CATALOGUE).parts_s["kv"] for w in ("fp32", "bf16", "int8", "int4")}
    assert max(kv) == pytest.approx(min(kv), rel=1e-12)


def test_energy_is_power_times_time():
    prediction = predict(replace(LLAMA, alpha=np.linspace(0, 0.9, 5)), CATALOGUE)
    np.testing.assert_allclose(
        prediction.power_w.median * prediction.decode_s.median, prediction.energy_j_per_token.median, rtol=1e-12
    )


def test_power_does_not_fall_below_the_idle_board_however_slow_its_memory():
    pi = OperatingPoint(board="raspberry_pi_5", runtime="llamacpp_cpu", weights="q4_0", kv="fp16")
    idle_w = CATALOGUE.boards["raspberry_pi_5"].idle_power_w
    bandwidth = np.geomspace(1e7, 100e9, 60)
    power = np.asarray(predict(replace(pi, bandwidth_byte_s=bandwidth), CATALOGUE).power_w.median)
    assert np.all(power >= idle_w * (1 - 1e-12))
    known = initial_posterior(CATALOGUE.resolve(pi), CATALOGUE)
    static_w = float(np.exp(known.log_mean[known.names.index("static_power_w")]))
    assert power[0] == pytest.approx(static_w, rel=0.02)  # of cores that wait, which is more than that of an idle board
    assert static_w > idle_w
    assert np.all(np.diff(power) > 0)
    here, own = predict(pi, CATALOGUE), CATALOGUE.resolve(pi).mode.bandwidth_byte_s
    assert float(predict(replace(pi, beta=1.0, bandwidth_byte_s=own), CATALOGUE).power_w.median) == pytest.approx(
        float(here.power_w.median), rel=1e-9
    )


def test_an_idle_power_that_is_only_a_prior_widens_the_interval_away_from_the_own_pace():
    own = CATALOGUE.resolve(OperatingPoint()).mode.bandwidth_byte_s
    said = predict(OperatingPoint(bandwidth_byte_s=np.array([own / 20, own])), CATALOGUE)
    width = np.log(np.asarray(said.energy_j_per_token.q95) / said.energy_j_per_token.q05)
    assert width[0] > width[1]
    assert float(said.power_w.median[0]) > IDLE_FRAC * float(said.power_w.median[1])


def test_idle_power_measured_beside_the_energy_is_the_floor():
    base = initial_posterior(CATALOGUE.resolve(OperatingPoint()), CATALOGUE)
    calibrated = replace(
        extended(base, {"energy_j_byte": 0.01}), n_energy=3, power_covers="the package", idle_power_w=1.5
    )
    mean = calibrated.log_mean.copy()
    mean[calibrated.names.index("energy_j_byte")] = np.log(300e-12)
    slow = predict(OperatingPoint(bandwidth_byte_s=1e6), CATALOGUE, replace(calibrated, log_mean=mean))
    assert float(slow.power_w.median) == pytest.approx(1.5, rel=0.01)


def test_what_no_source_states_is_absent_with_the_reason():
    board = CATALOGUE.boards["rk3588"]
    bare = replace(board, system_energy_j_byte=None, power_modes={"x": replace(
        next(iter(board.power_modes.values())), key="x", compute_op_s=None
    )})  # fmt: skip
    catalogue = replace(CATALOGUE, boards={"rk3588": bare})
    prediction = predict(replace(LLAMA, board="rk3588"), catalogue)
    assert isinstance(prediction.decode_s, Estimate)
    for name in ("ttft_s", "power_w", "energy_j_per_token"):
        output = getattr(prediction, name)
        assert isinstance(output, Absent)
        assert board.name in output.reason


def test_accuracy_is_relative_to_the_file_and_falls_with_pruning():
    exact = predict(replace(HERE, model="smollm2-135m", weights="int4", kv="bf16"), CATALOGUE)
    assert exact.perplexity_ratio.median == pytest.approx(1.0, abs=0.01)
    alpha = np.linspace(0, 0.95, 12)
    pruned = predict(replace(HERE, alpha=alpha), CATALOGUE)
    assert np.all(np.diff(pruned.perplexity_ratio.median) >= 0)
    assert np.all(np.diff(pruned.top1_agreement.median) <= 0)
    assert np.all(pruned.top1_agreement.q05 >= 0)
    assert np.all(pruned.perplexity_ratio.q05 >= 1)


def delta_oracle(point, n=200_000):
    """The 5 % and 95 % quantiles by sampling the prior, to check the delta method where it should be exact enough."""
    at = CATALOGUE.resolve(point)
    runtime, mode = at.runtime, at.mode
    rng = np.random.default_rng(1)

    def draw(p: Prior, extra=0.0):
        return p.median * np.exp(rng.normal(0, np.hypot(p.log_sd, extra), n))

    eta0 = draw(runtime.priors["eta"], at.board.bandwidth_log_sd)
    ratio = np.exp(rng.normal(0, runtime.format_log_sd, n))
    kappa = draw(runtime.priors["kappa"]) * np.exp(rng.normal(0, 0.30, n))
    moved = 8 * weight_byte(at.model, at.weights)
    cache = 2 * at.model.n_layers * at.model.n_kv_heads * at.model.head_dim * at.kv.bits_per_value
    rho = draw(runtime.priors["rho"]) * at.weights.needs_unpacking
    time_s = (moved / ratio + kappa * cache * point.context_tokens) / (8 * eta0 * mode.bandwidth_byte_s)
    time_s += rho * 0.5 * (at.model.body_params + at.model.head_params) / mode.bandwidth_byte_s
    time_s += at.model.n_layers * draw(runtime.priors["t_layer_s"]) + draw(runtime.priors["t_token_s"])
    beyond = np.sqrt(runtime.model_log_sd**2 + runtime.size_log_sd**2 + runtime.repeat_log_sd**2)
    time_s *= np.exp(rng.normal(0, beyond, n))
    return np.quantile(time_s, [0.05, 0.95])


def test_interval_agrees_with_sampling():
    output = predict(LLAMA, replace(CATALOGUE, board_posteriors={}, held_out=None)).decode_s
    low, high = delta_oracle(LLAMA)
    assert output.q95 / output.q05 == pytest.approx(high / low, rel=0.12)
    assert output.q05 == pytest.approx(low, rel=0.12)


def test_posterior_of_another_board_is_left_aside():
    calibrated = replace(prior(CATALOGUE.resolve(HERE)), n_decode=3, n_ttft=3)
    assert predict(HERE, CATALOGUE, calibrated).decode_s.provenance is Provenance.CALIBRATED
    elsewhere = predict(LLAMA, CATALOGUE, calibrated)
    assert elsewhere.decode_s.provenance is Provenance.PREDICTED
    assert elsewhere == predict(LLAMA, CATALOGUE)


def test_without_measurements_the_prior_is_the_posterior():
    assert predict(HERE, CATALOGUE, prior(CATALOGUE.resolve(HERE))) == predict(HERE, CATALOGUE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 1.0}, r"alpha = 1 is outside \[0, 1\)"),
        ({"alpha": -0.1}, r"alpha = -0.1 is outside \[0, 1\)"),
        ({"alpha": np.nan}, "alpha = nan is outside"),
        ({"context_tokens": 0.0}, r"context_tokens = 0 is outside \[1, 8192\]"),
        ({"context_tokens": 9000.0}, r"context_tokens = 9000 is outside \[1, 8192\]"),
        ({"beta": 0.0}, "beta = 0 is outside"),
        ({"bandwidth_byte_s": -1.0}, "bandwidth_byte_s = -1 is outside"),
        (
            {"board": "raspbery_pi"},
            "board 'raspbery_pi' is unknown; expected one of .* raspberry_pi_.*see trilemma boards",
        ),
        ({"model": "smollm2"}, "model 'smollm2' is unknown; expected one of .*smollm2-135m.*see trilemma models"),
        ({"power_mode": "ludicrous"}, "power mode of this 'ludicrous' is unknown"),
        ({"policy": "coin_toss", "alpha": 0.5}, "policy = 'coin_toss'"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        predict(replace(HERE, **change), CATALOGUE)


def test_what_does_not_fit_is_said():
    big = replace(LLAMA, model="llama-3-70b", weights="fp16")
    assert any("does not fit in the memory" in text for text in predict(big, CATALOGUE).outside)
    on_any = replace(big, board="raspberry_pi_5", runtime="llamacpp_cpu", weights="q4_k_m")
    (said,) = predict(on_any, CATALOGUE).outside
    assert said.endswith(
        "Raspberry Pi 5, not even of its largest version: it takes 2.66 times as much as can be had "
        "(firmware and system keep 2 % and 0.5 GB, a prior)"
    )
    many = replace(on_any, alpha=np.linspace(-0.5, 0.5, 3 * scenario.CHUNK).clip(0.0))
    assert predict(many, CATALOGUE).outside[0] == said.partition(":")[0]
    assert sum("memory" in text for text in predict(many, CATALOGUE).outside) == 1  # however many points there are
    fast = replace(LLAMA, bandwidth_byte_s=1e15)
    assert any("bandwidth" in text for text in predict(fast, CATALOGUE).outside)
    assert predict(LLAMA, CATALOGUE).outside == ()
    pruned = replace(LLAMA, alpha=0.5)
    assert any("cannot prune the KV cache" in text for text in predict(pruned, CATALOGUE).outside)
    assert predict(LLAMA, CATALOGUE).outside == ()


def test_every_board_and_model_can_be_predicted():
    assert isinstance(CATALOGUE, Catalogue)
    for board in CATALOGUE.boards.values():
        for mode in board.power_modes:
            prediction = predict(replace(LLAMA, board=board.key, power_mode=mode), CATALOGUE)
            assert 0 < prediction.decode_s.q05 < prediction.decode_s.q95 < 100
    for model in CATALOGUE.models:
        prediction = predict(replace(LLAMA, model=model), CATALOGUE)
        assert 0 < prediction.decode_s.median < 60


def test_a_guard_widens_intervals_and_moves_no_median():
    known = prior(CATALOGUE.resolve(HERE))
    wide = replace(known, interval_scale=IntervalScale(decode=1.0, ttft=1.0, decode_other=2.0, ttft_other=3.0))
    plain, scaled = predict(HERE, CATALOGUE, known), predict(HERE, CATALOGUE, wide)
    for name, times in (("decode_s", 2.0), ("ttft_s", 3.0)):
        before, after = getattr(plain, name), getattr(scaled, name)
        assert after.median == before.median
        assert np.log(after.q95 / after.q05) == pytest.approx(times * np.log(before.q95 / before.q05))
    seen = extended(wide, {f"model.{HERE.model}": 0.1})
    assert predict(HERE, CATALOGUE, seen).decode_s.q95 < scaled.decode_s.q95  # of a model that was measured


# --- choosing tokens anew ---------------------------------------------------------------------------------------------

PRUNED = replace(HERE, alpha=0.6)


def test_choosing_anew_costs_one_choice_over_its_tokens():
    once, often, seldom = (predict(replace(PRUNED, reselect_tokens=m), CATALOGUE) for m in (0.0, 32.0, 128.0))
    added = [float(p.decode_s.median - once.decode_s.median) for p in (often, seldom)]
    assert added[0] == pytest.approx(4 * added[1], rel=1e-9)
    assert added[1] == pytest.approx(seldom.parts_s["reselection"], rel=1e-9)
    assert once.parts_s["reselection"] == 0.0
    assert 0.25e-3 < added[1] < 4e-3  # 30 to 130 ms a choice where it was timed
    assert sum(seldom.parts_s.values()) == pytest.approx(seldom.decode_s.median)


def test_scores_kept_from_insertion_and_pages_in_place_are_cheaper_to_choose_by():
    def choice(**changes):
        return predict(replace(PRUNED, reselect_tokens=64.0, **changes), CATALOGUE).parts_s["reselection"]

    assert choice(policy="key_norm") < 0.5 * choice(policy="attention_mass")
    assert choice(policy="key_norm", layout="paged") < 0.6 * choice(policy="key_norm")
    assert choice(alpha=0.9) < choice(alpha=0.3)
    assert choice(context_tokens=4096.0) > 1.5 * choice()


def test_the_interval_contains_what_is_not_known_of_choosing():
    found = predict(replace(PRUNED, reselect_tokens=1.0), CATALOGUE)
    share = found.parts_s["reselection"] / found.decode_s.median
    assert share > 0.5
    assert np.log(found.decode_s.q95 / found.decode_s.median) > 1.64 * 0.4 * share


def test_nothing_is_chosen_without_pruning_and_where_a_runtime_cannot():
    assert predict(replace(HERE, reselect_tokens=1.0), CATALOGUE).parts_s["reselection"] == 0.0
    assert predict(replace(LLAMA, alpha=0.5, reselect_tokens=1.0), CATALOGUE).parts_s["reselection"] == 0.0
    with pytest.raises(ValueError, match="reselect_tokens"):
        predict(replace(PRUNED, reselect_tokens=-1.0), CATALOGUE)


def test_intervals_of_choosing_are_an_array_like_any_other_number():
    every = np.array([0.0, 16.0, 64.0])
    together = medians(replace(PRUNED, reselect_tokens=every))
    assert together == pytest.approx([float(medians(replace(PRUNED, reselect_tokens=m))) for m in every])
