"""Layouts of one cache hold the same values and give the same attention."""

import pytest
import torch

from kernels.attention.window import AttentionRule
from kernels.cache.contiguous import FloatKvCache, copy_tokens
from kernels.cache.laid_out import FORMATS, LAYOUTS, LaidOutKvCache

LAYERS, HEADS, DIM, N = 2, 3, 128, 40
TOLERANCE = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 2e-2}


def filled(cache, n=N, seed=0):
    kv = torch.randn(LAYERS, 2, 1, HEADS, n, DIM, generator=torch.Generator().manual_seed(seed))
    for layer in range(LAYERS):
        cache.write(layer, kv[layer])
    cache.length = n
    return cache


def laid_out(layout, kv_format, **more):
    return LaidOutKvCache(LAYERS, HEADS, N + 8, DIM, kv_format, layout, **more)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kv_format", FORMATS)
def test_values_and_attention_are_those_of_the_plain_cache(layout, kv_format):
    cache, plain = filled(laid_out(layout, kv_format)), filled(FloatKvCache(LAYERS, HEADS, N + 8, DIM, kv_format))
    q = torch.randn(1, HEADS, 2, DIM) / DIM**0.5
    for layer in range(LAYERS):
        for mine, theirs in zip(cache.dequantised(layer, N), plain.dequantised(layer, N), strict=True):
            assert torch.equal(mine, theirs)
        attended, expected = cache.attend(layer, q, N), plain.attend(layer, q, N)
        assert attended.shape == expected.shape
        assert attended.is_contiguous()
        assert torch.allclose(attended.float(), expected.float(), atol=TOLERANCE[kv_format])
    assert cache.byte_per_token() == plain.byte_per_token()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mask_and_a_window_hide_tokens_in_every_layout(layout):
    rule = AttentionRule(windows=(16, None))
    cache = filled(laid_out(layout, "fp32", rule=rule))
    plain = filled(FloatKvCache(LAYERS, HEADS, N + 8, DIM, "fp32", rule=rule))
    mask = torch.zeros(LAYERS, HEADS, 1, N + 8)
    mask[..., 30:34] = -torch.inf
    cache.mask = plain.mask = mask
    q = torch.randn(1, HEADS, 2, DIM) / DIM**0.5
    for layer in range(LAYERS):
        assert torch.allclose(cache.attend(layer, q, N), plain.attend(layer, q, N), atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tokens_are_copied_by_head_and_appended_behind(layout):
    source = filled(FloatKvCache(LAYERS, HEADS, N, DIM, "fp32"))
    index = torch.stack([torch.randperm(N)[:10].sort().values for _ in range(LAYERS * HEADS)]).view(LAYERS, HEADS, 10)
    cache = laid_out(layout, "fp32")
    copy_tokens(source, cache, index, N)
    assert cache.length == 10
    kv = torch.randn(2, 1, HEADS, 1, DIM)
    cache.write(1, kv)
    k, v = cache.dequantised(1, 11)
    expected = source.dequantised_at(1, index[1])
    assert torch.equal(k[:, :10], expected[0])
    assert torch.equal(v[:, :10], expected[1])
    assert torch.equal(torch.stack([k[:, 10:], v[:, 10:]]), kv[:, 0])


def test_values_lie_as_the_layout_says():
    strides = {layout: laid_out(layout, "fp32")._kv[0].stride() for layout in LAYOUTS}
    assert strides["head_major"][2:] == ((N + 8) * DIM, DIM, 1)
    assert strides["token_major"][2:] == (DIM, HEADS * DIM, 1)
    assert strides["blocked"][2:] == ((N + 8) * DIM, 32, (N + 8) * 32, 1)  # a line of 128 bytes is 32 values


def test_a_cache_that_no_layout_can_hold_is_refused():
    with pytest.raises(ValueError, match="kv_layout: got 'rows'"):
        laid_out("rows", "fp32")
    with pytest.raises(ValueError, match="kv: got 'int8' in layout blocked"):
        laid_out("blocked", "int8")
    with pytest.raises(ValueError, match="expected a head dimension of whole lines, not 96"):
        LaidOutKvCache(1, 1, 8, 96, "bf16", "blocked")
