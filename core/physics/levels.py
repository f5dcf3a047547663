"""Levels of memory: the time of traffic of which on-chip memory serves a share.

References
----------
.. [1] docs/physics.md M1
"""

from __future__ import annotations

import numpy as np

from core.spec import Array
from core.units import check_range


def byte_cost(on_chip_frac: Array, on_chip_byte_s: Array, bandwidth_byte_s: Array) -> Array:
    """Return the mean time of a byte over that of one from DRAM, ``c = 1 - h + h B / B_on``.

    The levels serve in turn, so times add: ``B / c`` is the serial mix of both bandwidths.

    Parameters
    ----------
    on_chip_frac : float or ndarray
        Share h of the bytes that on-chip memory serves [1], 0 to 1.
    on_chip_byte_s : float or ndarray
        Bandwidth B_on of the on-chip memory [byte/s], > 0; infinite where its bytes take no time.
    bandwidth_byte_s : float or ndarray
        Bandwidth B of the DRAM [byte/s], > 0.

    Returns
    -------
    float or ndarray
        Ratio of times [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] docs/articles.md A04

    Examples
    --------
    >>> round(176.0 / float(byte_cost(0.82, 768.0, 176.0)), 7)
    478.3691959
    """
    check_range("on_chip_frac", on_chip_frac, 0.0, 1.0)
    check_range("on_chip_byte_s", on_chip_byte_s, 0.0, open_low=True)
    check_range("bandwidth_byte_s", bandwidth_byte_s, 0.0, open_low=True)
    share = np.asarray(on_chip_frac, dtype=float)
    ratio = np.asarray(bandwidth_byte_s, dtype=float) / np.asarray(on_chip_byte_s, dtype=float)
    return np.asarray(1.0 - share + share * ratio)
