"""Address layouts: memory banks, aligned blocks, KV regions of a layer, and the blocked relayout of a cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

Whole = int | NDArray[np.int64]

N_BANKS = 8
GRANULE_BYTE = 4096
PAGE_BYTE = 65_536
TAG_BYTE = 64
LINE_BYTE = 128


def bank_of(address: Whole, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE) -> Whole:
    """Return the bank of each address when banks interleave in granules, ``(address / granule) mod n``.

    References
    ----------
    docs/articles.md, A11: 0x7fff is in bank 7, 0x8000 in bank 0.
    """
    check_range("address", address, 0)
    return address // granule_byte % n_banks


def hashed_bank_of(address: Whole, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE) -> Whole:
    """Return the bank when the next address bits are folded in by exclusive or, which breaks power-of-two strides.

    `n_banks` is a power of two.
    """
    check_range("address", address, 0)
    if n_banks < 1 or n_banks & (n_banks - 1):
        raise ValueError(f"n_banks = {n_banks} is no power of 2")
    granule = address // granule_byte
    return (granule ^ granule // n_banks) % n_banks


def distinct_banks(stride_byte: Whole, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE) -> Whole:
    """Return how many banks accesses with a stride visit, ``n / gcd(n, stride / granule)``.

    `stride_byte` is a multiple of the granule.

    References
    ----------
    docs/articles.md, A11: 8, 4, 8, 2 and 1 for strides of 4, 8, 12, 16 and 32 KiB.
    """
    if np.any(np.less_equal(stride_byte, 0) | (np.mod(stride_byte, granule_byte) != 0)):
        raise ValueError(f"stride_byte = {stride_byte} is no positive multiple of {granule_byte}")
    visited: Whole = n_banks // np.gcd(n_banks, stride_byte // granule_byte)
    return visited if np.ndim(visited) else int(visited)


def bank_loads(
    start_byte: int, size_byte: int, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE
) -> NDArray[np.int64]:
    """Return how many bytes of a contiguous block each bank holds, shape (n_banks,)."""
    check_range("start_byte", start_byte, 0)
    check_range("size_byte", size_byte, 1)
    first, last = start_byte // granule_byte, (start_byte + size_byte - 1) // granule_byte
    granule = np.arange(first, last + 1)
    low = np.maximum(granule * granule_byte, start_byte)
    high = np.minimum((granule + 1) * granule_byte, start_byte + size_byte)
    return np.bincount(granule % n_banks, weights=high - low, minlength=n_banks).astype(np.int64)


def balance(load_byte: ArrayLike) -> float:
    """Return mean over largest load of the banks: 1 when all work alike.

    References
    ----------
    docs/articles.md, A11: 0.75 for 48 KiB in a row, 0.1875 for 32 KiB in one bank and 16 in another.
    """
    loads = np.asarray(load_byte, dtype=float)
    check_range("load_byte", loads, 0.0)
    check_range("largest load_byte", loads.max(), 0.0, open_low=True)
    return float(loads.mean() / loads.max())


def aligned_fill(block_byte: Array, align_byte: int = GRANULE_BYTE) -> Array:
    """Return which share of its aligned region a block of `block_byte` > 0 fills.

    References
    ----------
    docs/articles.md, A11: 3.125 % for 16 x 16 in 4 bit, 50 % for 64 x 64, all for 64 x 64 in 8 bit.
    """
    check_range("block_byte", block_byte, 0.0, open_low=True)
    return block_byte / (np.ceil(np.asarray(block_byte) / align_byte) * align_byte)


# --- the KV region of a layer -----------------------------------------------------------------------------------------


def layer_capacity_tokens(region_byte: Array, token_byte: Array, tag_byte: int = TAG_BYTE) -> Array:
    """Return how many tokens fit in a layer's region beside its version tag.

    Parameters
    ----------
    region_byte, token_byte : float or array
        Size of the region, at least the tag [byte], and of one cached token in one layer, > 0 [byte].
    tag_byte : int
        Size of the tag [byte].

    References
    ----------
    docs/articles.md, A14: 63 tokens of Llama-3-8B in 256 KiB.
    """
    check_range("region_byte", region_byte, tag_byte)
    check_range("token_byte", token_byte, 0.0, open_low=True)
    return (region_byte - tag_byte) // token_byte


def layer_stride_byte(
    n_tokens: Array, token_byte: Array, page_byte: int = PAGE_BYTE, tag_byte: int = TAG_BYTE
) -> Array:
    """Return the distance between layers that hold `n_tokens` each, whole pages [byte].

    Parameters
    ----------
    n_tokens, token_byte : float or array
        Tokens, >= 1, and bytes of one in one layer, > 0 [byte].
    page_byte, tag_byte : int
        Size of a page and of the layer's version tag [byte].

    References
    ----------
    docs/articles.md, A14: 8 454 144 byte, 129 pages, for Llama-3-8B and 2048 tokens.
    """
    check_range("n_tokens", n_tokens, 1)
    check_range("token_byte", token_byte, 0.0, open_low=True)
    return np.ceil((np.multiply(n_tokens, token_byte) + tag_byte) / page_byte) * page_byte


# --- relayout ---------------------------------------------------------------------------------------------------------


def line_elements(element_bit: int, line_byte: int = LINE_BYTE) -> int:
    """Return how many elements one memory line holds: 32 of 32 bit, 64 of 16, 128 of 8, 256 of 4 in 128 bytes."""
    check_range("element_bit", element_bit, 1)
    return line_byte * BIT_PER_BYTE // element_bit


def blocked(cache: NDArray[np.generic], block: int) -> NDArray[np.generic]:
    """Return a cache [B, H, S, D] as [B, H, D / block, S, block], so that one line holds one token's part.

    Raises
    ------
    ValueError
        D is not a multiple of the block: it must be padded first, or rows would be read past their end.
    """
    b, h, s, d = _four(cache)
    if block < 1 or d % block:
        raise ValueError(f"block = {block} does not divide the head dimension {d}")
    return np.ascontiguousarray(cache.reshape(b, h, s, d // block, block).transpose(0, 1, 3, 2, 4))


def unblocked(cache: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return a blocked cache in its plain layout; exactly undoes `blocked`."""
    b, h, n, s, block = cache.shape
    return np.ascontiguousarray(cache.transpose(0, 1, 3, 2, 4).reshape(b, h, s, n * block))


def relayout_byte(n_batch: int, n_heads: int, n_tokens: int, head_dim: int, element_bit: int) -> int:
    """Return the bytes that a relayout reads and writes once after prefill [byte], ``2 B H S D b / 8``."""
    for name, value in (("n_batch", n_batch), ("n_heads", n_heads), ("n_tokens", n_tokens), ("head_dim", head_dim)):
        check_range(name, value, 1)
    return 2 * n_batch * n_heads * n_tokens * head_dim * element_bit // BIT_PER_BYTE


def column_conflict_ways(row_byte: int, n_rows: int = 16, n_banks: int = 32, bank_byte: int = 4) -> int:
    """Return how many of `n_rows` threads meet in one bank of shared memory when they read down a column.

    References
    ----------
    docs/articles.md, A13: 16 for rows of 128 byte, 1 for a pitch of 132.
    """
    if row_byte <= 0 or row_byte % bank_byte:
        raise ValueError(f"row_byte = {row_byte} is no positive multiple of {bank_byte}")
    banks = np.arange(n_rows) * (row_byte // bank_byte) % n_banks
    return int(np.bincount(banks).max())


def _four(cache: NDArray[np.generic]) -> tuple[int, int, int, int]:
    if cache.ndim != 4:
        raise ValueError(f"cache has shape {cache.shape}, expected [batch, heads, tokens, head dimension]")
    b, h, s, d = cache.shape
    return b, h, s, d
