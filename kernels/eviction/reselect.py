"""Pruning that goes on while decoding: which cached tokens are read is chosen again every so many tokens.

Choosing costs time at once and saves it over the following tokens: `Reselection.per_token_s` is what it adds to each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from kernels.cache.contiguous import KvCache, copy_tokens
from kernels.cache.paged import PagedKvCache
from kernels.decoder.transformer import Prefilled
from kernels.eviction.policies import PAGE_TOKENS, SCORE_WEIGHTS, n_kept
from kernels.eviction.prune import NewCache, chooser, listed_pages, scores_of
from kernels.eviction.token_scores import (
    KeyNorms,
    PageBounds,
    RopeSensitivity,
    pair_magnitudes,
)


class _Inserted(Protocol):
    """Scores made when tokens are inserted, so that choosing reads no keys."""

    n_tokens: int

    def append(self, k: Tensor) -> None: ...

    def scores(self, q: Tensor) -> Tensor: ...


@dataclass
class Reselection:
    """How long each choice took, and how often one is made."""

    every: int
    durations_s: list[float] = field(default_factory=list)

    def due(self, n_since: int) -> bool:
        """Whether so many tokens after the last choice another one is made."""
        return n_since >= self.every

    @property
    def per_token_s(self) -> float:
        """Median duration of a choice, spread over the tokens that it serves; 0 before the first."""
        return statistics.median(self.durations_s) / self.every if self.durations_s else 0.0


class ReselectingCache:
    """A cache that holds all tokens and reads those that a policy chose last, and all tokens since.

    With the compacted layout the chosen ones are copied together; paged ones are read where they lie (where the cache
    is a paged one). Key norms, page bounds and position sensitivity are kept per token from its insertion; the other
    policies read all keys at each choice, with as many last queries as `prompt` has.

    Parameters
    ----------
    prompt : Prefilled
        The processed prompt; not changed.
    alpha : float
        Share of the tokens not read, 0 <= alpha < 1.
    policy : str
        One of `kernels.eviction.policies.POLICIES`.
    layout : str
        "compacted" or "paged".
    new_cache : callable
        Makes an empty cache of a capacity.
    every : int
        Tokens between two choices, >= 1.
    room : int
        Tokens to come.
    weights : sequence of float
        Of the composite score.
    """

    def __init__(
        self,
        prompt: Prefilled,
        alpha: float,
        policy: str,
        layout: str,
        new_cache: NewCache,
        every: int,
        room: int,
        weights: Sequence[float] = SCORE_WEIGHTS,
    ) -> None:
        if layout not in ("compacted", "paged"):
            raise ValueError(f"layout: got {layout!r}, expected compacted or paged when tokens are chosen again")
        if every < 1:
            raise ValueError(f"every: got {every}, expected at least 1")
        n_tokens = prompt.cache.length
        self._alpha, self._policy, self._weights, self._new_cache = alpha, policy, weights, new_cache
        self._full = new_cache(n_tokens + room)
        copy_tokens(prompt.cache, self._full, None, n_tokens)
        self.kv_format, self.n_layers, self.rule = self._full.kv_format, self._full.n_layers, self._full.rule
        self._in_place = layout == "paged" and isinstance(self._full, PagedKvCache)
        self._choose = chooser(layout)
        self._queries = prompt.queries.clone()  # of the last tokens, a ring
        self._view = replace(prompt, cache=self._full, queries=self._queries)
        self._n_kv_heads = len(self._full.dequantised(0, 1)[0])
        self._n_queries = 0  # place of the next one in the ring
        self._inserted = self._scores_at_insertion(n_tokens + room)
        self.reselection = Reselection(every)
        self.mask: Tensor | None = None
        self._read: KvCache = self._full
        self._n_since = 0
        self.choose()

    def _scores_at_insertion(self, capacity: int) -> list[_Inserted]:
        found = []
        for layer in range(self.n_layers):
            scores = self._empty_scores(layer, capacity)
            if scores is not None:
                scores.append(self._full.dequantised(layer, self._full.length)[0])
                found.append(scores)
        return found

    def _empty_scores(self, layer: int, capacity: int) -> _Inserted | None:
        n_kv_heads, head_dim = self._n_kv_heads, self._queries.shape[3]
        if self._policy == "key_norm":
            return KeyNorms(n_kv_heads, capacity)
        if self._policy == "page_bounds":
            return PageBounds(n_kv_heads, capacity, head_dim, PAGE_TOKENS)
        if self._policy == "rope_sensitivity":
            magnitude = pair_magnitudes(self._queries[layer]).mean(1).view(n_kv_heads, -1, head_dim // 2).sum(1)
            return RopeSensitivity(n_kv_heads, capacity, self._view.rotations[layer][1].angle(), magnitude)
        return None

    @property
    def length(self) -> int:
        """Tokens cached, read or not."""
        return self._full.length

    @length.setter
    def length(self, n_tokens: int) -> None:
        added = n_tokens - self._full.length
        self._full.length = n_tokens
        if self._read is not self._full:
            self._read.length += added
        if added > 0:
            self._n_since += added
            if self.reselection.due(self._n_since):
                self.choose()

    @torch.inference_mode()
    def choose(self) -> None:
        """Choose now which tokens are read, and note how long that took."""
        start_s = time.perf_counter()
        n_tokens = self._full.length
        keep = n_kept(n_tokens, self._alpha)
        self._queries.copy_(self._queries.roll(-self._n_queries, 2))  # oldest first
        self._n_queries = 0
        if isinstance(self._full, PagedKvCache):
            self._full.read_all()  # the scores are of all tokens, not of those chosen last
        windows = map(self.rule.window, range(self.n_layers))
        index = torch.stack([self._choose(self._scores(i), keep, window=w) for i, w in enumerate(windows)])
        if isinstance(self._full, PagedKvCache) and self._in_place:
            self._full.read_only(listed_pages(index, n_tokens), n_tokens)
        else:
            self._read = self._new_cache(index.shape[2] + self.reselection.every + 1)
            copy_tokens(self._full, self._read, index, n_tokens)
        self._n_since = 0
        self.reselection.durations_s.append(time.perf_counter() - start_s)

    def _scores(self, layer: int) -> Tensor:
        if not self._inserted:
            return scores_of(self._view, layer, self._policy, self._weights)
        queries = self._queries[layer].reshape(self._n_kv_heads, -1, self._queries.shape[3])
        return self._inserted[layer].scores(queries)

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        self._full.write(layer, kv)
        if self._read is not self._full:
            self._read.write(layer, kv)
        if self._inserted:
            scores = self._inserted[layer]
            scores.n_tokens = self._full.length  # a token that is written again replaces itself
            scores.append(kv[0, 0])

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] over the chosen of the first `n_keys` tokens."""
        if layer == 0:
            self._n_queries = (self._n_queries + 1) % self._queries.shape[2]
        self._queries[layer][:, self._n_queries - 1] = q.reshape(-1, q.shape[3])
        return self._read.attend(layer, q, self._n_read(n_keys))

    def _n_read(self, n_keys: int) -> int:
        return n_keys + self._read.length - self._full.length

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the chosen keys and values of the first `n_keys`, fp32 [n_kv_heads, n, head_dim]."""
        return self._read.dequantised(layer, self._n_read(n_keys))

    def dequantised_at(self, layer: int, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the tokens index [n_kv_heads, n] of a layer as fp32 [n_kv_heads, n, head_dim]."""
        return self._full.dequantised_at(layer, index)

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers, scales included."""
        return self._full.byte_per_token()

    def tokens_read(self, n_keys: int) -> float:
        """Count the tokens that attention over the first `n_keys` reads in a KV head, mean over the layers."""
        return self._read.tokens_read(self._n_read(n_keys))


def reselection_cost(
    prompt: Prefilled,
    alpha: float,
    policy: str,
    layout: str,
    new_cache: NewCache,
    every: int,
    weights: Sequence[float] = SCORE_WEIGHTS,
    repeats: int = 3,
) -> Reselection:
    """Time one token re-selection at the length of a prompt; parameters as of `ReselectingCache`."""
    cache = ReselectingCache(prompt, alpha, policy, layout, new_cache, every, room=1, weights=weights)
    for _ in range(repeats - 1):
        cache.choose()
    return cache.reselection
