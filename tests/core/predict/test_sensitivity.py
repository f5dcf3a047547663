from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, uniform

from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.predict.sensitivity import elasticities, sobol, sobol_of
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(
    board="jetson_agx_orin_64gb", runtime="mlc_gpu", model="llama-3-8b", weights="q4f16", context_tokens=2048.0
)


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
    bare = replace(CATALOGUE.boards["apple_m1"], system_energy_j_byte=None)
    without = replace(CATALOGUE, boards={**CATALOGUE.boards, "apple_m1": bare})
    missing = elasticities(replace(POINT, board="apple_m1", runtime="llamacpp_gpu"), without, output="power_w")
    assert isinstance(missing, Absent)


def test_additive_function_has_the_golden_indices():
    """docs/physics.md, M10: ln T additive in parameters of log-sd 0.237, 0.1 and 0.05."""
    distributions = {name: norm(0.0, sd) for name, sd in (("eta", 0.237), ("rho", 0.1), ("t_layer", 0.05))}
    found = sobol(lambda x: x.sum(axis=0), distributions, n=4096)
    assert found.names == ("eta", "rho", "t_layer")
    np.testing.assert_allclose(found.first_order, [0.81797, 0.14563, 0.03641], atol=0.01)
    np.testing.assert_allclose(found.total_order, found.first_order, atol=0.01)


def test_ishigami_has_its_analytic_indices():
    """sin x1 + 7 sin^2 x2 + 0.1 x3^4 sin x1 on (-pi, pi): Ishigami and Homma, 1990."""
    a, b = 7.0, 0.1
    one, two = 0.5 * (1 + b * np.pi**4 / 5) ** 2, a**2 / 8
    both = 8 * b**2 * np.pi**8 / 225  # of x1 and x3 together
    ranges = {f"x{i}": uniform(-np.pi, 2 * np.pi) for i in (1, 2, 3)}
    found = sobol(lambda x: np.sin(x[0]) + a * np.sin(x[1]) ** 2 + b * x[2] ** 4 * np.sin(x[0]), ranges, n=8192)
    whole = one + two + both
    np.testing.assert_allclose(found.first_order, np.array([one, two, 0.0]) / whole, atol=0.01)
    np.testing.assert_allclose(found.total_order, np.array([one + both, two, both]) / whole, atol=0.01)


@pytest.mark.parametrize(
    "ends", [{"context_tokens": 1.0}, {"context_tokens": 8192.0}, {"beta": 1e3}, {"beta": 1e-3}, {"alpha": 0.0}]
)
def test_slopes_at_the_end_of_a_range_are_those_beside_it(ends):
    point = OperatingPoint(**{"context_tokens": 2048.0, "alpha": 0.3} | ends)
    (name, value), inside = next(iter(ends.items())), 1.0 + 5e-3
    nudged = replace(point, **{name: value / inside if value > 500 else value * inside + 5e-3 * (name == "alpha")})
    here, beside = elasticities(point, CATALOGUE), elasticities(nudged, CATALOGUE)
    for key, slope in here.items():
        assert slope == pytest.approx(beside[key], abs=5e-3)


def test_refusals():
    with pytest.raises(ValueError, match="output = 'top1_agreement' follows whole tokens"):
        elasticities(POINT, CATALOGUE, output="top1_agreement")
    for ranges, n, message in (
        ({"weights": (0.0, 1.0)}, 64, "range of 'weights': expected one of alpha, bandwidth_byte_s"),
        ({"alpha": (0.5, 0.1)}, 64, r"width of the range of alpha = -0\.4"),
        ({"alpha": (0.1, 0.5), "beta": (1.0, 2.0)}, 100, "n = 100 is no power of 2"),
        ({"alpha": (0.1, 0.5)}, 64, "ranges of 1 inputs, expected two or more"),
    ):
        with pytest.raises(ValueError, match=message):
            sobol_of(POINT, ranges, CATALOGUE, n=n)


def test_bandwidth_explains_more_than_context_on_a_short_one():
    ranges = {"bandwidth_byte_s": (100e9, 200e9), "context_tokens": (64.0, 512.0)}
    found = sobol_of(POINT, ranges, CATALOGUE, n=256)
    assert found.names == tuple(ranges)
    assert found.first_order[0] > 0.95
    assert isinstance(sobol_of(POINT, ranges, CATALOGUE, output="ttft_s", n=256).first_order, np.ndarray)


def test_errors_are_those_of_the_indices():
    """Of many seeds, nine in ten intervals hold the index of a long sequence."""
    distributions = {name: norm(0.0, sd) for name, sd in (("a", 0.9), ("b", 0.4), ("c", 0.2))}

    def function(x):
        return np.exp(x).prod(axis=0) + x[0] * x[1]

    exact = sobol(function, distributions, n=8192, seed=99)
    made = [sobol(function, distributions, n=128, seed=seed) for seed in range(40)]
    inside = [np.abs(one.total_order - exact.total_order) <= one.total_error + exact.total_error for one in made]
    assert 0.8 <= np.mean(inside) <= 0.98
    assert made[0].n_evaluations == 8 * 128 * 5
    assert np.mean([one.total_error for one in made], axis=0)[0] > 2.0 * exact.total_error[0]


def test_what_does_not_vary_has_no_indices():
    point = OperatingPoint(board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8")
    found = sobol_of(point, {"beta": (0.5, 2.0), "reselect_tokens": (1.0, 100.0)}, CATALOGUE)
    assert found == Absent("decode_s does not vary over these ranges")
