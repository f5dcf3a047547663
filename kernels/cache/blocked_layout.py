"""The blocked layout of a cache, [B, H, D / b, S, b]: one memory line of 128 bytes holds one token's part of a block.

Written in it from the start (`BlockedCache`) it costs nothing; a relayout reads and writes all of it once.
"""

from __future__ import annotations

import ctypes
import math

import torch
from torch import Tensor

from kernels.native.library import address, library

LINE_BYTE = 128


N_BANKS, GRANULE_BYTE = 8, 4096  # of a memory that interleaves its banks in granules


def crop_tokens(n_tokens: int, token_byte: int, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE) -> int:
    """Return the longest length up to `n_tokens` at which the heads of a cache begin in banks all different.

    Heads that lie one behind the other are a stride of ``length * token_byte`` apart; whole granules, an odd number of
    them for a power of two of banks, visit every bank before the first again.

    Parameters
    ----------
    n_tokens : int
        Tokens there are.
    token_byte : int
        Bytes of one token of one head.
    n_banks, granule_byte : int
        Of the memory.

    Raises
    ------
    ValueError
        When no length up to `n_tokens` does that.
    """
    whole = granule_byte // math.gcd(granule_byte, token_byte)  # the fewest tokens that fill whole granules
    for n in range(n_tokens // whole * whole, 0, -whole):
        if math.gcd(n_banks, n * token_byte // granule_byte) == 1:
            return n
    raise ValueError(f"n_tokens: got {n_tokens}, expected at least {whole} tokens of {token_byte} bytes for a crop")


def block_elements(dtype: torch.dtype) -> int:
    """Count the elements of a type in one line: 32 of fp32, 64 of 16 bits, 128 of int8."""
    return LINE_BYTE // dtype.itemsize


def blocked(cache: Tensor, block: int | None = None, out: Tensor | None = None) -> Tensor:
    """Lay a cache [B, H, S, D] out in blocks.

    Parameters
    ----------
    cache : Tensor
        [B, H, S, D].
    block : int, optional
        Elements of a block, a divisor of D; a line's worth when None.
    out : Tensor, optional
        [B, H, D / block, S, block], contiguous: takes the result.

    Returns
    -------
    Tensor
        [B, H, D / block, S, block], bit for bit the same values.
    """
    b, h, s, d = cache.shape
    block = _divisor(d, block or block_elements(cache.dtype))
    shape = (b, h, d // block, s, block)
    out = _target(out, shape, cache)
    if not _copied(cache, out, (b * h, s, d // block, block), back=False):
        out.copy_(cache.view(b, h, s, d // block, block).transpose(2, 3))
    return out


def unblocked(cache: Tensor, out: Tensor | None = None) -> Tensor:
    """Undo `blocked`: [B, H, n, S, block] to [B, H, S, n * block]."""
    b, h, n, s, block = cache.shape
    out = _target(out, (b, h, s, n * block), cache)
    if not _copied(cache, out, (b * h, s, n, block), back=True):
        out.view(b, h, s, n, block).copy_(cache.transpose(2, 3))
    return out


class BlockedCache:
    """A cache that is written in blocks as its tokens come.

    Parameters
    ----------
    n_batch, n_heads, capacity, head_dim : int
        Sizes; `capacity` in tokens.
    dtype : torch.dtype
        Type of its values.
    block : int, optional
        Elements of a block, a divisor of `head_dim`; a line's worth when None.
    device : str or torch.device
        Where it lies.

    Attributes
    ----------
    values : Tensor
        [n_batch, n_heads, head_dim / block, capacity, block].
    length : int
        Tokens written.
    """

    def __init__(
        self,
        n_batch: int,
        n_heads: int,
        capacity: int,
        head_dim: int,
        dtype: torch.dtype,
        block: int | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        block = _divisor(head_dim, block or block_elements(dtype))
        shape = (n_batch, n_heads, head_dim // block, capacity, block)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length = 0

    def append(self, tokens: Tensor) -> None:
        """Write the next tokens, [n_batch, n_heads, n, head_dim]."""
        b, h, n, _ = tokens.shape
        blocks, capacity, block = self.values.shape[2:]
        if self.length + n > capacity:
            raise ValueError(f"tokens: got {n}, expected at most {capacity - self.length} more")
        target = self.values[:, :, :, self.length : self.length + n]
        target.copy_(tokens.reshape(b, h, n, blocks, block).transpose(2, 3))
        self.length += n


def _divisor(head_dim: int, block: int) -> int:
    if block < 1 or head_dim % block:
        raise ValueError(f"block: got {block}, expected a divisor of the head dimension {head_dim}")
    return block


def _target(out: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Tensor:
    if out is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    if out.shape != shape or out.dtype != like.dtype or not out.is_contiguous():
        raise ValueError(f"out: got {tuple(out.shape)} of {out.dtype}, expected {shape} of {like.dtype}, contiguous")
    return out


def _copied(source: Tensor, target: Tensor, sizes: tuple[int, int, int, int], back: bool) -> bool:
    """Let the C library copy where it can; sizes are rows, tokens, blocks, elements of a block."""
    found = library()
    if found is None or source.device.type != "cpu" or not source.is_contiguous():
        return False
    rows, tokens, blocks, block = sizes
    words = (rows, tokens, blocks, block * source.element_size())
    found.trilemma_relayout(
        ctypes.c_void_p(address(source)),
        ctypes.c_void_p(address(target)),
        *map(ctypes.c_int64, words),
        int(back),
        torch.get_num_threads(),
    )
    return True
