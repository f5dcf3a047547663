import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics import traffic
from core.spec import KvFormat, ModelShape, WeightFormat
from tests.places import GOLDEN

MODELS = json.loads((GOLDEN / "models.json").read_text())
QUANTITIES = json.loads((GOLDEN / "quantities.json").read_text())
FOUR_AND_A_HALF = WeightFormat("q", "4.5 bit", 4.5, 4.5, needs_unpacking=True)
FP16 = KvFormat("fp16", "16-bit float", 16.0)


def decoder(
    key, n_layers, hidden, n_heads, n_kv_heads, head_dim, intermediate, vocab, *, tied=False, bias=0, **changes
):
    """A Llama-family shape with its parameter counts worked out from its dimensions."""
    attention = hidden * head_dim * (2 * n_heads + 2 * n_kv_heads) + bias
    body = n_layers * (attention + 3 * hidden * intermediate)
    head = vocab * hidden
    norms = hidden * (2 * n_layers + 1)
    return ModelShape(
        key, key, n_layers, hidden, n_heads, n_kv_heads, head_dim, intermediate, vocab, tied,
        body_params=float(body), head_params=float(head),
        total_params=float(body + head * (1 if tied else 2) + norms), max_context_tokens=131072, **changes,
    )  # fmt: skip


LLAMA3_8B = decoder("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
QWEN2_1_5B = decoder("qwen2-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, tied=True)


def test_parameter_counts_of_the_golden_model():
    assert LLAMA3_8B.body_params == MODELS["M1.body_params"]
    assert LLAMA3_8B.head_params == MODELS["M1.head_params"]
    assert LLAMA3_8B.total_params == QUANTITIES["A01.phy.llama3_8b_params"]


def test_weight_and_kv_bytes_match_the_golden_values():
    assert traffic.weight_byte(LLAMA3_8B, FOUR_AND_A_HALF) / 1e6 == pytest.approx(4221.370368, rel=1e-12)
    assert traffic.weight_byte(LLAMA3_8B, FOUR_AND_A_HALF) / 1e6 == pytest.approx(
        QUANTITIES["A01.phy.llama3_8b.weight_MB_read_per_token_4.5bpw"], rel=1e-4  # that one counts the norms too
    )  # fmt: skip
    assert traffic.weight_byte(QWEN2_1_5B, FOUR_AND_A_HALF) / 1e6 == pytest.approx(
        QUANTITIES["A01.phy.qwen2_1.5b.weight_MB_read_per_token_4.5bpw"], rel=2e-4
    )
    assert traffic.kv_byte_per_token(LLAMA3_8B, FP16) == QUANTITIES["A01.phy.llama3_8b.kv_bytes_per_token_fp16"]
    assert traffic.kv_byte_per_token(QWEN2_1_5B, FP16) == QUANTITIES["A01.phy.qwen2_1.5b.kv_bytes_per_token_fp16"]
    assert traffic.kv_byte_per_token(LLAMA3_8B, FP16) / 2 == MODELS["M1.kv_elems_per_token"]


def test_kv_equals_weights_at_the_golden_context():
    n = traffic.weight_byte(LLAMA3_8B, FOUR_AND_A_HALF) / traffic.kv_byte_per_token(LLAMA3_8B, FP16)
    assert n == pytest.approx(MODELS["M1.n_at_which_KV=weights(4.5b)"], rel=1e-4)


def test_head_has_its_own_precision():
    kept = WeightFormat("q", "4.5 bit, head in 16", 4.5, 16.0, needs_unpacking=True)
    extra = LLAMA3_8B.head_params * (16.0 - 4.5) / 8
    assert traffic.weight_byte(LLAMA3_8B, kept) == traffic.weight_byte(LLAMA3_8B, FOUR_AND_A_HALF) + extra


def test_exact_bytes_of_a_file_win_over_bits_per_weight():
    shape = decoder("x", 2, 64, 2, 1, 32, 128, 100, weight_byte_by_format={"q": 12345.0})
    assert traffic.weight_byte(shape, FOUR_AND_A_HALF) == 12345.0
    other = WeightFormat("r", "8 bit", 8.0, 8.0, needs_unpacking=False)
    assert traffic.weight_byte(shape, other) == shape.body_params + shape.head_params


def test_prefill_flop_match_the_golden_values():
    n = np.array([128.0, 512.0, 2048.0])
    golden = [MODELS[f"M2.prefill_TFLOP(n={k})"] for k in (128, 512, 2048)]
    np.testing.assert_allclose(traffic.prefill_flop(LLAMA3_8B, n) / 1e12, golden, rtol=1e-12)


def test_counts_out_of_range_are_refused():
    for call in (
        lambda: traffic.decode_flop(LLAMA3_8B, -1.0),
        lambda: traffic.prefill_flop(LLAMA3_8B, np.array([1.0, -1.0])),
        lambda: traffic.memory_byte(LLAMA3_8B, FOUR_AND_A_HALF, FP16, -1.0),
    ):
        with pytest.raises(ValueError, match=r"context_tokens = -1 is outside \[0, inf\)"):
            call()
    with pytest.raises(ValueError, match=r"kept_frac = 1\.5"):
        traffic.memory_byte(LLAMA3_8B, FOUR_AND_A_HALF, FP16, 1.0, 1.5)
    with pytest.raises(ValueError, match=r"alpha = 1\.5"):
        traffic.decode_flop(LLAMA3_8B, 1.0, 1.5)
    with pytest.raises(ValueError, match="n_tokens = 0"):
        traffic.prefill_weight_byte(LLAMA3_8B, FOUR_AND_A_HALF, 0.0)


def test_one_token_prefill_costs_exactly_what_decoding_at_one_token_does():
    difference = traffic.prefill_flop(LLAMA3_8B, 1.0) - traffic.decode_flop(LLAMA3_8B, 1.0)
    assert difference == MODELS["M2.sum_check_1_token_prefill_equals_decode_flops"]


def test_formats_have_the_bits_that_their_layout_takes():
    formats = load_catalogue().weight_formats
    for key, layout in (
        ("w4a16", "4 bit,g=128,fp16 scale+4bit zero"),
        ("q4_0", "4 bit,g=32,fp16 scale"),
        ("w8a8", "8 bit,row scale"),
    ):
        assert formats[key].bits_per_weight == MODELS[f"M5.bpw({layout})"]


def test_pruning_removes_attention_operations_only():
    n = 4096.0
    linear = 2 * (LLAMA3_8B.body_params + LLAMA3_8B.head_params)
    full, half = traffic.decode_flop(LLAMA3_8B, n), traffic.decode_flop(LLAMA3_8B, n, 0.5)
    assert half - linear == pytest.approx((full - linear) / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("layout", "whole_pages", "expected"),
    [("compacted", False, 0.6), ("paged", True, 0.6), ("paged", False, 0.6**16), ("masked", True, 0.0)],
)
def test_bytes_that_pruning_saves_depend_on_the_layout(layout, whole_pages, expected):
    assert traffic.alpha_effective(0.6, layout, whole_pages=whole_pages) == pytest.approx(expected, abs=0)
    array = traffic.alpha_effective(np.array([0.0, 0.6]), layout, whole_pages=whole_pages)
    np.testing.assert_array_equal(array, [0.0, expected])


@pytest.mark.parametrize("alpha", [-0.1, 1.0, np.nan, np.array([0.2, 1.5])])
def test_alpha_outside_its_range_is_refused_by_name(alpha):
    with pytest.raises(ValueError, match=r"alpha = .* is outside \[0, 1\)"):
        traffic.alpha_effective(alpha, "compacted", whole_pages=True)


def test_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="layout = 'sparse' is none of compacted, paged, masked"):
        traffic.alpha_effective(0.5, "sparse", whole_pages=True)


def test_memory_holds_all_weights_the_embedding_and_the_kept_cache():
    sixteen = WeightFormat("h", "16 bit", 16.0, 16.0, needs_unpacking=False)
    assert traffic.memory_byte(LLAMA3_8B, sixteen, FP16, 0.0) / 2 == pytest.approx(LLAMA3_8B.total_params, rel=1e-4)
    cache = traffic.memory_byte(LLAMA3_8B, sixteen, FP16, 2048.0) - traffic.memory_byte(LLAMA3_8B, sixteen, FP16, 0.0)
    assert cache == 2048 * 131072
    kept = traffic.memory_byte(LLAMA3_8B, sixteen, FP16, np.array([2048.0]), 0.25)
    assert kept[0] == traffic.memory_byte(LLAMA3_8B, sixteen, FP16, 512.0)


def test_file_of_mixed_types_unpacks_fewer_weights():
    catalogue = load_catalogue()
    shape, weights = catalogue.models["qwen2.5-1.5b"], catalogue.weight_formats["q4_k_m"]
    n_weights = shape.body_params + shape.head_params
    assert traffic.unpacked_weights(shape, weights) == n_weights
    assert traffic.unpacked_weights(shape, catalogue.weight_formats["q8_0"]) == 0.0
    shares = [
        traffic.unpacked_weights(replace(shape, weight_byte_by_format={"q4_k_m": n_weights * bits / 8}), weights)
        for bits in (4.5, 4.899, 6.0, 7.5, 8.5, 9.0)
    ]
    assert shares[0] == shares[1] == n_weights
    assert all(b < a for a, b in pairwise(shares[1:5]))
    assert shares[-1] == shares[-2] == 0.0


def test_head_precision_is_an_input_of_its_own():
    catalogue = load_catalogue()
    shape, weights, head = (
        catalogue.models["gemma-2-2b"],
        catalogue.weight_formats["q4f16"],
        catalogue.weight_formats["fp16"],
    )
    more = shape.head_params * (16.0 - weights.head_bits_per_weight) / 8
    assert traffic.weight_byte(shape, weights, head) == pytest.approx(traffic.weight_byte(shape, weights) + more)
    exact = replace(shape, weight_byte_by_format={"q4f16": 1.5e9})
    assert traffic.weight_byte(exact, weights, head) == pytest.approx(1.5e9 + more)
    kv = catalogue.kv_formats["fp16"]
    held = traffic.memory_byte(shape, weights, kv, 1.0, head=head) - traffic.memory_byte(shape, weights, kv, 1.0)
    assert held == pytest.approx(more)


def test_mixture_reads_its_active_experts_and_holds_all():
    catalogue = load_catalogue()
    shape, weights = catalogue.models["qwen3-30b-a3b"], catalogue.weight_formats["w8a8"]
    kv = catalogue.kv_formats["fp16"]
    assert traffic.weight_byte(shape, weights) == pytest.approx(shape.body_params + shape.head_params)
    assert traffic.memory_byte(shape, weights, kv, 1.0) == pytest.approx(shape.total_params, rel=0.02)
    assert traffic.weight_byte(shape, weights) < 0.11 * traffic.memory_byte(shape, weights, kv, 1.0)


def test_hybrid_model_caches_in_its_attention_layers_only():
    catalogue = load_catalogue()
    shape = catalogue.models["lfm2.5-1.2b"]
    assert (shape.n_layers, shape.n_caching_layers) == (16, 6)
    assert traffic.kv_byte_per_token(shape, catalogue.kv_formats["fp16"]) == 12288.0
    assert catalogue.models["llama-3-8b"].n_caching_layers == 32


def test_prompt_reads_the_idle_experts_too():
    catalogue = load_catalogue()
    dense, sparse = catalogue.models["llama-3-8b"], catalogue.models["qwen3-30b-a3b"]
    eight = catalogue.weight_formats["w8a8"]
    for model in (dense, sparse):
        assert traffic.prefill_weight_byte(model, eight, 1.0) == traffic.weight_byte(model, eight)
    assert traffic.prefill_weight_byte(dense, eight, 512.0) == traffic.weight_byte(dense, eight)
    assert traffic.prefill_weight_byte(sparse, eight, 512.0) == pytest.approx(30.22e9, rel=0.01)
    rising = traffic.prefill_weight_byte(sparse, eight, np.array([1.0, 2.0, 8.0, 64.0]))
    assert np.all(np.diff(rising) > 0.0)


def test_layers_with_a_window_read_and_hold_no_more_than_it():
    every, w = decoder("every", 6, 512, 8, 2, 64, 1024, 1000), 100
    some = replace(every, n_window_layers=5, window_tokens=float(w))
    n = np.array([1.0, 100.0, 101.0, 4000.0])
    assert traffic.cached_tokens(some, n) == pytest.approx((n + 5 * np.minimum(n, w)) / 6)
    assert [traffic.cached_tokens(some, one) for one in n] == traffic.cached_tokens(some, n).tolist()
    head = 2 * 8 * 64
    beyond = 2 * head * 5 * np.maximum(n - w, 0)
    assert traffic.decode_flop(every, n) - traffic.decode_flop(some, n) == pytest.approx(beyond)
    attended = [k + 5 * min(k, w) for k in range(1, 4001)]
    assert traffic.prefill_attention_flop(some, 4000.0) == pytest.approx(2 * head * sum(attended))
    assert traffic.prefill_attention_flop(some, 60.0) == traffic.prefill_attention_flop(every, 60.0)
    held = [traffic.memory_byte(shape, FOUR_AND_A_HALF, FP16, 4000.0) for shape in (every, some)]
    per_layer = traffic.kv_byte_per_token(every, FP16) / 6
    assert held[0] - held[1] == pytest.approx(5 * (4000 - w) * per_layer)
    assert traffic.prefill_flop(some, 1.0) == traffic.decode_flop(some, 1.0)
