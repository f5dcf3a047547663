"""Memory hierarchies: the bandwidth of a mix of levels, and what it takes to reach it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

LINE_BYTE = 64


def serial_bandwidth_byte_s(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> Array:
    """Return the bandwidth of a stream whose bytes come from several levels one after the other [byte/s].

    ``1 / sum(h_i / B_i)``: times add, rates do not. Never above the arithmetic mean, equal to it only where all bytes
    come from one level or all levels are equally fast.

    Parameters
    ----------
    byte_share : array, shape (..., n)
        Share of the bytes that each of n levels serves, summing to 1 along the last axis.
    bandwidth_byte_s : array, shape (..., n)
        Bandwidth of each level [byte/s], > 0; infinite where a level takes no time.

    References
    ----------
    docs/articles.md, A04: 478.37 GB/s for 82 % at 768 and 18 % at 176 GB/s.
    """
    share, bandwidth = _levels(byte_share, bandwidth_byte_s)
    return _rate(np.sum(share / bandwidth, axis=-1))


def filled_bandwidth_byte_s(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> Array:
    """Return the serial bandwidth when a miss first fills the faster levels: each level carries all bytes beyond it.

    ``1 / sum_i (sum_{j >= i} h_j) / B_i``, levels from the fastest to the slowest; else as
    `serial_bandwidth_byte_s`.

    References
    ----------
    docs/articles.md, A04: 430.14 GB/s.
    """
    share, bandwidth = _levels(byte_share, bandwidth_byte_s)
    if np.any(bandwidth[..., 1:] > bandwidth[..., :-1]):
        raise ValueError("bandwidth_byte_s rises from one level to the next, expected the fastest first")
    carried = np.cumsum(share[..., ::-1], axis=-1)[..., ::-1]
    return _rate(np.sum(carried / bandwidth, axis=-1))


def overlapped_bandwidth_byte_s(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> Array:
    """Return the bandwidth when all levels work at the same time, ``1 / max(h_i / B_i)`` [byte/s]: the upper end.

    Arguments as in `serial_bandwidth_byte_s`.

    References
    ----------
    docs/articles.md, A04: 936.59 GB/s.
    """
    share, bandwidth = _levels(byte_share, bandwidth_byte_s)
    return _rate(np.max(share / bandwidth, axis=-1))


def worst_over_estimate(ratio: Array) -> Array:
    """Return by how much the mean of two rates exceeds the true rate at worst, ``(1 + r)**2 / (4 r)`` at equal shares.

    `ratio` is the faster bandwidth over the slower, >= 1.
    """
    check_range("ratio", ratio, 1.0)
    ratio = np.asarray(ratio)
    return (1.0 + ratio) ** 2 / (4.0 * ratio)


def bus_bandwidth_byte_s(transfers_s: Array, n_channels: int, channel_bit: int) -> Array:
    """Return the peak of a DRAM bus [byte/s]: transfers per second times its width.

    Parameters
    ----------
    transfers_s : float or array
        Transfers of one line per second, > 0 [1/s].
    n_channels, channel_bit : int or array
        Channels and lines of each, >= 1.

    References
    ----------
    docs/articles.md, A03: 136.528 GB/s for 8 channels of 16 bit at 8533 MT/s.
    """
    check_range("transfers_s", transfers_s, 0.0, open_low=True)
    check_range("n_channels", n_channels, 1)
    check_range("channel_bit", channel_bit, 1)
    return np.multiply(transfers_s, n_channels * channel_bit / BIT_PER_BYTE)


def bytes_in_flight(bandwidth_byte_s: Array, latency_s: Array) -> Array:
    """Return the bytes that must be under way to keep a bus busy [byte], Little's law ``BW * latency``.

    Parameters
    ----------
    bandwidth_byte_s, latency_s : float or array
        >= 0 [byte/s, s].

    References
    ----------
    docs/articles.md, A03: 5120 byte, 80 lines of 64, for 128 GB/s and 40 ns.
    """
    check_range("bandwidth_byte_s", bandwidth_byte_s, 0.0)
    check_range("latency_s", latency_s, 0.0)
    return np.multiply(bandwidth_byte_s, latency_s)


def core_bandwidth_byte_s(n_outstanding: Array, latency_s: Array, line_byte: int = LINE_BYTE) -> Array:
    """Return what one core can pull when it keeps `n_outstanding` misses open [byte/s], ``n * line / latency``.

    Parameters
    ----------
    n_outstanding, latency_s : float or array
        >= 0, and the latency of one miss, > 0 [s].
    line_byte : int
        Size of a cache line [byte].

    References
    ----------
    docs/articles.md, A03.
    """
    check_range("n_outstanding", n_outstanding, 0.0)
    check_range("latency_s", latency_s, 0.0, open_low=True)
    return np.multiply(n_outstanding, line_byte) / latency_s


def _levels(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    share, bandwidth = np.asarray(byte_share, dtype=float), np.asarray(bandwidth_byte_s, dtype=float)
    if not (share.ndim and bandwidth.ndim) or share.shape[-1] != bandwidth.shape[-1] or not share.size:
        raise ValueError(f"byte_share {share.shape} and bandwidth_byte_s {bandwidth.shape} are not one value a level")
    check_range("byte_share", share, 0.0, 1.0)
    check_range("bandwidth_byte_s", bandwidth, 0.0, open_low=True)
    check_range("sum of byte_share", share.sum(axis=-1), 1.0 - 1e-9, 1.0 + 1e-9)
    return share, bandwidth


def _rate(time_s_byte: Array) -> Array:
    """Return the bandwidth of a time for each byte; infinite where it takes none."""
    with np.errstate(divide="ignore"):
        rate: Array = np.divide(1.0, time_s_byte)
    return rate
