from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.predict.parameters import (
    DECODE_FACTOR,
    ROW,
    ROWS,
    Physical,
    data_sheet_shift,
    extended,
    loadings,
    physical_parameters,
    plain,
    prefill_op_s,
    prior,
    quadratic,
    ratio_names,
)
from core.spec import PARAMETER_NAMES, OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(weights="int8", kv="bf16")
RESOLVED = CATALOGUE.resolve(POINT)
THOR = OperatingPoint(board="jetson_agx_thor", runtime="tensorrt_gpu")


def test_prior_is_the_runtime_s_and_knows_how_sure_the_bandwidth_is():
    known = prior(RESOLVED)
    runtime = CATALOGUE.runtimes["builtin"]
    assert np.exp(known.log_mean[known.names.index("kappa")]) == pytest.approx(runtime.priors["kappa"].median)
    eta = known.names.index("eta")
    guessed = CATALOGUE.boards["this"].bandwidth_log_sd
    assert np.sqrt(known.log_cov[eta, eta]) == pytest.approx(np.hypot(runtime.priors["eta"].log_sd, guessed))
    assert known.bandwidth_byte_s == CATALOGUE.boards["this"].power_modes["default"].bandwidth_byte_s


def test_ratios_are_added_once_and_independent():
    known = extended(prior(RESOLVED), ratio_names(RESOLVED))
    assert extended(known, ratio_names(RESOLVED)) is known
    i = known.names.index("eta.int8")
    assert known.log_mean[i] == 0.0
    assert np.count_nonzero(known.log_cov[i]) == 1
    assert np.sqrt(known.log_cov[i, i]) == pytest.approx(CATALOGUE.runtimes["builtin"].format_log_sd)


def test_format_of_the_weights_cancels_in_the_cost_of_the_cache():
    names = ("eta", "eta.int8", "kappa", "kappa.bf16")
    rows = dict(zip(ROWS, loadings(names, POINT, RESOLVED), strict=True))
    np.testing.assert_array_equal(rows["eta"], [1, 1, 0, 0])
    np.testing.assert_array_equal(rows["kappa"] - rows["eta"], [-1, 0, 1, 1])  # ln(kappa / eta)


def test_prompts_of_mixtures_of_experts_share_a_factor():
    at = OperatingPoint(board="dgx_spark", runtime="llamacpp_gpu", weights="q4_k_m", kv="fp16")
    factors = {model: ratio_names(CATALOGUE.resolve(replace(at, model=model))) for model in
               ("qwen3-30b-a3b", "gpt-oss-20b", "llama-3.1-8b", "qwen2.5-1.5b")}  # fmt: skip
    assert ["sparse_prompt" in of for of in factors.values()] == [True, True, False, False]
    sparse = replace(at, model="gpt-oss-20b")
    rows = loadings(("eta", "sparse_prompt", "prompt.gpt-oss-20b"), sparse, CATALOGUE.resolve(sparse))
    np.testing.assert_array_equal(rows[-1], [0, 1, 1])  # the factor on the time to first token
    assert not rows[:-1, 1].any()


def test_physical_parameters_are_products():
    known = extended(prior(RESOLVED), ratio_names(RESOLVED))
    eta = Physical("eta.int8", ("eta", "eta.int8"), "", "", "byte/s", of_bandwidth=True)
    assert eta.median(known) == pytest.approx(
        CATALOGUE.runtimes["builtin"].priors["eta"].median * known.bandwidth_byte_s
    )
    parts = [np.sqrt(known.log_cov[i, i]) for i in map(known.names.index, eta.names)]
    assert eta.log_sd(known) == pytest.approx(np.hypot(*parts))


def test_models_are_named_where_there_are_two():
    keys = {p.key for p in physical_parameters([POINT], with_ttft=False)}
    assert not any(key.startswith("model.") for key in keys)
    other = OperatingPoint(model="llama-3-8b")
    both = {p.key for p in physical_parameters([POINT, other], with_ttft=True)}
    assert {"model.llama-3-8b", "model.smollm2-135m", "eta_compute.int4"} <= both


def test_quadratic_form():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    cov, gradient = root @ root.T, rng.normal(size=(3, 5))
    np.testing.assert_allclose(
        quadratic(dict(enumerate(gradient)), cov), np.einsum("in,ij,jn->n", gradient, cov, gradient)
    )
    assert isinstance(plain(quadratic({0: 1.0, 1: 2.0, 2: 0.0}, cov)), float)
    gradient[1:] = [[0.0], [2.0]]  # numbers, as slopes that do not vary are given
    np.testing.assert_allclose(
        quadratic({0: gradient[0], 2: 2.0}, cov), np.einsum("in,ij,jn->n", gradient, cov, gradient)
    )


def test_models_of_similar_size_share_what_the_equations_miss():
    runtime = replace(CATALOGUE.runtimes["rkllm_npu"], size_log_sd=0.1)
    settings = [
        replace(CATALOGUE.resolve(OperatingPoint(model=m)), runtime=runtime)
        for m in ("qwen2.5-1.5b", "tinyllama-1.1b", "llama-3-70b")
    ]
    known = extended(prior(settings[0]), ratio_names(settings[0]))
    names = [i for i, name in enumerate(known.names) if name.startswith("size.")]
    cov = known.log_cov[np.ix_(names, names)]
    weights = [loadings(known.names, OperatingPoint(model=s.model.key), s)[ROW[DECODE_FACTOR], names] for s in settings]
    shared = np.array([[one @ cov @ other for other in weights] for one in weights])
    np.testing.assert_allclose(np.diag(shared), 0.01, rtol=0.05)
    assert shared[0, 1] > 0.8 * 0.01
    assert shared[0, 2] < 0.05 * 0.01
    plain_names = prior(RESOLVED).names
    assert not any(name.startswith("size.") for name in plain_names)


def test_data_sheet_moves_unpacking_by_the_balance_of_bandwidth_and_vector_rate():
    at = CATALOGUE.resolve(OperatingPoint(board="jetson_agx_orin_64gb", runtime="llamacpp_gpu", weights="q4_k_m"))
    fast = replace(at, mode=replace(at.mode, vector_op_s=4.0 * at.mode.vector_op_s))
    assert data_sheet_shift(fast)["rho"] - data_sheet_shift(at)["rho"] == pytest.approx(-np.log(4.0))
    wide = replace(at, mode=replace(at.mode, bandwidth_byte_s=2.0 * at.mode.bandwidth_byte_s))
    assert data_sheet_shift(wide)["rho"] - data_sheet_shift(at)["rho"] == pytest.approx(np.log(2.0))
    i = PARAMETER_NAMES.index("rho")
    seconds = [np.exp(prior(s).log_mean[i]) / s.mode.bandwidth_byte_s for s in (at, wide)]
    assert seconds[1] == pytest.approx(seconds[0])  # unpacking does not wait for the memory


def test_lanes_that_take_integers_beside_floats_unpack_faster():
    at = CATALOGUE.resolve(OperatingPoint(board="apple_m4_max", runtime="llamacpp_gpu", weights="q4_k_m"))
    assert at.board.integer_speedup == 2.0
    plain = replace(at, board=replace(at.board, integer_speedup=1.0))
    change = {name: data_sheet_shift(at)[name] - shift for name, shift in data_sheet_shift(plain).items()}
    assert change == pytest.approx({"rho": -np.log(2.0), "eta_compute": 0.0})
    cores = CATALOGUE.resolve(OperatingPoint(board="apple_m4_max", runtime="llamacpp_cpu", weights="q4_k_m"))
    plain = replace(cores, board=replace(cores.board, integer_speedup=1.0))
    assert data_sheet_shift(cores) == data_sheet_shift(plain)  # not the cores of its CPU


def test_prompts_in_small_floats_are_faster_where_units_multiply_those():
    at = CATALOGUE.resolve(replace(THOR, weights="nvfp4"))
    assert prefill_op_s(at) == pytest.approx(258e12 * 4.0**0.75)
    fp8 = CATALOGUE.resolve(replace(THOR, weights="fp8"))
    assert prefill_op_s(fp8) == pytest.approx(258e12 * 2.0**0.75)
    awq = CATALOGUE.resolve(replace(THOR, weights="w4a16_g128"))
    orin = CATALOGUE.resolve(replace(THOR, board="jetson_agx_orin_64gb", weights="nvfp4"))
    assert [prefill_op_s(one) for one in (awq, orin)] == [one.mode.compute_op_s for one in (awq, orin)]


def test_matrix_units_reach_a_smaller_share_than_vector_lanes():
    orin, apple, npu = (
        CATALOGUE.resolve(OperatingPoint(board=board, runtime=runtime, weights="q4_k_m"))
        for board, runtime in (
            ("jetson_agx_orin_64gb", "llamacpp_gpu"),
            ("apple_m2_max", "llamacpp_gpu"),
            ("rk3588", "rkllm_npu"),
        )
    )
    assert data_sheet_shift(orin)["eta_compute"] == pytest.approx(0.0, abs=0.01)
    assert data_sheet_shift(apple)["eta_compute"] == pytest.approx(0.25 * np.log(8.0))
    assert data_sheet_shift(replace(orin, mode=replace(orin.mode, vector_op_s=None))) == {}
    assert data_sheet_shift(npu) == {}
