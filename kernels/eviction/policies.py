"""KV retention policies: the cached tokens that pruning keeps.

A policy scores every token per layer and KV head; the highest scores are kept, the first tokens (attention sinks) and
a recent window always among them, as far as the budget reaches. alpha is the share removed.
"""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor

POLICIES = (
    "sinks_recent",
    "key_norm",
    "attention_mass",
    "snapkv",
    "expected_attention",
    "page_bounds",
    "rope_sensitivity",
    "composite",
)
"""How `kernels.eviction.prune` scores tokens: see `kernels.eviction.token_scores`."""
SCORE_WEIGHTS = (0.5, 0.25, 0.25, 0.0)
"""Usual weights of the composite score: attention mass, small key norm, recency, sensitivity to position."""
N_SINKS = 4
RECENT_SHARE = 0.25
"""Share of the budget that the most recent tokens take under the scoring policies."""
PAGE_TOKENS = 64
"""Tokens of a page of a cache, as in kernels/native/kv_pages.h."""


def score_weights(text: str) -> tuple[float, ...]:
    """Return the weights of the composite score in a text such as "0.4/0.3/0.2/0.1"; ValueError in one sentence."""
    parts = [part for part in re.split(r"[\s,/]+", text) if part]
    try:
        found = tuple(map(float, parts))
    except ValueError:
        found = ()
    if len(found) != len(SCORE_WEIGHTS) or not all(0 <= w <= 1 for w in found) or abs(math.fsum(found) - 1) > 1e-4:
        raise ValueError(
            f"score_weights: got {text!r:.60}, expected four shares of 0 to 1 that sum to 1, such as 0.4/0.3/0.2/0.1"
        )
    return tuple(weight / math.fsum(found) for weight in found)


def n_kept(n_tokens: int, alpha: float) -> int:
    """Count the tokens that remain: ``max(1, ceil(S - alpha S - 1e-9))``.

    Parameters
    ----------
    n_tokens : int
        S >= 1.
    alpha : float
        Share removed, 0 <= alpha < 1.
    """
    if n_tokens < 1:
        raise ValueError(f"n_tokens: got {n_tokens}, expected at least 1")
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha: got {alpha}, expected 0 <= alpha < 1")
    return max(1, math.ceil(n_tokens - alpha * n_tokens - 1e-9))


def sinks_recent_scores(n_tokens: int) -> Tensor:
    """Score tokens by recency, [n_tokens]; the sinks are forced by `select`."""
    return torch.arange(n_tokens, dtype=torch.float32)


def select(scores: Tensor, keep: int, recent_share: float = RECENT_SHARE, n_sinks: int = N_SINKS) -> Tensor:
    """Choose the tokens to keep.

    Parameters
    ----------
    scores : Tensor
        [..., n_tokens], higher is kept.
    keep : int
        1..n_tokens.
    recent_share : float
        Share of `keep` given to the most recent tokens whatever their score.
    n_sinks : int
        The first tokens kept whatever their score, as far as `keep` reaches.

    Returns
    -------
    Tensor
        [..., keep] int64, sorted, unique.
    """
    n_tokens = scores.shape[-1]
    if not 1 <= keep <= n_tokens:
        raise ValueError(f"keep: got {keep}, expected 1..{n_tokens}")
    n_recent = max(1, round(recent_share * keep))
    n_sinks = min(n_sinks, keep - n_recent)
    forced = scores.clone()
    forced[..., :n_sinks] = torch.inf
    forced[..., n_tokens - n_recent :] = torch.inf
    return forced.topk(keep, dim=-1, sorted=False).indices.sort(-1).values


def within(scores: Tensor, window: int) -> Tensor:
    """Return scores [..., n_tokens] by which tokens before the last `window` ones come behind all others, newest first.

    In a layer with a window they are not attended to, but it keeps as many tokens as the other layers do.
    """
    n_before = scores.shape[-1] - window
    if n_before <= 0:
        return scores
    seen = scores[..., n_before:]
    return torch.cat([seen.amin(-1, keepdim=True) - torch.arange(n_before, 0, -1, device=scores.device), seen], -1)


def select_pages(scores: Tensor, keep: int, recent_share: float = RECENT_SHARE, n_sinks: int = N_SINKS) -> Tensor:
    """Choose whole pages of `PAGE_TOKENS` tokens by their mean score, as many as `keep` tokens need, rounded up.

    The last page may be partly filled; it is always kept, and so is the first where there are sinks. Returns token
    indices [..., n], sorted.
    """
    n_tokens = scores.shape[-1]
    if not 1 <= keep <= n_tokens:
        raise ValueError(f"keep: got {keep}, expected 1..{n_tokens}")
    n_pages = -(-n_tokens // PAGE_TOKENS)
    last = n_tokens - (n_pages - 1) * PAGE_TOKENS  # tokens in the last page
    n_full = max(0, -(-(keep - last) // PAGE_TOKENS))
    tokens = torch.arange(n_tokens, device=scores.device)
    tail = tokens[n_tokens - last :].expand(*scores.shape[:-1], last)
    if n_full == 0:
        return tail
    page_scores = scores[..., : n_tokens - last].reshape(*scores.shape[:-1], n_pages - 1, PAGE_TOKENS).mean(-1)
    pages = select(page_scores, n_full, recent_share, min(n_sinks, 1))
    full = (pages[..., None] * PAGE_TOKENS + torch.arange(PAGE_TOKENS, device=scores.device)).flatten(-2)
    return torch.cat([full, tail], -1)
