"""Memory hierarchies: the bandwidth of a mix of levels, and the bytes in flight that it needs.

References
----------
.. [1] docs/articles.md A03, A04
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

LINE_BYTE = 64


def serial_bandwidth_byte_s(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> Array:
    """Return the bandwidth of a stream whose bytes come from several levels one after the other.

    ``1 / sum(h_i / B_i)``: times add, rates do not. At most the arithmetic mean, equal to it where all bytes come from
    one level or all levels are equally fast.

    Parameters
    ----------
    byte_share : array_like, shape (..., n)
        Share h of the bytes that each level serves [1], summing to 1 along the last axis.
    bandwidth_byte_s : array_like, shape (..., n)
        Bandwidth B of each level [byte/s], > 0; infinite where a level takes no time.

    Returns
    -------
    float or ndarray
        Bandwidth [byte/s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A04

    Examples
    --------
    >>> round(float(serial_bandwidth_byte_s([0.82, 0.18], [768e9, 176e9])) / 1e9, 7)
    478.3691959
    """
    share, bandwidth = _levels(byte_share, bandwidth_byte_s)
    return _rate(np.sum(share / bandwidth, axis=-1))


def filled_bandwidth_byte_s(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> Array:
    """Return the serial bandwidth where a miss first fills the faster levels.

    ``1 / sum_i (sum_{j >= i} h_j) / B_i``: each level carries all bytes of the slower ones as well.

    Parameters
    ----------
    byte_share : array_like, shape (..., n)
        Share h of the bytes that each level serves [1], summing to 1 along the last axis.
    bandwidth_byte_s : array_like, shape (..., n)
        Bandwidth B of each level [byte/s], > 0, the fastest first.

    Returns
    -------
    float or ndarray
        Bandwidth [byte/s].

    Raises
    ------
    ValueError
        An argument is outside its range, or the bandwidths rise.

    References
    ----------
    .. [1] docs/articles.md A04

    Examples
    --------
    >>> round(float(filled_bandwidth_byte_s([0.82, 0.18], [768e9, 176e9])) / 1e9, 7)
    430.1425662
    """
    share, bandwidth = _levels(byte_share, bandwidth_byte_s)
    if np.any(bandwidth[..., 1:] > bandwidth[..., :-1]):
        raise ValueError("bandwidth_byte_s rises from one level to the next, expected the fastest first")
    carried = np.cumsum(share[..., ::-1], axis=-1)[..., ::-1]
    return _rate(np.sum(carried / bandwidth, axis=-1))


def overlapped_bandwidth_byte_s(byte_share: ArrayLike, bandwidth_byte_s: ArrayLike) -> Array:
    """Return the bandwidth where all levels work at the same time, ``1 / max(h_i / B_i)``: the upper end.

    Parameters
    ----------
    byte_share : array_like, shape (..., n)
        Share h of the bytes that each level serves [1], summing to 1 along the last axis.
    bandwidth_byte_s : array_like, shape (..., n)
        Bandwidth B of each level [byte/s], > 0.

    Returns
    -------
    float or ndarray
        Bandwidth [byte/s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A04

    Examples
    --------
    >>> round(float(overlapped_bandwidth_byte_s([0.82, 0.18], [768e9, 176e9])) / 1e9, 7)
    936.5853659
    """
    share, bandwidth = _levels(byte_share, bandwidth_byte_s)
    return _rate(np.max(share / bandwidth, axis=-1))


def worst_over_estimate(ratio: Array) -> Array:
    """Return the largest ratio of the mean of two rates to the true rate, ``(1 + r)^2 / (4 r)`` at equal shares.

    Parameters
    ----------
    ratio : float or ndarray
        Faster over slower bandwidth r [1], >= 1.

    Returns
    -------
    float or ndarray
        Ratio [1].

    Raises
    ------
    ValueError
        `ratio` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A04

    Examples
    --------
    >>> round(float(worst_over_estimate(768 / 176)), 3)
    1.648
    """
    check_range("ratio", ratio, 1.0)
    ratio = np.asarray(ratio)
    return (1.0 + ratio) ** 2 / (4.0 * ratio)


def bus_bandwidth_byte_s(transfers_s: Array, n_channels: int, channel_bit: int) -> Array:
    """Return the peak bandwidth of a DRAM bus, ``transfers n b / 8``.

    Parameters
    ----------
    transfers_s : float or ndarray
        Transfers of one line per second [1/s], > 0.
    n_channels : int
        Channels n [1], >= 1.
    channel_bit : int
        Lines b of a channel [bit], >= 1.

    Returns
    -------
    float or ndarray
        Bandwidth [byte/s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A03

    Examples
    --------
    >>> [round(float(bus_bandwidth_byte_s(mt * 1e6, 8, 16)) / 1e9, 3) for mt in (8533, 9600, 10667)]
    [136.528, 153.6, 170.672]
    """
    check_range("transfers_s", transfers_s, 0.0, open_low=True)
    check_range("n_channels", n_channels, 1)
    check_range("channel_bit", channel_bit, 1)
    return np.multiply(transfers_s, n_channels * channel_bit / BIT_PER_BYTE)


def bytes_in_flight(bandwidth_byte_s: Array, latency_s: Array) -> Array:
    """Return the bytes that must be under way to keep a bus busy, Little's law ``BW t``.

    Parameters
    ----------
    bandwidth_byte_s : float or ndarray
        Bandwidth BW [byte/s], >= 0.
    latency_s : float or ndarray
        Latency t [s], >= 0.

    Returns
    -------
    float or ndarray
        Bytes [byte].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A03
    .. [2] little1961, docs/references.md

    Examples
    --------
    >>> round(float(bytes_in_flight(128e9, 40e-9)), 6), round(float(bytes_in_flight(208e9, 65e-9)), 6)
    (5120.0, 13520.0)
    """
    check_range("bandwidth_byte_s", bandwidth_byte_s, 0.0)
    check_range("latency_s", latency_s, 0.0)
    return np.multiply(bandwidth_byte_s, latency_s)


def core_bandwidth_byte_s(n_outstanding: Array, latency_s: Array, line_byte: int = LINE_BYTE) -> Array:
    """Return the bandwidth of one core with a number of open misses, ``n line / t``.

    Parameters
    ----------
    n_outstanding : float or ndarray
        Open misses n [1], >= 0.
    latency_s : float or ndarray
        Latency t of a miss [s], > 0.
    line_byte : int
        Size of a cache line [byte].

    Returns
    -------
    float or ndarray
        Bandwidth [byte/s].

    Raises
    ------
    ValueError
        `n_outstanding` or `latency_s` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A03
    .. [2] little1961, docs/references.md

    Examples
    --------
    >>> round(float(core_bandwidth_byte_s(80, 40e-9)) / 1e9, 6)
    128.0
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
