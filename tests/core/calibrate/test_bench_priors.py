from dataclasses import replace

import pytest

from core.calibrate.bench_priors import ATTENTION, LINEAR, shares, with_bench_priors
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import Catalogue, OperatingPoint

ROWS = [
    {"name": "linear int8", "dtype": "int8", "shape": [4096, 4096], "read_share": 0.9},
    {"name": "linear int8", "dtype": "int8", "shape": [4096, 4096], "read_share": 0.6},  # a slower variant
    {"name": "linear int8", "dtype": "int8", "shape": [960, 576], "read_share": 0.7},
    {"name": "linear fp32", "dtype": "fp32", "shape": [4096, 4096], "read_share": 0.8},
    {"name": "linear fp32", "dtype": "fp32", "shape": [4096, 4096], "read_share": 1.4, "trap": True},
    {"name": "linear int4", "dtype": "int4", "shape": [4096, 4096], "read_share": {"absent": "not quiet enough"}},
    {"name": "linear bf16", "dtype": "bf16", "shape": [4096, 4096], "read_share": 40.0},  # impossible
    {"name": "decode attention", "dtype": "bf16", "shape": [3, 3, 64, 4096], "read_share": 0.4},
    {"name": "decode attention, heads by bank", "dtype": "bf16", "shape": [3, 3, 64, 4096], "read_share": 0.9},
    {"name": "linearised", "dtype": "fp32", "shape": [4096, 4096], "read_share": 1.0},
]


def with_runtime(catalogue, runtime) -> Catalogue:
    return replace(catalogue, runtimes={**catalogue.runtimes, "builtin": runtime})


def test_the_best_variant_of_each_shape_counts_and_traps_do_not():
    assert shares(ROWS, LINEAR) == {"int8": pytest.approx(0.8), "fp32": 0.8}
    assert shares(ROWS, ATTENTION) == {"bf16": 0.4}


def test_a_format_s_efficiency_becomes_what_its_kernel_reached():
    catalogue = load_catalogue()
    runtime = with_bench_priors(catalogue.runtimes["builtin"], ROWS)
    for dtype, share in shares(ROWS, LINEAR).items():
        assert runtime.priors["eta"].median * runtime.ratios[f"eta.{dtype}"].median == pytest.approx(share)
    assert runtime.priors["kappa"].median * runtime.ratios["kappa.bf16"].median == pytest.approx(2.0)
    assert runtime.sources["eta"].startswith("measured")
    before, after = (predict(OperatingPoint(weights="int8"), c) for c in (catalogue, with_runtime(catalogue, runtime)))
    assert after.decode_s.q95 / after.decode_s.q05 < before.decode_s.q95 / before.decode_s.q05


def test_a_cache_format_costs_what_its_kernel_reached_and_others_keep_their_ratio():
    before = load_catalogue().runtimes["builtin"]
    int8 = {"name": "decode attention int8", "dtype": "int8", "shape": [3, 3, 64, 4096], "read_share": 0.1}
    after = with_bench_priors(before, [*ROWS, int8])
    ratio = after.priors["kappa"].median / with_bench_priors(before, ROWS).priors["kappa"].median
    assert after.priors["kappa"].median * after.ratios["kappa.bf16"].median == pytest.approx(2.0)
    assert after.priors["kappa"].median * after.ratios["kappa.int8"].median == pytest.approx(8.0)
    assert after.ratios["kappa.int4"] == before.ratios["kappa.int4"]
    assert ratio > 1  # a dear int8 makes int4, which was not benched, dearer too


def test_without_a_bench_the_runtime_is_as_it_was():
    runtime = load_catalogue().runtimes["builtin"]
    assert with_bench_priors(runtime, []) is runtime
    assert with_bench_priors(runtime, ROWS[-3:]) is runtime
    assert with_bench_priors(runtime, ROWS[:1]).priors["kappa"] == runtime.priors["kappa"]
