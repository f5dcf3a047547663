"""Statistics of activations over a sliding window: mean and variance of each channel."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor


class _Block(NamedTuple):
    n: int
    mean: Tensor
    squares: Tensor  # sum of squares about the mean


class SlidingStatistics:
    """Mean and variance of each channel over the newest tokens.

    Tokens come in blocks; a block leaves the window whole, once the blocks after it fill the window. Moments of blocks
    are merged exactly [1]_, in float64, so that a large mean costs no digits.

    Parameters
    ----------
    window_tokens : int
        Tokens that the window holds at least, once so many came; > 0.

    References
    ----------
    .. [1] chan1983, docs/references.md
    """

    def __init__(self, window_tokens: int) -> None:
        if window_tokens < 1:
            raise ValueError(f"window_tokens: got {window_tokens}, expected at least 1")
        self._window_tokens = window_tokens
        self._blocks: deque[_Block] = deque()

    def add(self, x: Tensor) -> None:
        """Add a block of activations [n, n_channels]; the oldest blocks leave."""
        if x.ndim != 2 or not len(x):
            raise ValueError(f"x: got a tensor of shape {tuple(x.shape)}, expected [tokens, channels]")
        exact = x.double()
        mean = exact.mean(0)
        self._blocks.append(_Block(len(x), mean, (exact - mean).square().sum(0)))
        while self.n_tokens - self._blocks[0].n >= self._window_tokens:
            self._blocks.popleft()

    @property
    def n_tokens(self) -> int:
        """Tokens in the window."""
        return sum(block.n for block in self._blocks)

    @property
    def mean(self) -> Tensor:
        """Mean of each channel, fp64 [n_channels]."""
        return self._merged().mean

    @property
    def variance(self) -> Tensor:
        """Variance of each channel, fp64 [n_channels]; of at least two tokens."""
        found = self._merged()
        if found.n < 2:
            raise ValueError(f"variance: got {found.n} token, expected at least 2")
        return found.squares / (found.n - 1)

    def _merged(self) -> _Block:
        if not self._blocks:
            raise ValueError("statistics: got no token, expected at least one")
        total = self._blocks[0]
        for block in list(self._blocks)[1:]:
            n, delta = total.n + block.n, block.mean - total.mean
            squares = total.squares + block.squares + delta.square() * (total.n * block.n / n)
            total = _Block(n, total.mean + delta * (block.n / n), squares)
        return total


def root_mean_square(x: Tensor) -> float:
    """Return the root of the mean square of all values."""
    return float(torch.linalg.vector_norm(x.double()) / x.numel() ** 0.5)
