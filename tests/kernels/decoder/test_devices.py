"""No kernel mixes devices: run on torch's meta device, whose tensors have shapes and types but no values.

Torch refuses operations between it and the CPU as it does between a META device and the CPU, so a tensor that a kernel
makes on the wrong device is found on machines without any other.
"""

import pytest
import torch

from kernels.attention.cached import attend, attend_rows
from kernels.attention.prefill import attend_prompt, attend_tiles
from kernels.cache.blocked_layout import BlockedCache, blocked, unblocked
from kernels.cache.contiguous import FORMATS, copy_tokens, new_cache
from kernels.decoder.linear import FloatLinear, Int8Linear, apply_rows
from kernels.eviction.policies import select, select_pages
from kernels.eviction.token_scores import (
    KeyNorms,
    PageBounds,
    attention_mass_scores,
    expected_attention_scores,
    key_norm_scores,
    rope_sensitivity_scores,
    snapkv_scores,
)
from kernels.passes.activation import prune
from kernels.passes.compensation import feed_back

META = "meta"


def on_meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device=META)


def test_a_mixture_would_be_noticed():
    with pytest.raises(RuntimeError, match=r"(?i)device"):
        on_meta(3) + torch.ones(3)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_caches(kv_format):
    cache = new_cache(2, 2, 160, 64, kv_format, META)
    for layer in range(2):
        cache.write(layer, on_meta(2, 1, 2, 150, 64))
    cache.length = 150
    cache.write(0, on_meta(2, 1, 2, 1, 64))
    assert cache.attend(0, on_meta(1, 2, 3, 64), 151).device.type == META
    assert all(x.device.type == META for x in cache.dequantised(0, 151))
    index = torch.zeros(2, 2, 70, dtype=torch.int64, device=META)
    kept = new_cache(2, 2, 70, 64, kv_format, META)
    copy_tokens(cache, kept, index, 150)
    assert kept.length == 70


def test_attention():
    q, k, v = on_meta(1, 2, 3, 64), on_meta(1, 2, 50, 64), on_meta(1, 2, 50, 64)
    assert attend(q, k, v, on_meta(2, 1, 50)).device.type == META
    new, keys, values, mask = on_meta(6, 20, 64), on_meta(2, 50, 64), on_meta(2, 50, 64), on_meta(2, 1, 50)
    assert attend_rows(new, keys, values).device.type == META
    assert attend_rows(new, keys, values, mask).device.type == META
    assert attend_tiles(new, keys, values, 8, 16).device.type == META
    assert attend_prompt(new, keys, values).device.type == META


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_linear_of_floats(dtype, in_blocks):
    linear = FloatLinear(on_meta(96, 64), dtype, in_blocks)
    assert linear(on_meta(1, 64, dtype=dtype)).device.type == META
    assert apply_rows(linear, on_meta(20, 64)).device.type == META
    assert linear.rows(torch.zeros(3, dtype=torch.int64, device=META)).device.type == META


def test_linear_int8_of_a_prompt():
    linear = Int8Linear(on_meta(96, 64))
    assert apply_rows(linear, on_meta(20, 64)).device.type == META
    assert linear.rows(torch.zeros(3, dtype=torch.int64, device=META)).device.type == META


def test_scores_and_selection():
    q, k, v = on_meta(4, 8, 64), on_meta(2, 200, 64), on_meta(2, 200, 64)
    rotation = on_meta(300, 32, dtype=torch.complex64)
    scores = [
        key_norm_scores(k),
        attention_mass_scores(q, k),
        snapkv_scores(q, k),
        rope_sensitivity_scores(q, k, on_meta(32)),
        expected_attention_scores(q, k, v, rotation[192:200], rotation[200:]),
    ]
    bounds, norms = PageBounds(2, 200, 64, 64, META), KeyNorms(2, 200, META)
    bounds.append(k)
    norms.append(k)
    scores += [bounds.scores(q.view(2, -1, 64)), norms.scores(q)]
    for found in scores:
        assert found.device.type == META
        assert select(found, 70).device.type == META
    assert select_pages(scores[0], 70).device.type == META


def test_layout_activations_and_error_feedback():
    cache = on_meta(1, 2, 50, 128)
    assert unblocked(blocked(cache)).device.type == META
    steps = BlockedCache(1, 2, 50, 128, torch.float32, device=META)
    steps.append(cache)
    assert steps.values.device.type == META
    x = on_meta(5000)
    assert prune(x, 0.3).device.type == META
    assert feed_back(x, on_meta(5000), 0.5).device.type == META
