"""The KV cache: keys and values of every layer, contiguous per layer and KV head, in a float type, int8 or int4.

The caches of this module are torch's alone; where the C library is there, `new_cache` makes the paged ones of
`kernels.cache.paged` instead. A pruned cache is a smaller cache: the kept tokens are copied into a new one
(`copy_tokens`),
so that decoding reads only them. The sets of kept tokens may differ between layers and KV heads, their number may not.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from kernels.attention.cached import attend, attend_int8
from kernels.attention.window import PLAIN, AttentionRule, attend_capped
from kernels.cache.paged import PagedKvCache
from kernels.native.library import FLOAT_TYPES

FORMATS = ("fp32", "bf16", "fp16", "int8", "int4")
_INT8_STEP = 16  # capacities are multiples of it
INT4_GROUP = 64
"""Keys in int4 share a scale and an offset per channel over so many tokens: a page."""


class KvCache(Protocol):
    """Interface of a cache: layers are written one after the other, then `length` grows."""

    kv_format: str
    n_layers: int
    length: int
    mask: Tensor | None  # [n_layers, n_kv_heads, 1, n_keys] added to the scores: the masked layout
    rule: AttentionRule

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] fp32 over the first `n_keys` tokens of a layer.

        Returns n_heads x head_dim values in any float type, contiguous in the order of the heads.
        """

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""

    def dequantised_at(self, layer: int, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the tokens index [n_kv_heads, n] of a layer as fp32 [n_kv_heads, n, head_dim]."""

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers, scales included."""

    def tokens_read(self, n_keys: int) -> float:
        """Count the tokens that attention over the first `n_keys` reads in a KV head, mean over the layers."""


class _TorchKvCache:
    """Common part of the caches in torch.

    Parameters
    ----------
    n_layers, n_kv_heads, capacity, head_dim : int
        Sizes; `capacity` is the number of tokens it can hold.
    device : str or torch.device
        Device of the tensors.
    rule : AttentionRule
        Windows and soft cap of the layers.
    """

    kv_format: str

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        device: str | torch.device = "cpu",
        rule: AttentionRule = PLAIN,
    ) -> None:
        self.n_layers, self.capacity, self.rule = n_layers, capacity, rule
        self.length = 0
        self.mask: Tensor | None = None
        self._allocate(n_kv_heads, head_dim, torch.device(device))

    def _allocate(self, n_kv_heads: int, head_dim: int, device: torch.device) -> None:
        """Make the memory for `capacity` tokens in `n_layers` layers."""
        raise NotImplementedError

    def _part(self, layer: int, first: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return keys and values of the tokens from `first` to `n_keys` of a layer, [n_kv_heads, n, head_dim], in the
        type that they are computed in.
        """
        raise NotImplementedError

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer."""
        first = self.rule.first_key(layer, n_keys)
        k, v = self._part(layer, first, n_keys)
        mask = None if self.mask is None else self.mask[layer, :, :, first:n_keys]
        q, k, v = q.to(k.dtype), k[None], v[None]
        return attend(q, k, v, mask) if self.rule.soft_cap is None else attend_capped(q, k, v, mask, self.rule.soft_cap)

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim]."""
        k, v = self._part(layer, 0, n_keys)
        return k.float(), v.float()

    def dequantised_at(self, layer: int, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the tokens index [n_kv_heads, n] of a layer as fp32 [n_kv_heads, n, head_dim]."""
        k, v = self.dequantised(layer, self.capacity)
        rows = index[:, :, None].expand(-1, -1, k.shape[2])
        return k.gather(1, rows), v.gather(1, rows)

    def tokens_read(self, n_keys: int) -> float:
        """All that the rule lets a token attend to: a masked cache is read whole."""
        return self.rule.tokens_read(n_keys)


class FloatKvCache(_TorchKvCache):
    """A cache in `kv_format` "fp32", "bf16" or "fp16"; the other parameters as of all caches here."""

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        kv_format: str,
        device: str | torch.device = "cpu",
        rule: AttentionRule = PLAIN,
    ) -> None:
        self.kv_format = kv_format
        super().__init__(n_layers, n_kv_heads, capacity, head_dim, device, rule)

    def _allocate(self, n_kv_heads: int, head_dim: int, device: torch.device) -> None:
        dtype, size = FLOAT_TYPES[self.kv_format], (2, 1, n_kv_heads, self.capacity, head_dim)
        # on a CPU, fp16 products are several times slower than converting the cache to fp32 first
        self._compute_dtype = torch.float32 if dtype == torch.float16 and device.type == "cpu" else dtype
        self._kv = [torch.zeros(size, dtype=dtype, device=device) for _ in range(self.n_layers)]

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        self._kv[layer].narrow(3, self.length, kv.shape[3]).copy_(kv)

    def _part(self, layer: int, first: int, n_keys: int) -> tuple[Tensor, Tensor]:
        k, v = self._kv[layer][:, 0, :, first:n_keys].to(self._compute_dtype)
        return k, v

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers."""
        _, _, n_kv_heads, _, head_dim = self._kv[0].shape
        return 2 * self.n_layers * n_kv_heads * head_dim * self._kv[0].element_size()


class Int8KvCache(_TorchKvCache):
    """A cache in int8 with one fp32 scale per token, KV head, and of keys and values each; values lie transposed."""

    kv_format = "int8"

    def _allocate(self, n_kv_heads: int, head_dim: int, device: torch.device) -> None:
        self.capacity = -(-self.capacity // _INT8_STEP) * _INT8_STEP

        def empty(*size: int, dtype: torch.dtype = torch.int8) -> list[Tensor]:
            return [torch.zeros(size, dtype=dtype, device=device) for _ in range(self.n_layers)]

        self._k = empty(n_kv_heads, self.capacity, head_dim)
        self._v_t = empty(n_kv_heads, head_dim, self.capacity)
        self._scale = empty(2, n_kv_heads, 1, self.capacity, dtype=torch.float32)

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
        # torch's int8 kernel is for CPUs and whole caches
        if q.device.type != "cpu" or self.rule.first_key(layer, n_keys) or self.rule.soft_cap is not None:
            return super().attend(layer, q, n_keys)
        mask = None if self.mask is None else self.mask[layer, :, :, :n_keys]
        k_scale, v_scale = self._scale[layer].narrow(3, 0, n_keys).unbind(0)
        keys = self._k[layer].narrow(1, 0, n_keys).unbind(0)
        return attend_int8(q, keys, k_scale, self._v_t[layer].unbind(0), v_scale, mask)

    def _part(self, layer: int, first: int, n_keys: int) -> tuple[Tensor, Tensor]:
        k_scale, v_scale = self._scale[layer][..., first:n_keys].transpose(2, 3)
        return self._k[layer][:, first:n_keys] * k_scale, self._v_t[layer][..., first:n_keys].transpose(1, 2) * v_scale

    def byte_per_token(self) -> int:
        """Bytes that one cached token takes in all layers, scales included."""
        n_kv_heads, _, head_dim = self._k[0].shape
        return 2 * self.n_layers * n_kv_heads * (head_dim + 4)


class Int4KvCache(_TorchKvCache):
    """A cache in 4 bits: keys by channel over the 64 tokens of a page, values by token, fp16 scale and offset each.

    ``x = scale * q + offset``, q in 0..15. Keys vary by channel more than by token, values do not (KIVI, arXiv
    2402.02750). The keys of the page that is being filled wait in bf16; a page is quantised once it is full and the
    next one begins. `head_dim` is even.
    """

    kv_format = "int4"

    def _allocate(self, n_kv_heads: int, head_dim: int, device: torch.device) -> None:
        if head_dim % 2:
            raise ValueError(f"head_dim: got {head_dim}, expected an even number")
        n_pages = -(-self.capacity // INT4_GROUP)

        def empty(*size: int, dtype: torch.dtype) -> list[Tensor]:
            shape = (n_kv_heads, n_pages, *size)
            return [torch.zeros(shape, dtype=dtype, device=device) for _ in range(self.n_layers)]

        self._k = empty(INT4_GROUP, head_dim // 2, dtype=torch.uint8)
        self._v = empty(INT4_GROUP, head_dim // 2, dtype=torch.uint8)
        self._k_scale = empty(2, 1, head_dim, dtype=torch.float16)
        self._v_scale = empty(2, INT4_GROUP, 1, dtype=torch.float16)
        shape = (self.n_layers, n_kv_heads, INT4_GROUP, head_dim)
        self._open = torch.zeros(shape, dtype=torch.bfloat16, device=device)
        self._open_page = [0] * self.n_layers

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        start, end = self.length, self.length + kv.shape[3]
        for page in range(start // INT4_GROUP, (end - 1) // INT4_GROUP + 1):
            first = page * INT4_GROUP
            low, high = max(start, first), min(end, first + INT4_GROUP)
            k, v = kv[:, 0, :, low - start : high - start]
            self._open_at(layer, page, low - first)
            self._open[layer][:, low - first : high - first] = k
            codes, scale = quantised_int4(v, -1)
            self._v[layer][:, page, low - first : high - first] = codes
            self._v_scale[layer][:, page, :, low - first : high - first] = scale

    def _open_at(self, layer: int, page: int, slot: int) -> None:
        """Make a page the one that is being filled: quantise the one before, or open an earlier one again."""
        before = self._open_page[layer]
        if page == before:
            return
        if page == before + 1:
            self._k[layer][:, before], self._k_scale[layer][:, before] = quantised_int4(self._open[layer].float(), 1)
        elif slot:  # the cache was cut back
            self._open[layer] = _from_int4(self._k[layer][:, page], self._k_scale[layer][:, page])
        self._open_page[layer] = page

    def _part(self, layer: int, first: int, n_keys: int) -> tuple[Tensor, Tensor]:
        pages = -(-n_keys // INT4_GROUP)
        k, v = (
            _from_int4(codes[layer][:, :pages], scale[layer][:, :pages])
            for codes, scale in ((self._k, self._k_scale), (self._v, self._v_scale))
        )
        if self._open_page[layer] < pages:
            k[:, self._open_page[layer]] = self._open[layer].float()
        return k.flatten(1, 2)[:, first:n_keys], v.flatten(1, 2)[:, first:n_keys]

    def byte_per_token(self) -> int:
        """Bytes that one cached token of a full page takes in all layers, scales included."""
        n_kv_heads, _, _, half_dim = self._k[0].shape
        scales = 4 * (2 * half_dim + INT4_GROUP) // INT4_GROUP
        return self.n_layers * n_kv_heads * (2 * half_dim + scales)


def quantised_int4(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Quantise to 4 bits with a scale and an offset along a dimension.

    Parameters
    ----------
    x : Tensor
        [n_kv_heads, n, head_dim] fp32.
    dim : int
        What shares a scale: 1 the tokens of a channel, -1 the channels of a token.

    Returns
    -------
    codes : Tensor
        uint8 [n_kv_heads, n, head_dim / 2]: channel 2j in the low nibble, 2j + 1 in the high one.
    scale : Tensor
        fp16 [n_kv_heads, 2, n, 1] or [n_kv_heads, 2, 1, head_dim]: scale, offset. Both are rounded before the values
        are quantised against them, so that no second rounding follows.
    """
    low, high = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    scale = torch.stack([((high - low) / 15).clamp_(min=1e-7), low], 1).half()
    step, offset = scale.float().unbind(1)
    q = ((x - offset) / step).round_().clamp_(0, 15).to(torch.uint8)
    return q[..., 0::2] | q[..., 1::2] << 4, scale


def _from_int4(codes: Tensor, scale: Tensor) -> Tensor:
    """Undo `quantised_int4` up to its rounding; codes may have pages as a second dimension."""
    step, offset = scale.float().unbind(-3)
    return torch.stack([codes & 15, codes >> 4], -1).flatten(-2).float().mul_(step).add_(offset)


def new_cache(
    n_layers: int,
    n_kv_heads: int,
    capacity: int,
    head_dim: int,
    kv_format: str,
    device: str | torch.device = "cpu",
    rule: AttentionRule = PLAIN,
) -> KvCache:
    """Make an empty cache for up to `capacity` tokens in one of `FORMATS`: the fastest there is for it here."""
    if kv_format not in FORMATS:
        raise ValueError(f"kv: got {kv_format!r}, expected one of {', '.join(FORMATS)}")
    if capacity < 1:
        raise ValueError(f"capacity: got {capacity}, expected at least 1")
    if PagedKvCache.serves(head_dim, device):
        return PagedKvCache(n_layers, n_kv_heads, capacity, head_dim, kv_format, rule)
    if kv_format == "int8":
        return Int8KvCache(n_layers, n_kv_heads, capacity, head_dim, device, rule)
    if kv_format == "int4":
        return Int4KvCache(n_layers, n_kv_heads, capacity, head_dim, device, rule)
    return FloatKvCache(n_layers, n_kv_heads, capacity, head_dim, kv_format, device, rule)


def copy_tokens(source: KvCache, target: KvCache, index: Tensor | None, n_tokens: int) -> None:
    """Fill an empty cache with tokens of another one, converting the format; of the same paged one as they are stored.

    Parameters
    ----------
    source, target : KvCache
        `target` is empty and large enough.
    index : Tensor, optional
        [n_layers, n_kv_heads, n_kept] which tokens, per layer and KV head; None for the first `n_tokens`.
    n_tokens : int
        Tokens of the source that `index` refers to.
    """
    n_kept = n_tokens if index is None else index.shape[2]
    if isinstance(source, PagedKvCache) and isinstance(target, PagedKvCache) and target.is_like(source):
        for layer in range(source.n_layers):
            target.take_tokens(source, layer, None if index is None else index[layer], n_kept)
    else:
        for layer in range(source.n_layers):
            k, v = source.dequantised(layer, n_tokens) if index is None else source.dequantised_at(layer, index[layer])
            target.write(layer, torch.stack([k, v])[:, None])
    target.length = n_kept
