import numpy as np
import pytest

from core.articles.banks import (
    aligned_fill,
    balance,
    bank_loads,
    bank_of,
    blocked,
    column_conflict_ways,
    distinct_banks,
    hashed_bank_of,
    layer_capacity_tokens,
    layer_stride_byte,
    line_elements,
    relayout_byte,
    unblocked,
)

RNG = np.random.default_rng(4)


def test_distinct_banks_is_what_walking_visits():
    for k in range(1, 40):
        stride = k * 4096
        assert distinct_banks(stride) == len({bank_of(i * stride) for i in range(64)})
    assert np.array_equal(distinct_banks(np.array([4096, 16384])), [8, 2])
    with pytest.raises(ValueError, match="stride_byte = 100 is no positive multiple of 4096"):
        distinct_banks(100)


def test_the_hash_spreads_powers_of_two_and_stays_a_bijection_within_a_row():
    assert len({hashed_bank_of(i * 32768) for i in range(8)}) == 8
    for row in range(8):
        assert len({hashed_bank_of(row * 32768 + i * 4096) for i in range(8)}) == 8


def test_bank_loads_count_every_byte():
    for _ in range(100):
        start, size = int(RNG.integers(0, 100_000)), int(RNG.integers(1, 60_000))
        loads = bank_loads(start, size)
        walked = np.bincount([bank_of(a) for a in range(start, start + size, 16)], minlength=8) * 16
        assert loads.sum() == size
        assert np.all(np.abs(loads - walked) <= 16 * 8)
    assert balance(bank_loads(0, 8 * 4096 * 3)) == 1.0
    assert balance([1, 0, 0, 0]) == 0.25


def test_fill_of_aligned_blocks():
    assert aligned_fill(4096) == 1.0
    assert aligned_fill(4097) == pytest.approx(4097 / 8192)


def test_layer_regions():
    for n in (1, 63, 64, 2048):
        stride = layer_stride_byte(n, 4096.0)
        assert stride % 65536 == 0
        assert layer_capacity_tokens(stride, 4096.0) >= n
        assert stride == 65536 or layer_capacity_tokens(stride - 65536, 4096.0) < n


@pytest.mark.parametrize(("d", "block"), [(64, 32), (64, 64), (128, 64), (96, 32), (128, 128)])
def test_relayout_round_trips_bit_by_bit(d: int, block: int):
    cache = RNG.normal(size=(2, 3, 5, d)).astype(np.float32)
    relaid = blocked(cache, block)
    assert relaid.shape == (2, 3, d // block, 5, block)
    np.testing.assert_array_equal(unblocked(relaid), cache)
    longer = RNG.normal(size=(2, 3, 6, d)).astype(np.float32)
    longer[:, :, :5] = cache
    np.testing.assert_array_equal(blocked(longer, block)[:, :, :, :5], relaid)  # appending a token moves nothing
    if block == d:
        np.testing.assert_array_equal(relaid.ravel(), cache.ravel())


def test_arrays_are_those_of_each_element():
    addresses = RNG.integers(0, 1 << 30, 50)
    for bank in (bank_of, hashed_bank_of):
        assert bank(addresses).tolist() == [bank(int(a)) for a in addresses]
    sizes = np.array([128.0, 2048.0, 4096.0])
    assert aligned_fill(sizes).tolist() == [0.03125, 0.5, 1.0]
    n = np.array([1.0, 63.0, 2048.0])
    assert layer_stride_byte(n, 4096.0).tolist() == [layer_stride_byte(float(k), 4096.0) for k in n]
    assert layer_capacity_tokens(262144, np.array([4096.0, 16384.0])).tolist() == [63.0, 15.0]
    with pytest.raises(ValueError, match="n_banks = 6 is no power of 2"):
        hashed_bank_of(0, n_banks=6)
    with pytest.raises(ValueError, match="address = -1"):
        bank_of(np.array([0, -1]))


def test_relayout_refuses_a_block_that_does_not_divide():
    with pytest.raises(ValueError, match="block = 128 does not divide the head dimension 96"):
        blocked(np.zeros((1, 1, 1, 96)), 128)
    with pytest.raises(ValueError, match="expected \\[batch, heads, tokens, head dimension\\]"):
        blocked(np.zeros((1, 96)), 32)


def test_sizes():
    assert [line_elements(bit) for bit in (32, 16, 8, 4)] == [32, 64, 128, 256]
    assert relayout_byte(1, 3, 100, 64, 16) == 2 * 3 * 100 * 64 * 2


def test_column_conflicts_of_padded_rows():
    assert [column_conflict_ways(pitch) for pitch in (128, 132, 64, 256)] == [16, 1, 8, 16]
