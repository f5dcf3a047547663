import pytest
import torch

from kernels.cache import FORMATS, copy_tokens, new_cache

LAYERS, HEADS, DIM = 2, 3, 16
TOLERANCE = {"fp32": 0, "fp16": 3e-3, "bf16": 2e-2, "int8": 2e-2}


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
        assert torch.allclose(out.float(), expected, atol=1e-6 if kv_format in ("fp32", "fp16") else 3e-2)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_copying_all_tokens_changes_nothing(kv_format):
    cache, _ = filled(kv_format)
    copy = new_cache(LAYERS, HEADS, 20, DIM, kv_format)
    copy_tokens(cache, copy, None, 20)
    for a, b in zip(copy.dequantised(1, 20), cache.dequantised(1, 20), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_bytes_of_one_token():
    values = 2 * LAYERS * HEADS * DIM
    byte = {f: new_cache(LAYERS, HEADS, 8, DIM, f).byte_per_token() for f in FORMATS}
    assert byte == {"fp32": 4 * values, "bf16": 2 * values, "fp16": 2 * values, "int8": values + 2 * LAYERS * HEADS * 4}


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
