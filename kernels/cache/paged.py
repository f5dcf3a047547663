"""The KV cache in pages of 64 tokens that the C library reads and writes (kernels/native/kv_pages.h).

A page of a KV head is contiguous, so attention over a list of pages reads them where they lie, at nearly the rate of a
whole cache. Formats as in `kernels.cache.contiguous`; int4 keys have their scales by channel and page.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from kernels.attention.window import PLAIN, AttentionRule
from kernels.eviction.policies import PAGE_TOKENS
from kernels.native.library import FORMATS, address, library

_BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "int8": 8, "int4": 4}


class LayerStruct(ctypes.Structure):
    """`kv_layer`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("k", "v", "k_scale", "v_scale", "open", "open_page")),
        *((name, ctypes.c_int32) for name in ("format", "n_heads", "head_dim", "capacity")),
    )


class AttentionStruct(ctypes.Structure):
    """`attention`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("kv", "q", "pages", "mask", "state", "out")),
        *((name, ctypes.c_int64) for name in ("mask_stride", "page_stride")),
        *((name, ctypes.c_int32) for name in ("n_groups", "n_pages", "n_last", "n_threads", "first_page", "n_unseen")),
        ("soft_cap", ctypes.c_float),
    )


class PagedKvCache:
    """A cache that the C library serves, on the CPU.

    Parameters
    ----------
    n_layers, n_kv_heads, capacity, head_dim : int
        Sizes; `capacity` is the number of tokens it can hold, `head_dim` a multiple of 64, at most 256.
    kv_format : str
        One of `kernels.cache.contiguous.FORMATS`.
    rule : AttentionRule
        How the layers attend; a window counts the tokens that are read.
    """

    def __init__(
        self,
        n_layers: int,
        n_kv_heads: int,
        capacity: int,
        head_dim: int,
        kv_format: str,
        rule: AttentionRule = PLAIN,
    ) -> None:
        found = library()
        if found is None or not self.serves(head_dim):
            raise ValueError(f"head_dim: got {head_dim}, expected the C library and a multiple of 64 up to 256")
        self.kv_format = kv_format
        self.n_layers = n_layers
        self.length = 0
        self.mask: Tensor | None = None
        self.rule = rule
        self._library = found
        self._shape = (n_kv_heads, -(-capacity // PAGE_TOKENS), head_dim)
        self._pages: Tensor | None = None  # [n_layers, n_kv_heads, capacity in pages] int32
        self._n_left_out = 0  # pages that are not read
        self._buffers = [self._allocate() for _ in range(n_layers)]
        self.layers = (LayerStruct * n_layers)(*(self._as_layer(buffers) for buffers in self._buffers))
        self._calls = (AttentionStruct * n_layers)()
        self._numbers = (0, 0, 0)  # what `_calls` describe
        self._described_mask: Tensor | None = None
        self._scratch: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def serves(head_dim: int, device: str | torch.device = "cpu") -> bool:
        """Return True if the C library is loaded and has code for these heads."""
        return torch.device(device).type == "cpu" and head_dim in (64, 128, 192, 256) and library() is not None

    def _allocate(self) -> list[Tensor | None]:
        n_heads, n_pages, dim = self._shape
        byte = n_heads * n_pages * PAGE_TOKENS * dim * _BITS[self.kv_format] // 8
        k, v = torch.zeros(byte, dtype=torch.uint8), torch.zeros(byte, dtype=torch.uint8)
        if self.kv_format == "int8":
            return [k, v, *(torch.zeros(n_heads, n_pages, PAGE_TOKENS) for _ in range(2)), None, None]
        if self.kv_format == "int4":
            scales = [torch.zeros(n_heads, n_pages, 2, n, dtype=torch.float16) for n in (dim, PAGE_TOKENS)]
            waiting = torch.zeros(n_heads, dim, PAGE_TOKENS, dtype=torch.bfloat16)
            return [k, v, *scales, waiting, torch.zeros(n_heads, dtype=torch.int32)]
        return [k, v, None, None, None, None]

    def _as_layer(self, buffers: list[Tensor | None]) -> LayerStruct:
        n_heads, n_pages, dim = self._shape
        return LayerStruct(*map(address, buffers), FORMATS[self.kv_format], n_heads, dim, n_pages)

    def write(self, layer: int, kv: Tensor) -> None:
        """Put keys and values, [2, 1, n_kv_heads, n, head_dim] fp32, behind the cached tokens of a layer."""
        n, room = kv.shape[3], self._n_held - self.length
        if n > room:
            raise ValueError(f"kv: got {n} tokens, expected at most {room} more")
        if kv.dtype != torch.float32 or kv.stride(4) != 1:
            raise ValueError(f"kv: got {kv.dtype} with strides {kv.stride()}, expected fp32 with the last one 1")
        strides = (ctypes.c_int64(kv.stride(i)) for i in (0, 2, 3))
        self._library.kv_write(
            ctypes.byref(self.layers[layer]), ctypes.c_void_p(kv.data_ptr()), *strides, self.length, n
        )

    def attend(self, layer: int, q: Tensor, n_keys: int) -> Tensor:
        """Attend from scaled q [1, n_kv_heads, n_groups, head_dim] over the first `n_keys` tokens of a layer.

        Returns [n_kv_heads * n_groups, head_dim] fp32, overwritten by the next call.
        """
        n_heads, _, dim = self._shape
        call = self.attention_structs(n_keys, q.shape[2])[layer]
        n_rows, n_threads = n_heads * q.shape[2], call.n_threads
        if self._scratch is None or self._scratch[0].numel() < n_threads * n_rows * (dim + 2):
            self._scratch = torch.empty(n_threads * n_rows * (dim + 2)), torch.empty(n_rows, dim)
        state, out = self._scratch
        q = q.float().contiguous()
        call.q, call.state, call.out = q.data_ptr(), state.data_ptr(), out.data_ptr()
        self._library.trilemma_attend(ctypes.byref(call))
        return out

    def attention_structs(self, n_keys: int, n_groups: int) -> ctypes.Array[AttentionStruct]:
        """Describe what a token attends to in each layer; query, scratch memory and output are left to the caller.

        Parameters
        ----------
        n_keys : int
            Cached tokens, the new one included, 1 to the capacity.
        n_groups : int
            Query heads that share a KV head.
        """
        if not 1 <= n_keys <= self._n_held:
            raise ValueError(f"n_keys: got {n_keys}, expected 1 to the {self._n_held} tokens that the cache can hold")
        numbers = (n_keys, n_groups, torch.get_num_threads())
        if numbers != self._numbers or self.mask is not self._described_mask:
            self._describe(*numbers)
            self._numbers, self._described_mask = numbers, self.mask
        return self._calls

    def _describe(self, n_keys: int, n_groups: int, n_threads: int) -> None:
        n = self._n_in_sight(n_keys)
        for layer, call in enumerate(self._calls):
            first_page, n_unseen = divmod(self.rule.first_key(layer, n), PAGE_TOKENS)
            n_pages, n_last = (n - 1) // PAGE_TOKENS + 1 - first_page, (n - 1) % PAGE_TOKENS + 1
            call.kv, call.n_groups = ctypes.addressof(self.layers[layer]), n_groups
            call.n_pages, call.n_last, call.first_page, call.n_unseen = n_pages, n_last, first_page, n_unseen
            call.n_threads = max(1, min(n_threads, self._shape[0] * n_pages // 2))
            call.soft_cap = self.rule.soft_cap or 0.0
            if self._pages is not None:
                call.pages, call.page_stride = self._pages[layer].data_ptr(), self._pages.stride(1)
            if self.mask is not None:
                call.mask, call.mask_stride = self.mask[layer].data_ptr(), self.mask.stride(1)

    def read_only(self, pages: Tensor, n_tokens: int) -> None:
        """Attend from now on to these pages only, and to all from that of the last of the `n_tokens` tokens on.

        Nothing moves: the pages are read where they lie.

        Parameters
        ----------
        pages : Tensor
            [n_layers, n_kv_heads, n_listed] integers, 0 to ``(n_tokens - 1) // 64 - 1``.
        n_tokens : int
            Cached tokens that `pages` refers to, >= 1.
        """
        behind = (n_tokens - 1) // PAGE_TOKENS
        if pages.numel() and not 0 <= int(pages.min()) <= int(pages.max()) < behind:
            raise ValueError(f"pages: got {int(pages.min())}..{int(pages.max())}, expected 0..{behind - 1}")
        rest = torch.arange(behind, self._shape[1]).expand(*pages.shape[:2], -1)
        self._pages = torch.cat([pages, rest], -1).to(torch.int32)
        self._n_left_out = behind - pages.shape[2]
        self._numbers = (0, 0, 0)  # to be described anew

    def read_all(self) -> None:
        """Attend from now on to all pages again."""
        self._pages, self._n_left_out = None, 0
        for call in self._calls:
            call.pages = None
        self._numbers = (0, 0, 0)

    def take_pages(self, source: PagedKvCache, layer: int, pages: Tensor) -> None:
        """Copy whole pages of a layer of another cache of this format over the first pages, as they are.

        Parameters
        ----------
        source : PagedKvCache
            Of the same format and shape but for the capacity.
        layer : int
            Which layer.
        pages : Tensor
            [n_kv_heads, n] int64, full ones: not the one that is being filled.
        """
        self._check_like(source)
        n_heads, n = pages.shape
        if n > self._shape[1]:
            raise ValueError(f"pages: got {n}, expected at most {self._shape[1]}")
        for target, other in zip(self._buffers[layer][:4], source._buffers[layer][:4], strict=True):
            if target is not None and other is not None:
                for head, chosen in enumerate(pages):
                    torch.index_select(
                        other.view(n_heads, source._shape[1], -1)[head],
                        0,
                        chosen,
                        out=target.view(n_heads, self._shape[1], -1)[head, :n],
                    )

    def is_like(self, source: PagedKvCache) -> bool:
        """Return True for a cache of this format and shape, any capacity, that reads all its pages."""
        alike = source.kv_format == self.kv_format and source._shape[::2] == self._shape[::2]
        return alike and source._pages is None

    def _check_like(self, source: PagedKvCache) -> None:
        if not self.is_like(source):
            raise ValueError(f"source: got {source.kv_format} {source._shape}, expected {self.kv_format} {self._shape}")

    def take_tokens(self, source: PagedKvCache, layer: int, index: Tensor | None, n: int) -> None:
        """Copy tokens of a layer of another cache to the beginning of this one, as they are stored there.

        Keys in int4 are quantised again but for whole pages, since the tokens of a page share their scales.

        Parameters
        ----------
        source : PagedKvCache
            Of the same format and shape but for the capacity.
        layer : int
            Which layer.
        index : Tensor, optional
            [n_kv_heads, n] int64, tokens of the source; None for the first `n`.
        n : int
            Tokens to be copied, >= 1.
        """
        self._check_like(source)
        index = source._checked(index, n)
        if n > self._n_held:
            raise ValueError(f"n: got {n}, expected at most {self._n_held}")
        self._library.trilemma_copy_kv(
            ctypes.byref(source.layers[layer]),
            ctypes.byref(self.layers[layer]),
            ctypes.c_void_p(address(index)),
            n,
            torch.get_num_threads(),
        )

    def dequantised(self, layer: int, n_keys: int) -> tuple[Tensor, Tensor]:
        """Return the first `n_keys` keys and values of a layer as fp32 [n_kv_heads, n_keys, head_dim].

        After `read_only`, those of the pages that are read, in their order.
        """
        if self._pages is None:
            return self._read(layer, None, n_keys)
        tokens = self._pages[layer][:, :, None].long() * PAGE_TOKENS + torch.arange(PAGE_TOKENS)
        return self.dequantised_at(layer, tokens.flatten(1)[:, : self._n_in_sight(n_keys)])

    def dequantised_at(self, layer: int, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the tokens index [n_kv_heads, n] of a layer as fp32 [n_kv_heads, n, head_dim]."""
        return self._read(layer, index, index.shape[1])

    def _read(self, layer: int, index: Tensor | None, n: int) -> tuple[Tensor, Tensor]:
        index = self._checked(index, n)
        out = torch.empty(2, self._shape[0], n, self._shape[2])
        self._library.trilemma_read_kv(
            ctypes.byref(self.layers[layer]),
            ctypes.c_void_p(address(index)),
            n,
            torch.get_num_threads(),
            ctypes.c_void_p(out.data_ptr()),
        )
        return out[0], out[1]

    def _checked(self, index: Tensor | None, n: int) -> Tensor | None:
        """Return an index of tokens, contiguous; ValueError where it, or the first `n`, is beyond the capacity."""
        low, high = (0, n - 1) if index is None else (int(index.min()), int(index.max()))
        if not 0 <= low <= high < self._n_held:
            raise ValueError(f"index: got {low}..{high}, expected 0..{self._n_held - 1}")
        return None if index is None else index.contiguous()

    @property
    def _n_held(self) -> int:
        """Tokens that there is memory for."""
        return self._shape[1] * PAGE_TOKENS

    def byte_per_token(self) -> int:
        """Bytes that one cached token of a full page takes in all layers, scales included."""
        n_heads, _, dim = self._shape
        scales = {"int8": 8, "int4": 4 + 4 * dim // PAGE_TOKENS}.get(self.kv_format, 0)
        return self.n_layers * n_heads * (2 * dim * _BITS[self.kv_format] // 8 + scales)

    def tokens_read(self, n_keys: int) -> float:
        """Count the tokens that attention over the first `n_keys` reads in a KV head, mean over the layers."""
        return self.rule.tokens_read(self._n_in_sight(n_keys))

    def _n_in_sight(self, n_keys: int) -> int:
        """Count the tokens of the first `n_keys` that lie in pages that are read."""
        return n_keys - self._n_left_out * PAGE_TOKENS
