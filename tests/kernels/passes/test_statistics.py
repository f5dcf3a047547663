"""Sliding mean and variance equal those of the tokens in the window, whatever the blocks."""

import pytest
import torch

from kernels.passes.statistics import SlidingStatistics, root_mean_square


def test_moments_are_those_of_the_newest_blocks_that_fill_the_window():
    blocks = [torch.randn(n, 3) * 2 + torch.tensor([1e4, 0.0, -3.0]) for n in (5, 1, 8, 3, 4)]
    found = SlidingStatistics(10)
    for block in blocks:
        found.add(block)
    window = torch.cat(blocks[-3:]).double()  # 3 + 4 tokens alone do not fill it
    assert found.n_tokens == 15
    assert torch.allclose(found.mean, window.mean(0), rtol=1e-12)
    assert torch.allclose(found.variance, window.var(0), rtol=1e-9)


def test_what_has_left_the_window_counts_no_more():
    found = SlidingStatistics(4)
    found.add(torch.full((4, 2), 1e6))
    found.add(torch.tensor([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0], [2.0, 1.0]]))
    assert found.mean.tolist() == [1.0, 1.0]
    assert found.variance.tolist() == pytest.approx([4 / 3, 0.0])


def test_one_block_longer_than_the_window_stays_whole():
    found = SlidingStatistics(2)
    found.add(torch.arange(6.0)[:, None])
    assert (found.n_tokens, found.mean.item(), found.variance.item()) == (6, 2.5, pytest.approx(3.5))


def test_wrong_arguments_raise():
    with pytest.raises(ValueError, match="window_tokens: got 0"):
        SlidingStatistics(0)
    found = SlidingStatistics(2)
    with pytest.raises(ValueError, match="got no token"):
        _ = found.mean
    for x in (torch.zeros(0, 2), torch.zeros(3)):
        with pytest.raises(ValueError, match="x: got a tensor of shape"):
            found.add(x)
    found.add(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="variance: got 1 token"):
        _ = found.variance


def test_root_mean_square():
    assert root_mean_square(torch.tensor([3.0, 4.0])) == pytest.approx(12.5**0.5)
