"""The KV cache: keys and values of every layer, contiguous per layer and KV head, in a float type or in int8.

A pruned cache is a smaller cache: the kept tokens are copied into a new one (`copy_tokens`), so that decoding reads
only them. The sets of kept tokens may differ between layers and KV heads, their number may not.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from kernels.attention import attend, attend_int8

FORMATS = ("fp32", "bf16", "fp16", "int8")
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_INT8_STEP = 16  # capacities are multiples of it


class KvCache(Protocol):
    """What the decoder needs of a cache: layers are written one after the other, then `length` grows."""

    kv_format: str
    n_layers: int
    length: int
    mask: Tensor | None  # [n_layers, n_kv_heads, 1, n_keys] added to the scores: the masked layout

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] fp32 over the first `n_keys` tokens of a layer.

        Returns n_heads x head_dim values in any float type, contiguous in the order of the heads.
        """

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
        # fp16 products are several times slower than converting the cache to fp32 first
        self._compute_dtype = torch.float32 if kv_format == "fp16" else _TYPES[kv_format]
        size = (2, 1, n_kv_heads, capacity, head_dim)
        self._kv = [torch.zeros(size, dtype=_TYPES[kv_format]) for _ in range(n_layers)]

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        self._kv[layer].narrow(3, self.length, kv.shape[3]).copy_(kv)

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer."""
        k, v = self._kv[layer].narrow(3, 0, n_keys).to(self._compute_dtype).unbind(0)
        mask = None if self.mask is None else self.mask[layer, :, :, :n_keys]
        return attend(q.to(self._compute_dtype), k, v, mask)

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""
        k, v = self._kv[layer][:, 0, :, :n_keys].float()
        return k, v

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers."""
        _, _, n_kv_heads, _, head_dim = self._kv[0].shape
        return 2 * self.n_layers * n_kv_heads * head_dim * self._kv[0].element_size()


class Int8KvCache:
    """A cache in int8 with one fp32 scale per token, KV head, and of keys and values each; values lie transposed.

    Parameters
    ----------
    n_layers, n_kv_heads, capacity, head_dim : int
        Sizes; `capacity` is the number of tokens it can hold.
    """

    kv_format = "int8"

    def __init__(self, n_layers: int, n_kv_heads: int, capacity: int, head_dim: int) -> None:
        self.n_layers = n_layers
        self.length = 0
        self.mask: Tensor | None = None
        capacity = -(-capacity // _INT8_STEP) * _INT8_STEP
        self._k = [torch.zeros(n_kv_heads, capacity, head_dim, dtype=torch.int8) for _ in range(n_layers)]
        self._v_t = [torch.zeros(n_kv_heads, head_dim, capacity, dtype=torch.int8) for _ in range(n_layers)]
        self._scale = [torch.zeros(2, n_kv_heads, 1, capacity) for _ in range(n_layers)]

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        scale = torch.linalg.vector_norm(kv, torch.inf, dim=-1, keepdim=True).div_(127).clamp_(min=1e-30)
        (k,), (v,) = torch.div(kv, scale).round_()  # within -127..127, since scale is the largest magnitude / 127
        start, n = self.length, kv.shape[3]
        self._k[layer].narrow(1, start, n).copy_(k)
        self._v_t[layer].narrow(2, start, n).copy_(v.transpose(1, 2))
        self._scale[layer].narrow(3, start, n).copy_(scale[:, 0].transpose(2, 3))

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer."""
        mask = None if self.mask is None else self.mask[layer, :, :, :n_keys]
        k_scale, v_scale = self._scale[layer].narrow(3, 0, n_keys).unbind(0)
        k = self._k[layer].narrow(1, 0, n_keys).unbind(0)
        return attend_int8(q, k, k_scale, self._v_t[layer].unbind(0), v_scale, mask)

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""
        k_scale, v_scale = self._scale[layer].narrow(3, 0, n_keys).transpose(2, 3)
        k = self._k[layer].narrow(1, 0, n_keys) * k_scale
        return k, self._v_t[layer].narrow(2, 0, n_keys).transpose(1, 2) * v_scale

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers, scales included."""
        n_kv_heads, _, head_dim = self._k[0].shape
        return 2 * self.n_layers * n_kv_heads * (head_dim + 4)


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
        target.write(layer, torch.stack([k, v])[:, None])
    target.length = n_tokens if index is None else index.shape[2]
