"""Largest context that a latency or a memory limit allows.

References
----------
.. [1] docs/articles.md B01
"""

from __future__ import annotations

import numpy as np

from core.spec import Array
from core.units import check_range


def max_context_by_latency(
    time_s: Array, bandwidth_byte_s: Array, weight_byte: Array, kv_byte_per_token: Array, constant_s: Array = 0.0
) -> Array:
    """Return the most cached tokens that a memory-bound token may read in a time, ``floor((BW (T - t_0) - W) / K)``.

    0 where the weights alone take longer.

    Parameters
    ----------
    time_s : float or ndarray
        Limit T on the time per token [s], > 0.
    bandwidth_byte_s : float or ndarray
        Effective bandwidth BW [byte/s], > 0.
    weight_byte : float or ndarray
        Bytes W of weights read per token [byte], >= 0.
    kv_byte_per_token : float or ndarray
        Bytes K of one cached token [byte], > 0.
    constant_s : float or ndarray
        Time t_0 that does not depend on bytes, of layers and constant [s], >= 0.

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
    .. [1] docs/articles.md B01

    Examples
    --------
    >>> float(max_context_by_latency(0.2, 81.92e9, 4221.520128e6, 131072))
    92792.0
    """
    check_range("time_s", time_s, 0.0, open_low=True)
    check_range("bandwidth_byte_s", bandwidth_byte_s, 0.0, open_low=True)
    check_range("constant_s", constant_s, 0.0)
    byte = np.multiply(bandwidth_byte_s, np.subtract(time_s, constant_s))
    return _tokens(byte, weight_byte, kv_byte_per_token, np.multiply(bandwidth_byte_s, time_s))


def max_context_by_memory(memory_byte: Array, weight_byte: Array, kv_byte_per_token: Array) -> Array:
    """Return the most cached tokens that fit in memory with the weights, ``floor((M - W) / K)``; 0 if none do.

    Parameters
    ----------
    memory_byte : float or ndarray
        Memory M [byte], > 0.
    weight_byte : float or ndarray
        Bytes W of all weights [byte], >= 0.
    kv_byte_per_token : float or ndarray
        Bytes K of one cached token [byte], > 0.

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
    .. [1] docs/articles.md B01

    Examples
    --------
    >>> float(max_context_by_memory(8e9, 8030261248 * 4.5 / 8, 131072))
    26573.0
    """
    check_range("memory_byte", memory_byte, 0.0, open_low=True)
    return _tokens(memory_byte, weight_byte, kv_byte_per_token, memory_byte)


def _tokens(byte: Array, weight_byte: Array, kv_byte_per_token: Array, largest_byte: Array) -> Array:
    """Return the whole tokens, where a limit met exactly is met: `largest_byte` is the term that rounds most."""
    check_range("weight_byte", weight_byte, 0.0)
    check_range("kv_byte_per_token", kv_byte_per_token, 0.0, open_low=True)
    rounding = 8 * np.finfo(float).eps * np.asarray(largest_byte)
    return np.maximum(0.0, np.floor((np.subtract(byte, weight_byte) + rounding) / kv_byte_per_token))
