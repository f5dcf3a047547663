"""The KV cache: keys and values of every layer, contiguous per layer and KV head, in a float type or in int8.

A pruned cache is a smaller cache: `select` copies the kept tokens into a new one, so that decoding reads only them.
The sets of kept tokens may differ between layers and KV heads, their number may not.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from kernels.attention import attend_float, attend_half, attend_int8

FORMATS = ("fp32", "bf16", "fp16", "int8")
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class KvCache(Protocol):
    """What the decoder needs of a cache. `length` tokens are cached; layers are written one after the other, then
    `advance`.
    """

    kv_format: str
    n_layers: int
    length: int
    mask: Tensor | None  # [n_layers, n_kv_heads, 1, n_keys] added to the scores: the masked layout

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Put k, v [n_kv_heads, n, head_dim] fp32 behind the cached tokens of a layer."""

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from q [n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer."""

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers, scales included."""


class FloatKvCache:
    """A cache in fp32, bf16 or fp16.

    Parameters
    ----------
    n_layers, n_kv_heads, capacity, head_dim : int
        Sizes; `capacity` is the number of tokens it can hold.
    kv_format : str
        "fp32", "bf16" or "fp16".
    """

    def __init__(self, n_layers: int, n_kv_heads: int, capacity: int, head_dim: int, kv_format: str) -> None:
        self.kv_format = kv_format
        self.n_layers = n_layers
        self.length = 0
        self.mask: Tensor | None = None
        size = (n_kv_heads, capacity, head_dim)
        dtype = _TYPES[kv_format]
        self._k = [torch.zeros(size, dtype=dtype) for _ in range(n_layers)]
        self._v = [torch.zeros(size, dtype=dtype) for _ in range(n_layers)]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Put k, v [n_kv_heads, n, head_dim] fp32 behind the cached tokens of a layer."""
        end = self.length + k.shape[1]
        self._k[layer][:, self.length : end] = k
        self._v[layer][:, self.length : end] = v

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from q [n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer."""
        k, v = self._k[layer][:, :n_keys], self._v[layer][:, :n_keys]
        mask = None if self.mask is None else self.mask[layer, :, :, :n_keys]
        if self.kv_format == "fp32":
            return attend_float(q, k, v, mask)
        if self.kv_format == "bf16":
            return attend_half(q, k, v, mask)
        return attend_float(q, k.float(), v.float(), mask)  # fp16 products are several times slower than converting

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""
        return self._k[layer][:, :n_keys].float(), self._v[layer][:, :n_keys].float()

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers."""
        k = self._k[0]
        return 2 * self.n_layers * k.shape[0] * k.shape[2] * k.element_size()


class Int8KvCache:
    """A cache in int8 with one bf16 scale per token, head, and of keys and values each; values lie transposed."""

    kv_format = "int8"

    def __init__(self, n_layers: int, n_kv_heads: int, capacity: int, head_dim: int) -> None:
        self.n_layers = n_layers
        self.length = 0
        self.mask: Tensor | None = None
        capacity = -(-capacity // 32) * 32
        self._k = [torch.zeros(n_kv_heads, capacity, head_dim, dtype=torch.int8) for _ in range(n_layers)]
        self._v_t = [torch.zeros(n_kv_heads, head_dim, capacity, dtype=torch.int8) for _ in range(n_layers)]
        self._k_scale = [torch.zeros(n_kv_heads, capacity, dtype=torch.bfloat16) for _ in range(n_layers)]
        self._v_scale = [torch.zeros(n_kv_heads, 1, capacity) for _ in range(n_layers)]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Put k, v [n_kv_heads, n, head_dim] fp32 behind the cached tokens of a layer."""
        start, end = self.length, self.length + k.shape[1]
        self._k[layer][:, start:end], k_scale = _quantise(k)
        v8, v_scale = _quantise(v)
        self._v_t[layer][:, :, start:end] = v8.transpose(1, 2)
        self._k_scale[layer][:, start:end] = k_scale
        self._v_scale[layer][:, 0, start:end] = v_scale

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from q [n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer."""
        mask = None if self.mask is None else self.mask[layer, :, :, :n_keys]
        k, k_scale, v_t, v_scale = self._k[layer], self._k_scale[layer], self._v_t[layer], self._v_scale[layer]
        return attend_int8(q, k, k_scale, v_t, v_scale, n_keys, mask)

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""
        k = self._k[layer][:, :n_keys].float() * self._k_scale[layer][:, :n_keys, None].float()
        v = (self._v_t[layer].float() * self._v_scale[layer])[:, :, :n_keys]
        return k, v.transpose(1, 2)

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers, scales included."""
        n_kv_heads, _, head_dim = self._k[0].shape
        return self.n_layers * n_kv_heads * (2 * head_dim + 2 + 4)


def _quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = (x.abs().amax(-1) / 127).clamp_(min=1e-30).bfloat16()
    return (x / scale[..., None].float()).round_().clamp_(-127, 127).to(torch.int8), scale


def new_cache(n_layers: int, n_kv_heads: int, capacity: int, head_dim: int, kv_format: str) -> KvCache:
    """Make an empty cache for up to `capacity` tokens in one of `FORMATS`."""
    if kv_format not in FORMATS:
        raise ValueError(f"kv: got {kv_format!r}, expected one of {', '.join(FORMATS)}")
    if capacity < 1:
        raise ValueError(f"capacity: got {capacity}, expected at least 1")
    if kv_format == "int8":
        return Int8KvCache(n_layers, n_kv_heads, capacity, head_dim)
    return FloatKvCache(n_layers, n_kv_heads, capacity, head_dim, kv_format)


def copy_tokens(source: KvCache, target: KvCache, index: Tensor | None, n_tokens: int) -> None:
    """Fill an empty cache with tokens of another one, converting the format.

    Parameters
    ----------
    source, target : KvCache
        `target` is empty and large enough.
    index : Tensor, optional
        [n_layers, n_kv_heads, n_kept] which tokens, per layer and KV head; None for the first `n_tokens`.
    n_tokens : int
        Tokens of the source that `index` refers to.
    """
    for layer in range(source.n_layers):
        k, v = source.dequantised(layer, n_tokens)
        if index is not None:
            rows = index[layer][:, :, None].expand(-1, -1, k.shape[2])
            k, v = k.gather(1, rows), v.gather(1, rows)
        target.write(layer, k, v)
    target.length = n_tokens if index is None else index.shape[2]
