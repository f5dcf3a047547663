from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics.latency import LatencyParameters, decode_parts, prefill_parts
from core.predict.prefill import LAYER_HEADS, prefill_costs
from core.predict.scenario import decode_costs
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
LLAMA = OperatingPoint(runtime="llamacpp_gpu", board="jetson_agx_orin_64gb", model="llama-3-8b", weights="q4_k_m")
AT = CATALOGUE.resolve(LLAMA)
N = np.array([1.0, 127.0, 128.0, 129.0, 1024.0])


def costs(n_tokens=N, bandwidth_byte_s=1e11, at=AT, **runtime):
    point = replace(LLAMA, context_tokens=n_tokens)
    return prefill_costs(point, replace(at, runtime=replace(at.runtime, **runtime)), bandwidth_byte_s)


def test_chunks_read_the_weights_and_start_the_layers_once_each():
    whole, parts = costs(prompt_chunk_tokens=0.0), costs(prompt_chunk_tokens=128.0)
    n_chunks = np.array([1.0, 1.0, 1.0, 2.0, 8.0])
    np.testing.assert_array_equal(parts.weight_byte, whole.weight_byte * n_chunks)
    np.testing.assert_array_equal(parts.n_launched, 32.0 * n_chunks)
    np.testing.assert_array_equal(parts.n_layers, 32.0 * N / 128.0)  # work on activations goes with the tokens
    np.testing.assert_array_equal(parts.flop, whole.flop)
    assert whole.n_launched == 0.0
    np.testing.assert_array_equal(whole.n_layers, 32.0)


def test_a_prompt_of_one_token_costs_little_more_than_a_decoded_token():
    parameters = LatencyParameters(0.8, kappa=0.0, t_layer_s=130e-6, eta_compute=0.3, t_layer_prefill_s=1e-3)
    prompt = prefill_parts(costs(1.0), parameters)
    token = decode_parts(decode_costs(replace(LLAMA, context_tokens=1.0), AT, 1e11), parameters)
    assert float(prompt.launches) == pytest.approx(float(token.layers))
    assert float(prompt.total / token.total) == pytest.approx(1.0, abs=0.01)


def test_a_compiled_graph_computes_all_of_every_chunk():
    graph = {"static_graph": True, "prompt_chunk_tokens": 128.0}
    padded = costs(graph_tokens=4096.0, **graph)
    body, head, width = AT.model.body_params, AT.model.head_params, 32 * 32 * 128
    n = np.array([128.0, 128.0, 128.0, 256.0, 1024.0])
    np.testing.assert_allclose(padded.flop, 2 * (body + head) * n + 4 * width * n * 4096, rtol=1e-12)
    assert LAYER_HEADS == 32 + 2 * 8  # of Llama-3-8B
    np.testing.assert_array_equal(padded.n_layers, 32 * n / 128)
    assert padded.n_launched == 0.0
    open_ended = costs(**graph)  # of no stated context: attends to what is cached
    np.testing.assert_allclose(open_ended.flop, 2 * (body + head) * n + 4 * width * n * n, rtol=1e-12)
    stated = prefill_costs(
        replace(LLAMA, context_tokens=128.0, graph_tokens=1024.0),
        replace(AT, runtime=replace(AT.runtime, graph_tokens=4096.0, **graph)),
        1e11,
    )
    np.testing.assert_allclose(stated.flop, 2 * (body + head) * 128 + 4 * width * 128 * 1024, rtol=1e-12)


def test_more_heads_cost_more_operators_in_a_compiled_graph():
    many = replace(AT, model=replace(AT.model, n_kv_heads=32))
    one, other = (costs(128.0, at=at, static_graph=True, prompt_chunk_tokens=0.0) for at in (AT, many))
    assert float(other.n_layers / one.n_layers) == pytest.approx(96 / 48)
    assert float(other.flop) == float(one.flop)


def test_a_compiled_graph_computes_every_expert():
    moe = CATALOGUE.models["qwen3-30b-a3b"]
    at = replace(AT, model=moe)
    whole = costs(1.0, at=at, static_graph=True, prompt_chunk_tokens=0.0)
    attention = 4 * moe.n_layers * moe.n_heads * moe.head_dim
    assert float(whole.flop) == pytest.approx(2 * (moe.total_params - moe.head_params) + attention)


def test_the_npu_s_runtimes_run_compiled_graphs():
    for key, runtime in CATALOGUE.runtimes.items():
        paged = key == "mindie_npu"  # reads the cached tokens block by block
        assert runtime.static_graph == (key.endswith("_npu") and not paged), key
        assert not runtime.static_graph or "static_graph" in runtime.sources, key
