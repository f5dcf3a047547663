import pytest
import torch

from kernels.accuracy.metrics import default_text
from kernels.cache.contiguous import (
    FORMATS,
    INT4_GROUP,
    FloatKvCache,
    Int4KvCache,
    copy_tokens,
    new_cache,
    quantised_int4,
)
from kernels.cache.paged import PagedKvCache
from kernels.decoder.transformer import Decoder

LAYERS, HEADS, DIM = 2, 3, 16
TOLERANCE = {"fp32": 0, "fp16": 3e-3, "bf16": 2e-2, "int8": 2e-2, "int4": 0.3}


def filled(kv_format, n=20, capacity=24):
    cache = new_cache(LAYERS, HEADS, capacity, DIM, kv_format)
    kv = torch.randn(LAYERS, 2, HEADS, n, DIM, generator=torch.Generator().manual_seed(0))
    for layer in range(LAYERS):
        cache.write(layer, kv[layer][:, None])
    cache.length = n
    return cache, kv


@pytest.mark.parametrize("kv_format", FORMATS)
def test_returns_what_was_written(kv_format):
    cache, kv = filled(kv_format)
    for layer in range(LAYERS):
        k, v = cache.dequantised(layer, 20)
        assert torch.allclose(torch.stack([k, v]), kv[layer], atol=TOLERANCE[kv_format])


@pytest.mark.parametrize("kv_format", FORMATS)
def test_appending_one_by_one_equals_writing_at_once(kv_format):
    whole, kv = filled(kv_format)
    steps = new_cache(LAYERS, HEADS, 24, DIM, kv_format)
    for i in range(20):
        for layer in range(LAYERS):
            steps.write(layer, kv[layer, :, None, :, i : i + 1])
        steps.length += 1
    for layer in range(LAYERS):
        for a, b in zip(steps.dequantised(layer, 20), whole.dequantised(layer, 20), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_attending_over_kept_tokens_equals_float_attention_over_them(kv_format):
    cache, _ = filled(kv_format)
    index = torch.stack([torch.stack([torch.arange(i, i + 14) for i in range(HEADS)])] * LAYERS)  # differs per head
    pruned = new_cache(LAYERS, HEADS, 14, DIM, kv_format)
    copy_tokens(cache, pruned, index, 20)
    assert pruned.length == 14
    q = torch.randn(HEADS, 2, DIM, generator=torch.Generator().manual_seed(1)) * DIM**-0.5
    for layer in range(LAYERS):
        k, v = cache.dequantised(layer, 20)
        rows = index[layer][:, :, None].expand(-1, -1, DIM)
        k, v = k.gather(1, rows), v.gather(1, rows)
        expected = torch.softmax(q @ k.transpose(1, 2), -1) @ v
        out = pruned.attend(layer, q[None], 14).view(HEADS, 2, DIM)
        tolerance = {"fp32": 1e-6, "fp16": 1e-6, "int4": 0.2}.get(kv_format, 3e-2)  # int4 is rounded twice
        assert torch.allclose(out.float(), expected, atol=tolerance)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_copying_all_tokens_changes_nothing(kv_format):
    cache, _ = filled(kv_format)
    copy = new_cache(LAYERS, HEADS, 20, DIM, kv_format)
    copy_tokens(cache, copy, None, 20)
    for a, b in zip(copy.dequantised(1, 20), cache.dequantised(1, 20), strict=True):
        assert torch.allclose(a, b, atol=5e-3 if kv_format == "int4" else 1e-6)  # the new offset is rounded to fp16


def test_bytes_of_one_token():
    values = 2 * LAYERS * HEADS * DIM
    byte = {f: new_cache(LAYERS, HEADS, 8, DIM, f).byte_per_token() for f in FORMATS}
    scales = LAYERS * HEADS * (4 + 4 * DIM // INT4_GROUP)  # of a value; of a page's channels, per token
    assert byte == {
        "fp32": 4 * values,
        "bf16": 2 * values,
        "fp16": 2 * values,
        "int8": values + 2 * LAYERS * HEADS * 4,
        "int4": values // 2 + scales,
    }


@pytest.mark.parametrize(
    ("capacity", "kv_format", "message"), [(0, "fp32", "capacity: got 0"), (1, "int3", "kv: got 'int3'")]
)
def test_wrong_arguments_raise(capacity, kv_format, message):
    with pytest.raises(ValueError, match=message):
        new_cache(LAYERS, HEADS, capacity, DIM, kv_format)


def test_zeros_survive_int8():
    cache = new_cache(1, 1, 16, DIM, "int8")
    cache.write(0, torch.zeros(2, 1, 1, 3, DIM))
    k, v = cache.dequantised(0, 3)
    assert torch.equal(k, torch.zeros(1, 3, DIM))
    assert torch.equal(v, torch.zeros(1, 3, DIM))


@pytest.mark.parametrize("kv_format", ["int8", "int4"])
def test_zeros_survive_a_whole_page(kv_format):
    cache = new_cache(1, 1, 96, DIM, kv_format)
    cache.write(0, torch.zeros(2, 1, 1, 90, DIM))
    assert not torch.stack(cache.dequantised(0, 90)).any()


@pytest.mark.parametrize("dim", [1, -1])
def test_int4_is_within_half_a_step_and_exact_on_its_grid(dim):
    x = torch.randn(2, 64, 32, generator=torch.Generator().manual_seed(3))
    codes, scale = quantised_int4(x, dim)
    step, offset = scale.float().unbind(1)
    q = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).float()
    assert ((q * step + offset - x).abs() <= step * 0.501 + x.abs() * 2**-10).all()
    codes_again, scale_again = quantised_int4(q * step + offset, dim)
    assert torch.equal(codes_again, codes)
    assert torch.allclose(scale_again.float(), scale.float(), rtol=2e-3, atol=2e-3)


def test_int4_is_invariant_to_scale():
    x = torch.randn(1, 64, 16, generator=torch.Generator().manual_seed(4))
    codes, scale = quantised_int4(x, 1)
    codes4, scale4 = quantised_int4(4 * x, 1)
    assert torch.equal(codes, codes4)
    assert torch.equal(4 * scale, scale4)


def test_keys_by_channel_and_values_by_token_lose_less_of_real_attention(smollm2, smollm2_tokenizer):
    """The choice of KIVI (arXiv 2402.02750), on the keys and values of a real prompt."""
    decoder = Decoder(smollm2, "int4")
    n = 256
    tokens = torch.tensor(smollm2_tokenizer.encode(default_text()[:4000])[:n])
    prompt = decoder.prefill(tokens, FloatKvCache(30, 3, n, 64, "fp32"))

    def rounded(x, dim):
        codes, scale = quantised_int4(x.unflatten(1, (-1, INT4_GROUP)).flatten(0, 1), dim)
        step, offset = scale.float().unbind(1)
        return torch.stack([codes & 15, codes >> 4], -1).flatten(-2).mul(step).add(offset).view_as(x)

    def error(k_dim, v_dim):
        total = 0.0
        for layer in range(0, 30, 5):
            k, v = prompt.cache.dequantised(layer, n)
            q = prompt.queries[layer].view(3, -1, 64)
            exact = torch.softmax(q @ k.transpose(1, 2), -1) @ v
            out = torch.softmax(q @ rounded(k, k_dim).transpose(1, 2), -1) @ rounded(v, v_dim)
            total += float((out - exact).norm() / exact.norm())
        return total

    assert error(1, -1) < 0.7 * error(-1, -1)  # keys by channel
    assert error(1, -1) < error(1, 1)  # values by token


@pytest.mark.parametrize("cache", [Int4KvCache(1, 2, 300, 64), PagedKvCache(1, 2, 300, 64, "int4")], ids=type)
def test_cutting_back_and_writing_again_changes_nothing_behind_the_open_page(cache):
    kv = torch.randn(2, 1, 2, 200, 64, generator=torch.Generator().manual_seed(5))
    cache.write(0, kv)
    cache.length = 199
    for _ in range(3):  # the measured run writes the last token again and again
        cache.write(0, kv[:, :, :, 199:])
    before = torch.stack(cache.dequantised(0, 200))
    cache.length = 100  # into an earlier page
    cache.write(0, kv[:, :, :, 100:200])
    cache.length = 200
    again = torch.stack(cache.dequantised(0, 200))
    assert torch.allclose(again, before, atol=0.05)
    assert torch.equal(again[:, :, 128:], before[:, :, 128:])
