from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from core.load import load_catalogue
from core.scenario import predict
from core.sensitivity import elasticities, sobol, sobol_of
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint("jetson_agx_orin_64gb", "mlc_gpu", model="llama-3-8b", weights="q4f16", context_tokens=2048.0)


def test_elasticities_are_the_shares_of_the_time():
    slopes = elasticities(POINT, CATALOGUE)
    prediction = predict(POINT, CATALOGUE)
    total = sum(prediction.parts_s.values())
    read = prediction.parts_s["weights"] + prediction.parts_s["kv"] + prediction.parts_s["unpack"]
    assert slopes["bandwidth_byte_s"] == pytest.approx(-read / total, abs=1e-4)
    assert slopes["context_tokens"] == pytest.approx(prediction.parts_s["kv"] / total, abs=1e-4)
    assert slopes["beta"] == pytest.approx(-prediction.parts_s["unpack"] / total, abs=1e-4)


def test_what_pruning_keeps_costs_as_the_context_does():
    pruned = elasticities(OperatingPoint(alpha=0.5, context_tokens=4096.0), CATALOGUE)
    assert pruned["kept_frac"] == pytest.approx(pruned["context_tokens"], abs=1e-3)


def test_absent_output_has_no_elasticity():
    missing = elasticities(replace(POINT, board="apple_m1", runtime="llamacpp_gpu"), CATALOGUE, output="power_w")
    assert isinstance(missing, Absent)


def test_additive_function_has_the_golden_indices():
    """Trilemma models, M10: ln T additive in parameters of log-sd 0.237, 0.1 and 0.05."""
    distributions = {name: norm(0.0, sd) for name, sd in (("eta", 0.237), ("rho", 0.1), ("t_layer", 0.05))}
    found = sobol(lambda x: x.sum(axis=0), distributions, n=4096)
    assert found.names == ("eta", "rho", "t_layer")
    np.testing.assert_allclose(found.first_order, [0.81797, 0.14563, 0.03641], atol=0.01)
    np.testing.assert_allclose(found.total_order, found.first_order, atol=0.01)


def test_bandwidth_explains_more_than_context_on_a_short_one():
    ranges = {"bandwidth_byte_s": (100e9, 200e9), "context_tokens": (64.0, 512.0)}
    found = sobol_of(POINT, ranges, CATALOGUE, n=256)
    assert found.names == tuple(ranges)
    assert found.first_order[0] > 0.95
    assert isinstance(sobol_of(POINT, ranges, CATALOGUE, output="ttft_s", n=256).first_order, np.ndarray)
