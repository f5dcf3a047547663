"""Scores of cached tokens: which ones the queries to come will need. Higher is kept.

Keys are cached with their rotary positions in them, queries come scaled by head_dim**-0.5 and rotated. Query heads
that share a KV head are summed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.attention.window import causal_scores

POOL_TOKENS = 7
"""SnapKV pools the votes over so many neighbouring tokens (arXiv 2404.14469 uses 5 to 13)."""
FUTURE_TOKENS = 512
"""Expected attention averages over so many positions to come (arXiv 2510.00636)."""


def probabilities(q: Tensor, k: Tensor, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    """Return the softmax of `kernels.attention.window.causal_scores`: [n_kv_heads, n_groups, n_queries, n_tokens],
    each row of which sums to 1.
    """
    return torch.softmax(causal_scores(q, k, window, soft_cap), -1)


def key_norm_scores(k: Tensor) -> Tensor:
    """Score keys [n_kv_heads, n_tokens, head_dim] by their negative norm: keys of low norm attract attention (arXiv
    2406.11430).
    """
    norm: Tensor = torch.linalg.vector_norm(k, dim=-1)
    return -norm


def attention_mass_scores(q: Tensor, k: Tensor, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    """Score keys by the attention they receive from the last queries of the prompt: the column sum of
    `probabilities`.

    Returns
    -------
    Tensor
        [n_kv_heads, n_tokens]; sums to n_groups * n_queries over the tokens.
    """
    return probabilities(q, k, window, soft_cap).sum((1, 2))


def snapkv_scores(
    q: Tensor, k: Tensor, pool_tokens: int = POOL_TOKENS, window: int | None = None, soft_cap: float | None = None
) -> Tensor:
    """Score keys as SnapKV does: the attention mass of an observation window, pooled over neighbours so that what
    surrounds a needed token stays with it; the window itself scores highest (arXiv 2404.14469).

    Parameters
    ----------
    q, k, window, soft_cap
        As in `probabilities`; the queries are the observation window.
    pool_tokens : int
        Odd, >= 1.

    Returns
    -------
    Tensor
        [n_kv_heads, n_tokens].
    """
    if pool_tokens < 1 or pool_tokens % 2 == 0:
        raise ValueError(f"pool_tokens: got {pool_tokens}, expected an odd number, 1 or more")
    n_queries = q.shape[1]
    mass = attention_mass_scores(q, k, window, soft_cap)
    before = mass[:, : k.shape[1] - n_queries]
    if before.shape[1]:
        pooled = F.avg_pool1d(before[:, None], pool_tokens, 1, pool_tokens // 2, count_include_pad=False)[:, 0]
        mass[:, : before.shape[1]] = pooled
    mass[:, before.shape[1] :] = mass.max() + 1
    return mass


def expected_attention_scores(
    q: Tensor, k: Tensor, v: Tensor, rotation: Tensor, future: Tensor, n_sinks: int = 4
) -> Tensor:
    """Score keys by the attention that queries to come are expected to give them, times the norm of their value.

    Unrotated queries are taken as Gaussian (mean m, covariance C, from a sample), a query to come as rotated by the
    mean rotation R of the positions to come: ``E exp(q . k) = exp(R m . k + k' R C R' k / 2)``, normalised over the
    keys (arXiv 2510.00636).

    Parameters
    ----------
    q : Tensor
        [n_heads, n_queries, head_dim], scaled and rotated: the sample, n_queries >= 2.
    k, v : Tensor
        [n_kv_heads, n_tokens, head_dim].
    rotation : Tensor
        [n_queries, head_dim / 2] complex: by what the sample was rotated.
    future : Tensor
        [n, head_dim / 2] complex: the rotations of the positions to come.
    n_sinks : int
        First tokens, which attract whatever comes, and score highest.

    Returns
    -------
    Tensor
        [n_kv_heads, n_tokens].
    """
    if q.shape[1] < 2:
        raise ValueError(f"q: got {q.shape[1]} queries, expected at least 2")
    n_kv_heads, n_tokens, head_dim = k.shape
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:2], -1, 2).contiguous())
    unrotated = pairs * rotation.conj()
    coming = torch.view_as_real(unrotated * future.mean(0)).flatten(-2)
    mean = coming.mean(1)
    deviation = (coming - mean[:, None]) * (q.shape[1] - 1) ** -0.5
    folded = mean.view(n_kv_heads, -1, head_dim)
    scores = torch.bmm(folded, k.transpose(1, 2))
    # k' C k is the squared length of the deviations' products with k
    spread = torch.bmm(deviation.reshape(n_kv_heads, -1, head_dim), k.transpose(1, 2)).square_()
    scores += 0.5 * spread.view(n_kv_heads, folded.shape[1], -1, n_tokens).sum(2)
    expected: Tensor = torch.softmax(scores, -1).mean(1) * torch.linalg.vector_norm(v, dim=-1)
    expected[:, :n_sinks] = expected.max() + 1
    return expected


def rope_sensitivity_scores(q: Tensor, k: Tensor, theta: Tensor) -> Tensor:
    """Score keys by how fast their score can change with the distance to a query, ``sum_j theta_j |q_j| |k_j|``.

    It bounds the derivative of ``q . R(D) k`` at any distance D; |q_j| is the mean over the sample, since rotation
    leaves magnitudes as they are.

    Parameters
    ----------
    q : Tensor
        [n_heads, n_queries, head_dim], scaled; neighbouring values are the pairs that are rotated.
    k : Tensor
        [n_kv_heads, n_tokens, head_dim].
    theta : Tensor
        [head_dim / 2] angle per position of each pair.

    Returns
    -------
    Tensor
        [n_kv_heads, n_tokens].
    """
    magnitude = pair_magnitudes(q).mean(1).view(k.shape[0], -1, k.shape[2] // 2).sum(1)
    weighted: Tensor = (pair_magnitudes(k) * (magnitude * theta)[:, None]).sum(-1)
    return weighted


def ranks(x: Tensor) -> Tensor:
    """Return ranks from 0 to 1 along the last dimension, fp32; equal values share the mean of theirs."""
    n = x.shape[-1]
    if n == 1:
        return torch.ones_like(x, dtype=torch.float32)
    ordered = x.contiguous().sort(-1).values
    first, after = (torch.searchsorted(ordered, x.contiguous(), right=right) for right in (False, True))
    return (first + after - 1).float() / (2 * (n - 1))


def composite_scores(
    q: Tensor,
    k: Tensor,
    theta: Tensor,
    weights: Sequence[float],
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Score keys by a weighted sum of ranks: attention mass, small key norm, recency, sensitivity to position.

    Parameters
    ----------
    q, k, window, soft_cap
        As in `probabilities`.
    theta : Tensor
        As in `rope_sensitivity_scores`.
    weights : sequence of float
        Of the four signs, each from 0 to 1, summing to 1. A sign of weight 0 is not computed.

    Returns
    -------
    Tensor
        [n_kv_heads, n_tokens], 0 to 1.
    """
    mass, norm, recency, phase = weights
    total = torch.zeros(k.shape[:2], device=k.device)
    if mass:
        total += mass * ranks(attention_mass_scores(q, k, window, soft_cap))
    if norm:
        total += norm * ranks(key_norm_scores(k))
    if recency:
        total += recency * ranks(torch.arange(k.shape[1], device=k.device, dtype=torch.float32))
    if phase:
        total += phase * ranks(rope_sensitivity_scores(q, k, theta))
    return total


def pair_magnitudes(x: Tensor) -> Tensor:
    """Return the lengths of the pairs that a rotary embedding turns, [..., d] -> [..., d / 2]."""
    length: Tensor = torch.linalg.vector_norm(x.float().reshape(*x.shape[:-1], -1, 2), dim=-1)
    return length


class KeyNorms:
    """`key_norm_scores` of a growing cache: each key's norm is taken once, when it is inserted.

    Parameters
    ----------
    n_kv_heads, capacity : int
        Sizes.
    device : str or torch.device
        Where it lies.
    """

    def __init__(self, n_kv_heads: int, capacity: int, device: str | torch.device = "cpu") -> None:
        self.n_tokens = 0
        self._norm = torch.zeros(n_kv_heads, capacity, device=device)

    def append(self, k: Tensor) -> None:
        """Take in the keys [n_kv_heads, n, head_dim] of the next tokens."""
        end = self.n_tokens + k.shape[1]
        torch.linalg.vector_norm(k, dim=-1, out=self._norm[:, self.n_tokens : end])
        self.n_tokens = end

    def scores(self, q: Tensor) -> Tensor:
        """Return the scores [n_kv_heads, n_tokens]; the queries do not matter."""
        return -self._norm[:, : self.n_tokens]


class RopeSensitivity:
    """`rope_sensitivity_scores` of a growing cache: one number a token, made when it is inserted from the queries' mean
    magnitudes so far.

    Parameters
    ----------
    n_kv_heads, capacity : int
        Sizes.
    theta : Tensor
        [head_dim / 2] angle per position of each pair.
    magnitude : Tensor
        [n_kv_heads, head_dim / 2] mean magnitudes of the pairs of the queries, summed over the heads of a group.
    """

    def __init__(self, n_kv_heads: int, capacity: int, theta: Tensor, magnitude: Tensor) -> None:
        self.n_tokens = 0
        self._weight = (magnitude * theta)[:, None]
        self._scores = torch.zeros(n_kv_heads, capacity, device=theta.device)

    def append(self, k: Tensor) -> None:
        """Take in the keys [n_kv_heads, n, head_dim] of the next tokens."""
        end = self.n_tokens + k.shape[1]
        self._scores[:, self.n_tokens : end] = (pair_magnitudes(k) * self._weight).sum(-1)
        self.n_tokens = end

    def scores(self, q: Tensor) -> Tensor:
        """Return the scores [n_kv_heads, n_tokens]; later queries do not change them."""
        return self._scores[:, : self.n_tokens]


class PageBounds:
    """The smallest and the largest key of each page, channel by channel, from which the largest possible score of its
    tokens follows (as in Quest, arXiv 2406.10774). Appending tokens touches only the pages they fall into.

    Parameters
    ----------
    n_kv_heads, capacity, head_dim, page_tokens : int
        Sizes; `capacity` in tokens.
    device : str or torch.device
        Where they lie.
    """

    def __init__(
        self, n_kv_heads: int, capacity: int, head_dim: int, page_tokens: int, device: str | torch.device = "cpu"
    ) -> None:
        n_pages = -(-capacity // page_tokens)
        self.page_tokens = page_tokens
        self.n_tokens = 0
        self._low = torch.full((n_kv_heads, n_pages, head_dim), torch.inf, device=device)
        self._high = torch.full((n_kv_heads, n_pages, head_dim), -torch.inf, device=device)

    def append(self, k: Tensor) -> None:
        """Take in the keys [n_kv_heads, n, head_dim] of the next tokens."""
        start, end = self.n_tokens, self.n_tokens + k.shape[1]
        for page in range(start // self.page_tokens, -(-end // self.page_tokens)):
            first = page * self.page_tokens
            part = k[:, max(first - start, 0) : first + self.page_tokens - start]
            torch.minimum(self._low[:, page], part.amin(1), out=self._low[:, page])
            torch.maximum(self._high[:, page], part.amax(1), out=self._high[:, page])
        self.n_tokens = end

    def scores(self, q: Tensor) -> Tensor:
        """Bound the scores of each token from above by its page's ``sum_d max(q_d low_d, q_d high_d)``.

        Parameters
        ----------
        q : Tensor
            [n_kv_heads, n_rows, head_dim], scaled.

        Returns
        -------
        Tensor
            [n_kv_heads, n_tokens], the largest over the rows; equal within a page.
        """
        return self.page_scores(q).repeat_interleave(self.page_tokens, -1)[:, : self.n_tokens]

    def page_scores(self, q: Tensor) -> Tensor:
        """Return the bounds page by page, [n_kv_heads, n_pages]."""
        n_pages = -(-self.n_tokens // self.page_tokens)
        low, high = (x[:, :n_pages].transpose(1, 2) for x in (self._low, self._high))
        bound: Tensor = (torch.bmm(q.clamp(min=0), high) + torch.bmm(q.clamp(max=0), low)).amax(1)
        return bound
