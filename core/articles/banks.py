"""Address layouts: memory banks, aligned blocks, KV regions of a layer, and the blocked relayout of a cache.

References
----------
.. [1] docs/articles.md A11, A13, A14, B08
.. [2] docs/physics.md M3
"""

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

    Parameters
    ----------
    address : int or ndarray of int
        Address [byte], >= 0.
    n_banks : int
        Banks n [1].
    granule_byte : int
        Granule of the interleaving [byte].

    Returns
    -------
    int or ndarray of int
        Bank [1], 0 to n - 1.

    Raises
    ------
    ValueError
        `address` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> [bank_of(address) for address in (0, 0xFFF, 0x1000, 0x7FFF, 0x8000, 0x12345)]
    [0, 0, 1, 7, 0, 2]
    """
    check_range("address", address, 0)
    return address // granule_byte % n_banks


def hashed_bank_of(address: Whole, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE) -> Whole:
    """Return the bank of each address with the next address bits folded in by exclusive or.

    ``((address / granule) xor (address / (granule n))) mod n``: strides of a power of two then visit all banks.

    Parameters
    ----------
    address : int or ndarray of int
        Address [byte], >= 0.
    n_banks : int
        Banks n [1], a power of two.
    granule_byte : int
        Granule of the interleaving [byte].

    Returns
    -------
    int or ndarray of int
        Bank [1], 0 to n - 1.

    Raises
    ------
    ValueError
        `address` is below 0, or `n_banks` is no power of two.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> [hashed_bank_of(i * 32 * 1024) for i in range(8)]
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    check_range("address", address, 0)
    if n_banks < 1 or n_banks & (n_banks - 1):
        raise ValueError(f"n_banks = {n_banks} is no power of 2")
    granule = address // granule_byte
    return (granule ^ granule // n_banks) % n_banks


def distinct_banks(stride_byte: Whole, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE) -> Whole:
    """Return the number of banks that accesses with a stride visit, ``n / gcd(n, stride / granule)``.

    Parameters
    ----------
    stride_byte : int or ndarray of int
        Stride [byte], a positive multiple of the granule.
    n_banks : int
        Banks n [1].
    granule_byte : int
        Granule of the interleaving [byte].

    Returns
    -------
    int or ndarray of int
        Banks [1].

    Raises
    ------
    ValueError
        `stride_byte` is no positive multiple of the granule.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> [distinct_banks(kib * 1024) for kib in (4, 8, 12, 16, 32)]
    [8, 4, 8, 2, 1]
    """
    if np.any(np.less_equal(stride_byte, 0) | (np.mod(stride_byte, granule_byte) != 0)):
        raise ValueError(f"stride_byte = {stride_byte} is no positive multiple of {granule_byte}")
    visited: Whole = n_banks // np.gcd(n_banks, stride_byte // granule_byte)
    return visited if np.ndim(visited) else int(visited)


def bank_loads(
    start_byte: int, size_byte: int, n_banks: int = N_BANKS, granule_byte: int = GRANULE_BYTE
) -> NDArray[np.int64]:
    """Return the bytes of a contiguous block that each bank holds.

    Parameters
    ----------
    start_byte : int
        Address of the block [byte], >= 0.
    size_byte : int
        Size of the block [byte], >= 1.
    n_banks : int
        Banks n [1].
    granule_byte : int
        Granule of the interleaving [byte].

    Returns
    -------
    ndarray of int, shape (n_banks,)
        Bytes in each bank [byte].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> [int(load) for load in bank_loads(0, 16 * 1024) // 1024]
    [4, 4, 4, 4, 0, 0, 0, 0]
    """
    check_range("start_byte", start_byte, 0)
    check_range("size_byte", size_byte, 1)
    first, last = start_byte // granule_byte, (start_byte + size_byte - 1) // granule_byte
    granule = np.arange(first, last + 1)
    low = np.maximum(granule * granule_byte, start_byte)
    high = np.minimum((granule + 1) * granule_byte, start_byte + size_byte)
    return np.bincount(granule % n_banks, weights=high - low, minlength=n_banks).astype(np.int64)


def balance(load_byte: ArrayLike) -> float:
    """Return the mean over the largest load of the banks, 1 where all loads are equal.

    Parameters
    ----------
    load_byte : array_like, shape (n,)
        Load of each bank [byte], >= 0, not all 0.

    Returns
    -------
    float
        Balance [1].

    Raises
    ------
    ValueError
        `load_byte` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> balance(bank_loads(0, 48 * 1024)), balance([32, 16, 0, 0, 0, 0, 0, 0])
    (0.75, 0.1875)
    """
    loads = np.asarray(load_byte, dtype=float)
    check_range("load_byte", loads, 0.0)
    check_range("largest load_byte", loads.max(), 0.0, open_low=True)
    return float(loads.mean() / loads.max())


def aligned_fill(block_byte: Array, align_byte: int = GRANULE_BYTE) -> Array:
    """Return the share of its aligned region that a block fills, ``size / (ceil(size / align) align)``.

    Parameters
    ----------
    block_byte : float or ndarray
        Size of the block [byte], > 0.
    align_byte : int
        Alignment [byte].

    Returns
    -------
    float or ndarray
        Share [1].

    Raises
    ------
    ValueError
        `block_byte` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A11

    Examples
    --------
    >>> [float(aligned_fill(byte)) for byte in (16 * 16 / 2, 64 * 64 / 2, 64 * 64)]
    [0.03125, 0.5, 1.0]
    """
    check_range("block_byte", block_byte, 0.0, open_low=True)
    return block_byte / (np.ceil(np.asarray(block_byte) / align_byte) * align_byte)


# --- the KV region of a layer -----------------------------------------------------------------------------------------


def layer_capacity_tokens(region_byte: Array, token_byte: Array, tag_byte: int = TAG_BYTE) -> Array:
    """Return the tokens that fit into a layer's region with its version tag, ``floor((region - tag) / token)``.

    Parameters
    ----------
    region_byte : float or ndarray
        Size of the region [byte], at least that of the tag.
    token_byte : float or ndarray
        Bytes of one cached token in one layer [byte], > 0.
    tag_byte : int
        Size of the tag [byte].

    Returns
    -------
    float or ndarray
        Tokens [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A14

    Examples
    --------
    >>> [int(layer_capacity_tokens(256 * 1024, token)) for token in (4096, 16384, 1024)]
    [63, 15, 255]
    """
    check_range("region_byte", region_byte, tag_byte)
    check_range("token_byte", token_byte, 0.0, open_low=True)
    return (region_byte - tag_byte) // token_byte


def layer_stride_byte(
    n_tokens: Array, token_byte: Array, page_byte: int = PAGE_BYTE, tag_byte: int = TAG_BYTE
) -> Array:
    """Return the distance between layers in whole pages, ``ceil((n token + tag) / page) page``.

    Parameters
    ----------
    n_tokens : float or ndarray
        Tokens n that each layer holds [1], >= 1.
    token_byte : float or ndarray
        Bytes of one cached token in one layer [byte], > 0.
    page_byte : int
        Size of a page [byte].
    tag_byte : int
        Size of the version tag of a layer [byte].

    Returns
    -------
    float or ndarray
        Distance [byte].

    Raises
    ------
    ValueError
        `n_tokens` or `token_byte` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A14

    Examples
    --------
    >>> float(layer_stride_byte(2048, 4096)), float(layer_stride_byte(2048, 4096)) / PAGE_BYTE
    (8454144.0, 129.0)
    """
    check_range("n_tokens", n_tokens, 1)
    check_range("token_byte", token_byte, 0.0, open_low=True)
    return np.ceil((np.multiply(n_tokens, token_byte) + tag_byte) / page_byte) * page_byte


# --- relayout ---------------------------------------------------------------------------------------------------------


def line_elements(element_bit: int, line_byte: int = LINE_BYTE) -> int:
    """Return the elements that one memory line holds, ``8 line / b``.

    Parameters
    ----------
    element_bit : int
        Bits b of an element [bit], >= 1.
    line_byte : int
        Size of a line [byte].

    Returns
    -------
    int
        Elements [1].

    Raises
    ------
    ValueError
        `element_bit` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B08

    Examples
    --------
    >>> [line_elements(bit) for bit in (32, 16, 8, 4)]
    [32, 64, 128, 256]
    """
    check_range("element_bit", element_bit, 1)
    return line_byte * BIT_PER_BYTE // element_bit


def blocked(cache: NDArray[np.generic], block: int) -> NDArray[np.generic]:
    """Return a cache [B, H, S, D] as [B, H, D / block, S, block], so that one line holds one token's part.

    Parameters
    ----------
    cache : ndarray, shape (B, H, S, D)
        Keys or values [any unit].
    block : int
        Elements of a block [1], a divisor of D.

    Returns
    -------
    ndarray, shape (B, H, D / block, S, block)
        The same elements, block by block [unit of `cache`].

    Raises
    ------
    ValueError
        `cache` has not four axes, or `block` does not divide D: pad D first, since rows would be read past their end.

    References
    ----------
    .. [1] docs/physics.md M3
    .. [2] docs/articles.md B08

    Examples
    --------
    >>> cache = np.arange(2 * 128).reshape(1, 1, 2, 128)
    >>> blocked(cache, 64).shape, int(blocked(cache, 64)[0, 0, 1, 0, 0])
    ((1, 1, 2, 2, 64), 64)
    """
    b, h, s, d = _four(cache)
    if block < 1 or d % block:
        raise ValueError(f"block = {block} does not divide the head dimension {d}")
    return np.ascontiguousarray(cache.reshape(b, h, s, d // block, block).transpose(0, 1, 3, 2, 4))


def unblocked(cache: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return a blocked cache in its plain layout, the inverse of `blocked`.

    Parameters
    ----------
    cache : ndarray, shape (B, H, D / block, S, block)
        Keys or values by block [any unit].

    Returns
    -------
    ndarray, shape (B, H, S, D)
        The same elements [unit of `cache`].

    References
    ----------
    .. [1] docs/physics.md M3
    .. [2] docs/articles.md B08

    Examples
    --------
    >>> cache = np.arange(2 * 128).reshape(1, 1, 2, 128)
    >>> bool(np.array_equal(unblocked(blocked(cache, 64)), cache))
    True
    """
    b, h, n, s, block = cache.shape
    return np.ascontiguousarray(cache.transpose(0, 1, 3, 2, 4).reshape(b, h, s, n * block))


def relayout_byte(n_batch: int, n_heads: int, n_tokens: int, head_dim: int, element_bit: int) -> int:
    """Return the bytes that one relayout after prefill reads and writes, ``2 B H S D b / 8``.

    Parameters
    ----------
    n_batch, n_heads, n_tokens, head_dim : int
        Batch B, KV heads H, tokens S and head dimension D [1], >= 1.
    element_bit : int
        Bits b of an element [bit].

    Returns
    -------
    int
        Bytes [byte].

    Raises
    ------
    ValueError
        An argument but `element_bit` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M3
    .. [2] docs/articles.md B08

    Examples
    --------
    >>> relayout_byte(1, 8, 2048, 128, 16)
    8388608
    """
    for name, value in (("n_batch", n_batch), ("n_heads", n_heads), ("n_tokens", n_tokens), ("head_dim", head_dim)):
        check_range(name, value, 1)
    return 2 * n_batch * n_heads * n_tokens * head_dim * element_bit // BIT_PER_BYTE


def column_conflict_ways(row_byte: int, n_rows: int = 16, n_banks: int = 32, bank_byte: int = 4) -> int:
    """Return the threads that meet in one bank of shared memory when they read down a column.

    Parameters
    ----------
    row_byte : int
        Pitch of a row [byte], a positive multiple of `bank_byte`.
    n_rows : int
        Threads, one a row [1].
    n_banks : int
        Banks [1].
    bank_byte : int
        Width of a bank [byte].

    Returns
    -------
    int
        Threads in the fullest bank [1].

    Raises
    ------
    ValueError
        `row_byte` is no positive multiple of `bank_byte`.

    References
    ----------
    .. [1] docs/articles.md A13

    Examples
    --------
    >>> column_conflict_ways(128), column_conflict_ways(132)
    (16, 1)
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
