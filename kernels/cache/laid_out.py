"""A KV cache in a float type in a layout that the point names, to compare layouts; decoded operator by operator."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from kernels.attention.window import PLAIN, AttentionRule
from kernels.cache.blocked_layout import block_elements
from kernels.cache.contiguous import FloatKvCache, KvCache, copy_tokens
from kernels.native.library import FLOAT_TYPES

LAYOUTS = ("head_major", "token_major", "blocked")
"""head_major: [head, token, value]. token_major: [token, head, value]. blocked: [head, block, token, value in block]
with blocks of a memory line of 128 bytes."""

FORMATS = tuple(FLOAT_TYPES)
"""Formats without scales, whose values can lie in any order."""


class LaidOutKvCache(FloatKvCache):
    """A cache in one of `LAYOUTS`; the other parameters as of `FloatKvCache`."""

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        kv_format: str,
        layout: str,
        device: str | torch.device = "cpu",
        rule: AttentionRule = PLAIN,
    ) -> None:
        if layout not in LAYOUTS:
            raise ValueError(f"kv_layout: got {layout!r}, expected one of {', '.join(LAYOUTS)}")
        if kv_format not in FORMATS:
            raise ValueError(f"kv: got {kv_format!r} in layout {layout}, expected one of {', '.join(FORMATS)}")
        self.layout = layout
        block = block_elements(FLOAT_TYPES[kv_format])
        self._block = min(block, head_dim) if layout == "blocked" else head_dim
        if head_dim % self._block:
            raise ValueError(f"kv_layout: got {layout!r}, expected a head dimension of whole lines, not {head_dim}")
        super().__init__(n_layers, n_kv_heads, capacity, head_dim, kv_format, device, rule)

    def _allocate(self, n_kv_heads: int, head_dim: int, device: torch.device) -> None:
        super()._allocate(n_kv_heads, head_dim, device)
        dtype, n_blocks = FLOAT_TYPES[self.kv_format], head_dim // self._block
        for layer in range(self.n_layers):
            if self.layout == "token_major":
                held = torch.zeros(2, 1, self.capacity, n_kv_heads, head_dim, dtype=dtype, device=device)
                self._kv[layer] = held.transpose(2, 3)
            elif self.layout == "blocked":
                held = torch.zeros(2, 1, n_kv_heads, n_blocks, self.capacity, self._block, dtype=dtype, device=device)
                self._kv[layer] = held.transpose(3, 4)

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        if self.layout == "blocked":
            kv = kv.reshape(*kv.shape[:4], -1, self._block)
        super().write(layer, kv)

    def _part(self, layer: int, first: int, n_keys: int) -> tuple[Tensor, Tensor]:
        k, v = self._kv[layer][:, 0, :, first:n_keys].to(self._compute_dtype)
        return (k.flatten(2), v.flatten(2)) if self.layout == "blocked" else (k, v)

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] fp32 over the first `n_keys` tokens of a layer."""
        if self.layout != "blocked" or self.rule.soft_cap is not None:
            return super().attend(layer, q, n_keys)
        first = self.rule.first_key(layer, n_keys)
        k, v = self._kv[layer][:, 0, :, first:n_keys].transpose(2, 3).to(self._compute_dtype)
        # [head, block, group, value]
        by_block = q[0].reshape(*q.shape[1:3], -1, self._block).transpose(1, 2).to(k.dtype)
        scores = (by_block @ k.transpose(2, 3)).float().sum(1)
        if self.mask is not None:
            scores += self.mask[layer, :, :, first:n_keys]
        probabilities = torch.softmax(scores, -1).to(v.dtype)
        attended: Tensor = probabilities[:, None] @ v
        return attended.transpose(1, 2).flatten(2)[None].contiguous()

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers."""
        return sum(kv[:, :, :, 0].numel() * kv.element_size() for kv in self._kv)


def moved_s(source: KvCache, new_cache: Callable[[int], KvCache], repeats: int = 5) -> list[float]:
    """Return the times of moving all tokens of a cache into an empty one that `new_cache` makes [s]."""
    durations_s = []
    for _ in range(repeats):
        target = new_cache(source.length)
        start_s = time.perf_counter()
        copy_tokens(source, target, None, source.length)
        durations_s.append(time.perf_counter() - start_s)
    return durations_s
