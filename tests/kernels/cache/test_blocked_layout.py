import numpy as np
import pytest
import torch

from core.articles.banks import bank_of, distinct_banks, line_elements
from core.articles.banks import blocked as reference
from kernels.cache import blocked_layout
from kernels.cache.blocked_layout import GRANULE_BYTE, BlockedCache, block_elements, blocked, crop_tokens, unblocked

DTYPES = (torch.float32, torch.bfloat16, torch.int8)


@pytest.fixture(params=[True, False], ids=["native", "torch"])
def path(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(blocked_layout, "library", lambda: None)


def bits(*shape, dtype=torch.float32):
    values = torch.randint(-128, 128, (*shape, dtype.itemsize), generator=torch.Generator().manual_seed(0))
    return values.to(torch.int8).view(dtype).view(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip_is_bit_exact(path, dtype):
    cache = bits(2, 3, 70, 256, dtype=dtype)
    found = blocked(cache)
    block = block_elements(dtype)
    assert found.shape == (2, 3, 256 // block, 70, block)
    assert torch.equal(unblocked(found).view(torch.int8), cache.view(torch.int8))


def test_equals_the_formula(path):
    cache = torch.arange(2 * 2 * 5 * 128.0).view(2, 2, 5, 128)
    found = blocked(cache, 64)
    assert found[0, 0, 1, 0, 0] == 64
    assert np.array_equal(found.numpy(), reference(cache.numpy(), 64))
    assert found.stride() == (2 * 2 * 5 * 64, 2 * 5 * 64, 5 * 64, 64, 1)


def test_a_block_as_long_as_the_head_changes_nothing(path):
    cache = bits(1, 2, 9, 64)
    assert torch.equal(blocked(cache, 64).view(torch.int8).flatten(), cache.view(torch.int8).flatten())


def test_strided_input_and_given_output(path):
    cache = bits(2, 9, 3, 64).transpose(1, 2)
    out = torch.empty(2, 3, 2, 9, 32)
    assert blocked(cache, 32, out) is out
    back = torch.empty(2, 3, 9, 64)
    assert unblocked(out, back) is back
    assert torch.equal(back.view(torch.int32), cache.contiguous().view(torch.int32))


@pytest.mark.parametrize("pieces", [[20], [1] * 20, [7, 1, 12]])
def test_writing_in_blocks_equals_the_relayout_of_the_longer_cache(pieces):
    cache = bits(2, 3, 20, 128, dtype=torch.bfloat16)
    steps = BlockedCache(2, 3, 24, 128, torch.bfloat16)
    for piece in cache.split(pieces, 2):
        steps.append(piece)
    assert torch.equal(steps.values[:, :, :, :20].view(torch.int16), blocked(cache).view(torch.int16))
    assert not steps.values[:, :, :, 20:].any()
    with pytest.raises(ValueError, match="tokens: got 5, expected at most 4 more"):
        steps.append(cache[:, :, :5])


def test_elements_of_a_line():
    assert [block_elements(dtype) for dtype in DTYPES] == [32, 64, 128]
    assert all(block_elements(d) == line_elements(8 * d.itemsize) for d in DTYPES)


@pytest.mark.parametrize("head_dim", [64, 96])
def test_a_block_that_does_not_divide_the_head_raises(head_dim):
    with pytest.raises(ValueError, match=f"block: got 128, expected a divisor of the head dimension {head_dim}"):
        blocked(torch.zeros(1, 1, 4, head_dim), 128)
    with pytest.raises(ValueError, match="block: got 128"):
        BlockedCache(1, 1, 4, head_dim, torch.int8)


def test_an_output_of_another_shape_raises():
    with pytest.raises(ValueError, match="out: got"):
        blocked(torch.zeros(1, 1, 4, 64), 32, torch.zeros(1, 1, 2, 4, 16))


@pytest.mark.parametrize(("n_tokens", "token_byte"), [(2048, 128), (820, 256), (1000, 64), (100, 4096)])
def test_crops_put_the_heads_into_different_banks(n_tokens, token_byte):
    n = crop_tokens(n_tokens, token_byte)
    assert n_tokens - 2 * max(1, GRANULE_BYTE // token_byte) < n <= n_tokens
    assert distinct_banks(n * token_byte) == 8
    assert len({bank_of(head * n * token_byte) for head in range(8)}) == 8


def test_a_power_of_two_of_tokens_puts_all_heads_into_one_bank():
    assert distinct_banks(2048 * 128) == 1
    assert crop_tokens(2048, 128) == 2048 - 32


def test_too_few_tokens_for_a_crop_raise():
    with pytest.raises(ValueError, match="n_tokens: got 511, expected at least 512 tokens of 72 bytes"):
        crop_tokens(511, 72)
