"""Options of a point in predictions: what they save where board and runtime support it, and what is said where not."""

from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics import adapters
from core.predict.decode import decode_costs
from core.predict.options import explains
from core.predict.prefill import prefill_costs
from core.predict.scenario import initial_posterior, predict, rest_power_w
from core.predict.sweep import largest_context
from core.predict.validity import memory_fit
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
ORIN = OperatingPoint(board="jetson_orin_nano_8gb_super", runtime="vllm_gpu", model="llama-3.2-1b", weights="bf16")
HERE = OperatingPoint(board="raspberry_pi_5", runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_k_m")
LLAMA = CATALOGUE.models["llama-3.2-1b"]
BODY_BYTE = LLAMA.body_params * 2.0


def costs(point):
    return decode_costs(point, CATALOGUE.resolve(point), 1e11)


def outputs(point):
    found = predict(point, CATALOGUE)
    return found.decode_s.median, found.ttft_s.median, found.memory_byte.median


def said(point, words):
    return sum(words in sentence for sentence in predict(point, CATALOGUE).outside)


def test_two_of_four_saves_bytes_work_and_memory_where_it_is_read_compressed():
    dense, sparse = costs(ORIN), costs(replace(ORIN, weight_sparsity=0.5))
    assert dense.weight_byte - sparse.weight_byte == pytest.approx(BODY_BYTE * (1.0 - 0.5625))
    assert dense.flop - sparse.flop == pytest.approx(LLAMA.body_params)
    before, after = outputs(ORIN), outputs(replace(ORIN, weight_sparsity=0.5))
    assert all(less < more for less, more in zip(after, before, strict=True))
    assert before[2] - after[2] == pytest.approx(BODY_BYTE * (1.0 - 0.5625))
    assert not said(replace(ORIN, weight_sparsity=0.5), "saved")


@pytest.mark.parametrize(
    ("point", "pattern"), [(HERE, "2:4"), (ORIN, "unstructured"), (replace(ORIN, runtime="llamacpp_gpu"), "2:4")]
)
def test_a_pattern_that_is_read_in_full_saves_nothing_and_says_so(point, pattern):
    sparse = replace(point, weight_sparsity=0.5, sparsity_pattern=pattern)
    assert outputs(sparse) == outputs(point)
    assert said(sparse, "reads weights") == 1


def test_whole_rows_make_a_smaller_dense_model_everywhere():
    sparse = replace(HERE, weight_sparsity=0.5, sparsity_pattern="rows")
    assert outputs(sparse)[0] < outputs(HERE)[0]
    assert not said(sparse, "reads weights")


def test_too_few_zeros_for_two_of_four_are_said():
    assert said(replace(ORIN, weight_sparsity=0.4), "2:4 saves nothing below a sparsity of 0.5") == 1
    assert outputs(replace(ORIN, weight_sparsity=0.4)) == outputs(ORIN)


def test_adapters_are_read_computed_and_held():
    point = replace(ORIN, adapter_rank=16.0, adapter_matrices="all")
    params = float(adapters.adapter_params(LLAMA, 16.0, "all"))
    assert costs(point).weight_byte - costs(ORIN).weight_byte == pytest.approx(2.0 * params)
    assert costs(point).flop - costs(ORIN).flop == pytest.approx(2.0 * params)
    assert outputs(point)[2] - outputs(ORIN)[2] == pytest.approx(2.0 * params)
    more = (
        prefill_costs(point, CATALOGUE.resolve(point), 1e11).flop
        - prefill_costs(ORIN, CATALOGUE.resolve(ORIN), 1e11).flop
    )
    assert float(more) == pytest.approx(2.0 * params * float(ORIN.context_tokens))
    assert not said(point, "adapters")
    assert said(replace(point, runtime="builtin"), "takes no adapters") == 1


def test_on_chip_memory_serves_a_share_of_the_bytes():
    mixed = replace(ORIN, on_chip_frac=0.82, on_chip_byte_s=768e9)
    assert costs(mixed).byte_cost == pytest.approx(0.18 + 0.82 * 1e11 / 768e9)
    times = [outputs(replace(ORIN, on_chip_frac=h, on_chip_byte_s=768e9))[0] for h in (0.0, 0.3, 0.6, 1.0)]
    assert times == sorted(times, reverse=True)
    assert times[0] == outputs(ORIN)[0]
    assert said(mixed, "has no known on-chip bandwidth") == 0
    unknown = replace(ORIN, on_chip_frac=0.82)
    assert said(unknown, "has no known on-chip bandwidth") == 1
    assert outputs(unknown)[0] < outputs(mixed)[0]
    dense, half = (predict(replace(ORIN, on_chip_frac=h), CATALOGUE).energy_j_per_token for h in (0.0, 0.5))
    assert half.median == pytest.approx(0.5 * dense.median)
    at, all_of_it = CATALOGUE.resolve(ORIN), predict(replace(ORIN, on_chip_frac=1.0), CATALOGUE)
    assert all_of_it.power_w.median == pytest.approx(rest_power_w(at, initial_posterior(at, CATALOGUE)))
    assert said(mixed, "lower bounds") == 1


def test_pruned_activations_and_layouts_change_no_prediction_of_time():
    pruned = replace(HERE, activation_keep=0.85)
    assert outputs(pruned)[:2] == outputs(HERE)[:2]
    assert said(pruned, "skips no zero activations") == 1
    assert outputs(replace(HERE, kv_layout="blocked")) == outputs(HERE)
    assert said(replace(HERE, kv_layout="blocked"), "measured effect") == 1
    assert not explains(pruned)
    assert not explains(replace(HERE, kv_layout="blocked"))
    assert explains(HERE)


@pytest.mark.parametrize("option", [{"weight_sparsity": 0.5}, {"adapter_rank": 8.0}, {"activation_keep": 0.9}])
def test_accuracy_that_nothing_is_known_of_is_absent_with_the_reason(option):
    found = predict(replace(HERE, **option), CATALOGUE)
    assert isinstance(found.top1_agreement, Absent)
    assert isinstance(found.perplexity_ratio, Absent)
    assert found.top1_agreement.reason


@pytest.mark.parametrize("name", ["weight_sparsity", "on_chip_frac", "adapter_rank", "activation_keep"])
def test_an_array_is_its_points_one_by_one(name):
    values = {"adapter_rank": [0.0, 4.0, 64.0], "activation_keep": [0.1, 0.5, 1.0]}.get(name, [0.0, 0.4, 0.5, 0.9])
    together = predict(replace(ORIN, **{name: np.array(values)}), CATALOGUE)
    for i, value in enumerate(values):
        alone = predict(replace(ORIN, **{name: value}), CATALOGUE)
        for of in ("decode_s", "ttft_s", "memory_byte"):
            assert np.broadcast_to(getattr(together, of).median, len(values))[i] == pytest.approx(
                getattr(alone, of).median
            )


def test_memory_limits_count_sparsity_and_adapters():
    sparse, adapted = replace(ORIN, weight_sparsity=0.5), replace(ORIN, adapter_rank=128.0, adapter_matrices="all")
    needed = [memory_fit(point, CATALOGUE.resolve(point)).needed_byte for point in (sparse, ORIN, adapted)]
    assert needed == sorted(needed)
    assert len(set(needed)) == 3
    contexts = [largest_context(point, CATALOGUE, memory_byte=3e9) for point in (sparse, ORIN, adapted)]
    assert contexts == sorted(contexts, reverse=True)
    assert contexts[0] > contexts[2]
