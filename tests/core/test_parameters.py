from dataclasses import replace

import numpy as np
import pytest

from core.load import load_catalogue
from core.parameters import Physical, extended, loadings, physical_parameters, plain, prior, quadratic, ratio_names
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(weights="int8", kv="bf16")
SETTING = CATALOGUE.setting(POINT)


def test_prior_is_the_runtime_s_and_knows_how_sure_the_bandwidth_is():
    known = prior(SETTING)
    runtime = CATALOGUE.runtimes["builtin"]
    assert np.exp(known.log_mean[known.names.index("kappa")]) == pytest.approx(runtime.kappa.median)
    eta = known.names.index("eta")
    guessed = CATALOGUE.boards["this"].bandwidth_log_sd
    assert np.sqrt(known.log_cov[eta, eta]) == pytest.approx(np.hypot(runtime.eta.log_sd, guessed))
    assert known.bandwidth_byte_s == CATALOGUE.boards["this"].power_modes["default"].bandwidth_byte_s


def test_ratios_are_added_once_and_independent():
    known = extended(prior(SETTING), ratio_names(SETTING))
    assert extended(known, ratio_names(SETTING)) is known
    i = known.names.index("eta.int8")
    assert known.log_mean[i] == 0.0
    assert np.count_nonzero(known.log_cov[i]) == 1
    assert np.sqrt(known.log_cov[i, i]) == pytest.approx(CATALOGUE.runtimes["builtin"].format_log_sd)


def test_format_of_the_weights_cancels_in_the_cost_of_the_cache():
    names = ("eta", "eta.int8", "kappa", "kappa.bf16")
    rows = loadings(names, POINT, SETTING)
    np.testing.assert_array_equal(rows[0], [1, 1, 0, 0])
    np.testing.assert_array_equal(rows[1] - rows[0], [-1, 0, 1, 1])  # ln(kappa / eta)


def test_physical_parameters_are_products():
    known = extended(prior(SETTING), ratio_names(SETTING))
    eta = Physical("eta.int8", ("eta", "eta.int8"), "", "byte/s", of_bandwidth=True)
    assert eta.median(known) == pytest.approx(CATALOGUE.runtimes["builtin"].eta.median * known.bandwidth_byte_s)
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
    np.testing.assert_allclose(quadratic(tuple(gradient), cov), np.einsum("in,ij,jn->n", gradient, cov, gradient))
    assert isinstance(plain(quadratic((1.0, 2.0, 0.0), cov)), float)


def test_models_of_similar_size_share_what_the_equations_miss():
    runtime = replace(CATALOGUE.runtimes["rkllm_npu"], size_log_sd=0.1)
    settings = [
        replace(CATALOGUE.setting(OperatingPoint(model=m)), runtime=runtime)
        for m in ("qwen2.5-1.5b", "tinyllama-1.1b", "llama-3-70b")
    ]
    known = extended(prior(settings[0]), ratio_names(settings[0]))
    names = [i for i, name in enumerate(known.names) if name.startswith("size.")]
    cov = known.log_cov[np.ix_(names, names)]
    weights = [loadings(known.names, OperatingPoint(model=s.model.key), s)[-2, names] for s in settings]
    shared = np.array([[one @ cov @ other for other in weights] for one in weights])
    np.testing.assert_allclose(np.diag(shared), 0.01, rtol=0.05)
    assert shared[0, 1] > 0.8 * 0.01
    assert shared[0, 2] < 0.05 * 0.01
    plain_names = prior(SETTING).names
    assert not any(name.startswith("size.") for name in plain_names)
