import pytest
import torch

from core.articles.compression import bitmap_break_even_keep, bitmap_byte_ratio
from kernels.passes.activation import (
    QUANTILE_LIMIT,
    Packed,
    keep_largest,
    pack,
    prune,
    sampled_threshold,
    threshold,
    unpack,
)


def randn(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def test_golden_quantile():
    x = torch.arange(1.0, 21.0)
    assert threshold(x, 0.15) == pytest.approx(3.85)
    assert int((prune(x, threshold(x, 0.15)) != 0).sum()) == 17
    assert threshold(-x, 0.15) == pytest.approx(3.85)
    assert threshold(x, 0) == 1
    assert threshold(x, 1) == 20


def test_more_values_than_torch_quantile_takes(monkeypatch):
    x = randn(100_001)
    exact = {p: threshold(x, p) for p in (0.0, 0.15, 0.5, 0.999, 1.0)}
    monkeypatch.setattr("kernels.passes.activation.QUANTILE_LIMIT", 1000)
    for p, value in exact.items():
        assert threshold(x, p) == pytest.approx(value, rel=1e-5)


def test_torch_quantile_refuses_what_is_sampled_here():
    x = torch.full((QUANTILE_LIMIT + 8,), -2.0)
    with pytest.raises(RuntimeError, match="too large"):
        torch.quantile(x, 0.15)
    assert sampled_threshold(x, 0.15) == 2


def test_kept_share_of_a_sample_is_within_four_sigma():
    x = randn(1 << 20)
    for seed in range(5):
        at = sampled_threshold(x, 0.15, seed=seed)
        kept = float((prune(x, at) != 0).float().mean())
        assert kept == pytest.approx(0.85, abs=4 * (0.15 * 0.85 / (len(x) / 64)) ** 0.5)
    assert sampled_threshold(x, 0.15, sample_share=1.0) == threshold(x, 0.15)
    assert sampled_threshold(x[:500], 0.15) == threshold(x[:500], 0.15)  # too few to sample


def test_values_with_many_zeros_are_left_alone():
    x = torch.relu(randn(10_000))
    at = threshold(x, 0.15)
    assert at == 0
    assert torch.equal(prune(x, at), x)


def test_pruning_again_changes_nothing_and_works_in_place():
    x = randn(1000)
    once = prune(x, 0.3)
    assert torch.equal(prune(once, 0.3), once)
    assert torch.equal(torch.where(x.abs() > 0.3, x, 0), once)
    assert prune(x, 0.3, out=x) is x
    assert torch.equal(x, once)
    assert prune(torch.tensor([0.3, -0.3, 0.5]), 0.3).count_nonzero() == 1  # what equals the threshold goes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 1000])
def test_packing_is_exact(dtype, n):
    x = torch.where(torch.arange(n) % 3 == 0, 0, (10 * randn(n)).round()).to(dtype).view(1, n)
    packed = pack(x)
    assert torch.equal(unpack(packed), x)
    assert packed.byte == -(-n // 8) + int((x != 0).sum()) * dtype.itemsize


@pytest.mark.parametrize(("dtype", "bits"), [(torch.int8, 8), (torch.float16, 16)])
def test_packing_breaks_even_where_the_formula_says(dtype, bits):
    n = 8000
    for keep in (0.5, bitmap_break_even_keep(bits), 0.99):
        x = torch.zeros(n, dtype=dtype)
        x[: round(keep * n)] = 1
        ratio = pack(x).byte / x.nbytes
        assert ratio == pytest.approx(float(bitmap_byte_ratio(keep, bits)), abs=1e-3)
        assert (ratio <= 1) == (keep <= bitmap_break_even_keep(bits))


def test_empty_and_wrong_arguments():
    assert unpack(pack(torch.zeros(3, 5))).shape == (3, 5)
    assert isinstance(pack(torch.ones(2)), Packed)
    with pytest.raises(ValueError, match="x: got no values"):
        threshold(torch.zeros(0), 0.1)
    with pytest.raises(ValueError, match="pruned_share: got"):
        threshold(torch.ones(3), 1.5)
    with pytest.raises(ValueError, match="at: got -1"):
        prune(torch.ones(3), -1)
    with pytest.raises(ValueError, match="sample_share: got 0"):
        sampled_threshold(torch.ones(3), 0.5, 0)


def test_the_largest_of_each_row_are_kept():
    x = torch.arange(1.0, 21.0).repeat(3, 1) * torch.tensor([[1.0], [-1.0], [0.01]])
    kept = keep_largest(x.clone(), 0.85)
    assert (kept != 0).sum(1).tolist() == [17, 17, 17]
    assert torch.equal(kept[:, 3:], x[:, 3:])
    assert torch.equal(keep_largest(x.clone(), 1.0), x)
    assert (keep_largest(randn(1000).view(2, 500), 0.001) != 0).sum(1).tolist() == [1, 1]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_a_share_that_keeps_nothing_is_refused(share):
    with pytest.raises(ValueError, match="kept_share: got"):
        keep_largest(torch.ones(1, 4), share)
