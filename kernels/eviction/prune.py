"""Prune a prompt's KV cache: choose tokens by a policy, lay the kept ones out for decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from kernels.cache.contiguous import KvCache, copy_tokens
from kernels.cache.paged import PagedKvCache
from kernels.decoder.transformer import Prefilled
from kernels.eviction import token_scores as scores
from kernels.eviction.policies import (
    PAGE_TOKENS,
    POLICIES,
    SCORE_WEIGHTS,
    n_kept,
    select,
    select_pages,
    sinks_recent_scores,
    within,
)

LAYOUTS = ("compacted", "paged", "masked")
"""compacted: the kept tokens are copied together once. paged: whole pages of 64 tokens are kept and, in a paged cache,
read where they lie; in another cache they are copied together. masked: nothing moves and everything is read, the scores
of pruned tokens are set to -inf. In layers with a window all layouts keep the newest tokens first, and in the first two
the window counts the tokens that are cached."""

NewCache = Callable[[int], KvCache]
"""Makes an empty cache of a capacity."""


@torch.inference_mode()
def prune(
    prompt: Prefilled,
    alpha: float,
    policy: str,
    layout: str,
    new_cache: NewCache,
    room: int = 0,
    weights: Sequence[float] = SCORE_WEIGHTS,
) -> KvCache:
    """Copy the tokens that a policy keeps of a processed prompt into a cache of their own.

    Parameters
    ----------
    prompt : Prefilled
        The prompt; its cache is not changed.
    alpha : float
        Share of the tokens removed, 0 <= alpha < 1.
    policy, layout : str
        One of `kernels.eviction.policies.POLICIES`, one of `LAYOUTS`.
    new_cache : callable
        Makes the cache, whose format may be another one.
    room : int
        Free places for tokens to come.
    weights : sequence of float
        Of the composite score, see `kernels.eviction.token_scores.composite_scores`.
    """
    source = prompt.cache
    n_tokens = source.length
    keep = n_kept(n_tokens, alpha)
    if keep == n_tokens:
        target = new_cache(n_tokens + room)
        copy_tokens(source, target, None, n_tokens)
        return target
    choose, windows = chooser(layout), map(source.rule.window, range(source.n_layers))
    index = torch.stack([choose(scores_of(prompt, i, policy, weights), keep, window=w) for i, w in enumerate(windows)])
    target = new_cache(n_tokens + room)
    if layout == "compacted" or (layout == "paged" and not isinstance(target, PagedKvCache)):
        target = new_cache(index.shape[2] + room)
        copy_tokens(source, target, index, n_tokens)
        return target
    copy_tokens(source, target, None, n_tokens)
    if isinstance(target, PagedKvCache) and layout == "paged":
        target.read_only(listed_pages(index, n_tokens), n_tokens)
    else:
        mask = torch.full((*index.shape[:2], n_tokens + room), -torch.inf, device=index.device)
        mask[..., n_tokens:] = 0
        target.mask = mask.scatter_(-1, index, 0.0)[:, :, None]
    return target


class Chooser(Protocol):
    """Chooses tokens by their scores."""

    def __call__(self, scores: Tensor, keep: int, *, window: int | None) -> Tensor:
        """Return the tokens of [n_kv_heads, n_tokens] to keep, sorted; those in a window before others."""


def chooser(layout: str) -> Chooser:
    """Return the selection of tokens, or of whole pages, for a layout."""
    choose = select_pages if layout == "paged" else select

    def chosen(scores: Tensor, keep: int, *, window: int | None) -> Tensor:
        if window is None or window >= scores.shape[-1]:
            return choose(scores, keep)
        return choose(within(scores, window), keep, n_sinks=0)  # the first tokens are out of sight

    return chosen


def listed_pages(index: Tensor, n_tokens: int) -> Tensor:
    """Return the pages whose tokens are listed, but for the last page of the cache, [n_layers, n_kv_heads, n]."""
    last = (n_tokens - 1) // PAGE_TOKENS * PAGE_TOKENS
    n = index.shape[2] - (n_tokens - last)
    return index[..., :n:PAGE_TOKENS] // PAGE_TOKENS


def scores_of(prompt: Prefilled, layer: int, policy: str, weights: Sequence[float] = SCORE_WEIGHTS) -> Tensor:
    """Score the cached tokens of a layer of a processed prompt by a policy, [n_kv_heads, n_tokens]."""
    n_tokens = prompt.cache.length
    if policy == "sinks_recent":
        keys = prompt.cache.dequantised(layer, 1)[0]
        return sinks_recent_scores(n_tokens).to(keys.device).expand(len(keys), -1)
    k, v = prompt.cache.dequantised(layer, n_tokens)
    q, rule = prompt.queries[layer], prompt.cache.rule
    if policy == "key_norm":
        return scores.key_norm_scores(k)
    if policy == "attention_mass":
        return scores.attention_mass_scores(q, k, rule.window(layer), rule.soft_cap)
    if policy == "snapkv":
        return scores.snapkv_scores(q, k, window=rule.window(layer), soft_cap=rule.soft_cap)
    if policy == "expected_attention":
        sample = prompt.rotations[layer][n_tokens - q.shape[1] : n_tokens]
        future = prompt.rotations[layer][n_tokens : n_tokens + scores.FUTURE_TOKENS]
        return scores.expected_attention_scores(q, k, v, sample, future if len(future) else sample)
    if policy == "page_bounds":
        bounds = scores.PageBounds(len(k), n_tokens, k.shape[2], PAGE_TOKENS)
        bounds.append(k)
        return bounds.scores(q.reshape(len(k), -1, k.shape[2]))
    if policy == "rope_sensitivity":
        return scores.rope_sensitivity_scores(q, k, prompt.rotations[layer][1].angle())
    if policy == "composite":
        theta = prompt.rotations[layer][1].angle()
        return scores.composite_scores(q, k, theta, weights, rule.window(layer), rule.soft_cap)
    raise ValueError(f"policy: got {policy!r}, expected one of {', '.join(POLICIES)}")
