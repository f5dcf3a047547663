import json
from dataclasses import replace

import numpy as np
import pytest

from core.physics import latency
from core.physics.latency import (
    REFERENCE_WIDTH,
    DecodeCosts,
    LatencyParameters,
    PrefillCosts,
    decode_parts,
    overlap,
    prefill_parts,
    width_cost,
)
from core.spec import PARAMETER_NAMES
from tests.places import GOLDEN

MODELS = json.loads((GOLDEN / "models.json").read_text())
QUANTITIES = json.loads((GOLDEN / "quantities.json").read_text())
N_WEIGHTS = 6979321856.0 + 525336576.0  # Llama-3-8B, body and head
KV_BYTE = 131072.0 * 2048
FLOP = 2 * N_WEIGHTS + 4 * 32 * 32 * 128 * 2048
BASE = DecodeCosts(
    weight_byte=N_WEIGHTS * 4.5 / 8,
    kv_byte=KV_BYTE,
    n_unpacked=N_WEIGHTS,
    flop=FLOP,
    n_layers=32,
    bandwidth_byte_s=102.4e9,
    compute_op_s=10e12,
)
PLAIN = LatencyParameters(eta=0.8, t_layer_s=50e-6)
FOUR = LatencyParameters(eta=0.84, kappa=2.4, rho=0.5, t_layer_s=136e-6)


def decode_ms(costs=BASE, parameters=PLAIN, **changes):
    return decode_parts(replace(costs, **changes), parameters).total * 1e3


def half_pruned():
    return {"kv_byte": KV_BYTE / 2, "flop": 2 * N_WEIGHTS + 2 * 32 * 32 * 128 * 2048}


def test_golden_decode_times():
    assert decode_ms() == pytest.approx(MODELS["M1.TPOT_ms(base)"], rel=1e-12)
    assert decode_ms(**half_pruned()) == pytest.approx(MODELS["M1.TPOT_ms(alpha=.5)"], rel=1e-12)
    assert decode_ms(kv_byte=KV_BYTE / 2) == pytest.approx(MODELS["M1.TPOT_ms(kv int8)"], rel=1e-12)
    assert decode_ms(bandwidth_byte_s=1e18) == pytest.approx(MODELS["M1.TPOT_ms(bw->1e18)"], rel=1e-12)
    assert decode_ms(bandwidth_byte_s=1e18, beta=2.0) == pytest.approx(MODELS["M1.TPOT_ms(bw->1e18,beta=2)"], rel=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bandwidth_byte_s": 0.0}, r"bandwidth_byte_s = 0 is outside \(0, inf\)"),
        ({"beta": np.array([1.0, -1.0])}, "beta = -1 is outside"),
        ({"kv_byte": -1.0}, "kv_byte = -1 is outside"),
        ({"flop": np.nan}, "flop = nan is outside"),
    ],
)
def test_costs_out_of_range_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        replace(BASE, **changed)
    of_prompt = {"flop", "bandwidth_byte_s", "beta"} & changed.keys()
    if of_prompt:
        with pytest.raises(ValueError, match=message):
            replace(PrefillCosts(1e12, 1e9, 32, 1e11, 1e12), **changed)


def test_a_memory_without_end_leaves_computing_and_constants():
    endless = decode_parts(replace(BASE, bandwidth_byte_s=np.inf), FOUR)
    assert (endless.weights, endless.kv, endless.unpack, endless.memory) == (0.0, 0.0, 0.0, 0.0)
    assert endless.total == FLOP / 10e12 + 32 * FOUR.t_layer_s
    both = decode_parts(replace(BASE, bandwidth_byte_s=np.inf, compute_op_s=np.inf), PLAIN)
    assert both.total == 32 * 50e-6


def test_golden_four_parameter_decode_times():
    one = replace(PLAIN, kappa=1.0, rho=0.0)  # reduces to bytes over bandwidth and layers
    golden = MODELS["M1.four_parameter_TPOT_ms(kappa=1,rho=0,eta=.8,tl=50us) = memory-bound base"]
    assert decode_ms(parameters=one) == pytest.approx(golden, rel=1e-12)
    assert decode_ms(parameters=one) == pytest.approx((BASE.weight_byte + KV_BYTE) / 81.92e6 + 1.6, rel=1e-12)
    assert decode_ms(parameters=FOUR) == pytest.approx(MODELS["M1.four_parameter_TPOT_ms(gpu prior means)"], rel=1e-12)
    pruned = decode_ms(parameters=FOUR, **half_pruned())
    assert pruned == pytest.approx(MODELS["M1.four_parameter_TPOT_ms(alpha=.5)"], rel=1e-12)


@pytest.mark.parametrize("kappa", [1.0, 2.0, 3.0])
def test_golden_share_of_the_cache(kappa):
    # Qwen2-1.5B, 4.5 bit, 2048 tokens: pruning 60 % of the tokens removes 60 % of f_kv, not of the time
    costs = DecodeCosts(868.339296e6, 28672.0 * 2048, 0.0, 0.0, 28, 51.2e9)
    parameters = LatencyParameters(eta=0.75, kappa=kappa)
    parts = decode_parts(costs, parameters)
    pruned = decode_parts(replace(costs, kv_byte=costs.kv_byte * 0.4), parameters)
    assert parts.kv / parts.total == pytest.approx(MODELS[f"M1.f_kv(Qwen2-1.5B 4.5b,n=2048,kappa={kappa})"], rel=1e-9)
    assert pruned.total / parts.total == pytest.approx(MODELS[f"M1.T(.6)/T(0)(kappa={kappa})"], rel=1e-9)


def test_golden_qwen_decode_time():
    costs = DecodeCosts(868.339296e6, 28672.0 * 2048 * np.array([1.0, 0.4]), 0.0, 0.0, 28, 51.2e9)
    golden = [QUANTITIES[f"A01.phy.qwen2_1.5b.TPOT_ms(51.2GB/s,eta.75,n=2048,a={a},t0=0)"] for a in ("0", "0.6")]
    np.testing.assert_allclose(decode_parts(costs, LatencyParameters(eta=0.75)).total * 1e3, golden, rtol=1e-12)


def test_slope_over_alpha_is_affine_while_memory_bound():
    alpha = np.linspace(0.0, 0.95, 7)
    times = decode_ms(kv_byte=KV_BYTE * (1 - alpha))
    np.testing.assert_allclose(np.diff(times) / np.diff(alpha), MODELS["M1.dT_dalpha_ms"], rtol=1e-9)


def test_overlap_kinds():
    assert overlap(3.0, 3.0, "smooth") == pytest.approx(3.0 * MODELS["M1.smoothmax_worst_ratio(p=8)"], rel=1e-12)
    assert overlap(3.0, 4.0) == 4.0
    assert overlap(3.0, 4.0, "sum") == 7.0
    assert overlap(0.0, 0.0, "smooth") == 0.0
    smooth = decode_parts(BASE, PLAIN, how="smooth").total
    assert smooth * 1e3 == pytest.approx(MODELS["M1.TPOT_ms(p=8 smooth)"], rel=1e-12)
    a, b = np.geomspace(1e-6, 1.0, 50), 1e-3
    assert np.all(overlap(a, b) <= overlap(a, b, "smooth") * (1 + 1e-15))
    assert np.all(overlap(a, b, "smooth") <= overlap(a, b, "sum"))
    with pytest.raises(ValueError, match="how = 'min'"):
        overlap(1.0, 1.0, "min")


def test_beta_speeds_up_computing_and_unpacking_but_not_memory():
    slow, fast = decode_parts(BASE, FOUR), decode_parts(replace(BASE, beta=2.0), FOUR)
    assert (fast.weights, fast.kv) == (slow.weights, slow.kv)
    assert fast.unpack == slow.unpack / 2
    assert fast.compute == slow.compute / 2


@pytest.mark.parametrize("field", ["bandwidth_byte_s", "beta"])
def test_more_of_a_rate_is_never_slower(field):
    for parameters in (PLAIN, FOUR):
        low = getattr(BASE, field)
        times = decode_ms(parameters=parameters, **{field: low * np.geomspace(0.01, 1e4, 60)})
        assert np.all(np.diff(times) <= 0)


def test_doubling_the_bandwidth_at_most_halves_the_time():
    bandwidth = np.geomspace(1e9, 1e13, 40)
    ratio = decode_ms(bandwidth_byte_s=bandwidth) / decode_ms(bandwidth_byte_s=2 * bandwidth)
    assert np.all((ratio >= 1.0) & (ratio <= 2.0))


def test_array_equals_scalars():
    bandwidth = np.array([20e9, 50e9, 1e15])
    together = decode_parts(replace(BASE, bandwidth_byte_s=bandwidth), FOUR).total
    alone = [decode_parts(replace(BASE, bandwidth_byte_s=b), FOUR).total for b in bandwidth]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("bandwidth", [102.4e9, 1e15])  # memory bound, compute bound
def test_decode_gradient_equals_differences(bandwidth):
    costs, parameters = (
        replace(BASE, bandwidth_byte_s=bandwidth),
        replace(FOUR, t_token_s=1e-3, eta_compute=0.5, t_layer_prefill_s=1e-4),
    )
    gradient = latency.decode_log_gradient(decode_parts(costs, parameters))
    for name in PARAMETER_NAMES:
        slope = gradient.get(name, 0.0)
        assert slope == pytest.approx(log_slope(decode_parts, costs, parameters, name), abs=1e-7)


@pytest.mark.parametrize("flop", [1e9, 1e13])  # bound by reading the weights once, by computing
def test_prefill_gradient_equals_differences(flop):
    costs = PrefillCosts(flop, 4.2e9, 32, 102.4e9, 10e12, beta=1.5, n_launched=64.0)
    parameters = LatencyParameters(0.8, 2.0, 0.5, 1e-4, 1e-3, 0.4, 3e-4)
    gradient = latency.prefill_log_gradient(prefill_parts(costs, parameters))
    for name in PARAMETER_NAMES:
        slope = gradient.get(name, 0.0)
        assert slope == pytest.approx(log_slope(prefill_parts, costs, parameters, name), abs=1e-7)


def log_slope(parts_of, costs, parameters, name, step=1e-5):
    at = getattr(parameters, name)
    up = parts_of(costs, replace(parameters, **{name: at * np.exp(step)})).total
    down = parts_of(costs, replace(parameters, **{name: at * np.exp(-step)})).total
    return (np.log(up) - np.log(down)) / (2 * step)


def test_prompts_are_bound_by_computing_above_the_golden_length():
    crossover = MODELS["M2.crossover_n(bw=81.92GB/s,10TOPS)"]
    body, head, weight = 6979321856.0, 525336576.0, N_WEIGHTS * 4.5 / 8
    for n, by_compute in ((np.floor(crossover), False), (np.ceil(crossover), True)):
        flop = 2 * body * n + 2 * head + 2 * 32 * 32 * 128 * n * (n + 1)
        parts = prefill_parts(PrefillCosts(flop, weight, 32, 81.92e9, 10e12), LatencyParameters(eta=1.0))
        assert (parts.compute > parts.weights) == by_compute


def test_narrow_models_reach_less_of_the_compute_rate():
    assert width_cost(REFERENCE_WIDTH, 600.0) == 1.0
    assert width_cost(np.array([64.0, 4096.0]), 0.0).tolist() == [1.0, 1.0]
    narrow, half = width_cost(300.0, 600.0), width_cost(600.0, 600.0)
    assert narrow / half == pytest.approx(1.5)  # a third of the rate of wide products, beside a half
    assert width_cost(1e12, 600.0) == pytest.approx(1.0 / (1.0 + 600.0 / REFERENCE_WIDTH))
    costs = PrefillCosts(1e12, 1e6, 0.0, 1e11, 1e12, width_cost=1.7)
    assert float(prefill_parts(costs, LatencyParameters(eta=1.0)).total) == pytest.approx(1.7)


def test_choosing_a_token_goes_with_the_vocabulary():
    costs = replace(BASE, n_vocabularies=np.array([0.0, 1.0, 5.0]))
    parts = decode_parts(costs, replace(FOUR, t_token_s=4e-4))
    np.testing.assert_allclose(parts.token, [0.0, 4e-4, 2e-3])
    np.testing.assert_allclose(np.diff(parts.total), [4e-4, 1.6e-3])
    prompt = PrefillCosts(1e12, 1e9, 32, 1e11, 1e12, n_vocabularies=3.0)
    first, none = (prefill_parts(prompt, LatencyParameters(eta=1.0, t_token_s=t)).total for t in (4e-4, 0.0))
    assert first - none == pytest.approx(1.2e-3)
