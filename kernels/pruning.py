"""Prune a prompt's KV cache: choose tokens by a policy, lay the kept ones out for decoding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kernels.cache import KvCache, copy_tokens
from kernels.policies import attention_mass_scores, key_norm_scores, n_kept, select, select_pages, sinks_recent_scores
from kernels.transformer import Prefilled

LAYOUTS = ("compacted", "paged", "masked")
"""compacted: the kept tokens are copied together once. paged: whole pages of 64 tokens are kept, so that nothing is
copied in a paged cache. masked: nothing moves and everything is read, the scores of pruned tokens are set to -inf."""

NewCache = Callable[[int], KvCache]
"""Makes an empty cache of a capacity."""


@torch.inference_mode()
def prune(prompt: Prefilled, alpha: float, policy: str, layout: str, new_cache: NewCache, room: int = 0) -> KvCache:
    """Copy the tokens that a policy keeps of a processed prompt into a cache of their own.

    Parameters
    ----------
    prompt : Prefilled
        The prompt; its cache is not changed.
    alpha : float
        Share of the tokens removed, 0 <= alpha < 1.
    policy, layout : str
        One of `kernels.policies.POLICIES`, one of `LAYOUTS`.
    new_cache : callable
        Makes the cache, whose format may be another one.
    room : int
        Free places for tokens to come.
    """
    source = prompt.cache
    n_tokens = source.length
    keep = n_kept(n_tokens, alpha)
    if keep == n_tokens:
        target = new_cache(n_tokens + room)
        copy_tokens(source, target, None, n_tokens)
        return target
    choose = select_pages if layout == "paged" else select
    index = torch.stack([choose(_scores(prompt, layer, policy), keep) for layer in range(source.n_layers)])
    if layout != "masked":
        target = new_cache(index.shape[2] + room)
        copy_tokens(source, target, index, n_tokens)
        return target
    target = new_cache(n_tokens + room)
    copy_tokens(source, target, None, n_tokens)
    mask = torch.full((*index.shape[:2], n_tokens + room), -torch.inf)
    mask[..., n_tokens:] = 0
    target.mask = mask.scatter_(-1, index, 0.0)[:, :, None]
    return target


def _scores(prompt: Prefilled, layer: int, policy: str) -> Tensor:
    """Score the cached tokens of a layer, [n_kv_heads, n_tokens]."""
    n_tokens = prompt.cache.length
    k, _ = prompt.cache.dequantised(layer, n_tokens)
    if policy == "sinks_recent":
        return sinks_recent_scores(n_tokens).expand(len(k), -1)
    if policy == "key_norm":
        return key_norm_scores(k)
    if policy == "attention_mass":
        return attention_mass_scores(prompt.queries[layer], k)
    raise ValueError(f"policy: got {policy!r}, expected sinks_recent, key_norm or attention_mass")
