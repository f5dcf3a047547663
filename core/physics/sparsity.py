"""Sparsity: the size of matrices with zero weights, and the work that pruned activations would leave out.

References
----------
.. [1] docs/physics.md M1
"""

from __future__ import annotations

import numpy as np

from core.spec import Array
from core.units import check_range

HALF = 0.5  # share of the weights that 2:4 leaves out
INDEX_BIT = 2.0  # of a kept weight in 2:4: its place among four


def sparse_byte_ratio(sparsity: Array, pattern: str, value_bit: float) -> Array:
    """Return the size of a matrix with zero weights over that of the dense one, where a kernel reads the pattern.

    "2:4" holds two of four neighbours and 2 bits of place for each, ``1/2 + 1/b``, from a sparsity of 1/2 on and
    nothing less below it. "rows" holds the rows left, ``1 - s``. "unstructured" holds the values left and a bit for
    each place, ``1 - s + 1/b``. A sparse form that is no smaller is not used.

    Parameters
    ----------
    sparsity : float or ndarray
        Share s of the weights that are zero [1], 0 to below 1.
    pattern : str
        One of `core.spec.SPARSITY_PATTERNS`.
    value_bit : float
        Bits b of a weight with its share of scales [bit], > 0.

    Returns
    -------
    float or ndarray
        Ratio of sizes [1], at most 1.

    Raises
    ------
    ValueError
        An argument is outside its range, or the pattern is unknown.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] docs/articles.md B02, B05

    Examples
    --------
    >>> [round(float(sparse_byte_ratio(0.5, pattern, 8.0)), 4) for pattern in ("2:4", "rows", "unstructured")]
    [0.625, 0.5, 0.625]
    """
    check_range("value_bit", value_bit, 0.0, open_low=True)
    dropped = left_out(sparsity, pattern)
    index = {"2:4": INDEX_BIT * HALF, "rows": 0.0, "unstructured": 1.0}[pattern] / value_bit
    return np.where(dropped > 0.0, np.minimum(1.0 - dropped + index, 1.0), 1.0)


def left_out(sparsity: Array, pattern: str) -> Array:
    """Return the share of the weights that a kernel for the pattern neither unpacks nor multiplies.

    Parameters
    ----------
    sparsity : float or ndarray
        Share of the weights that are zero [1], 0 to below 1.
    pattern : str
        One of `core.spec.SPARSITY_PATTERNS`.

    Returns
    -------
    float or ndarray
        Share [1]: the sparsity; of "2:4" one half from there on, else 0.

    Raises
    ------
    ValueError
        `sparsity` is outside its range, or the pattern is unknown.

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> [float(left_out(s, "2:4")) for s in (0.4, 0.5, 0.8)]
    [0.0, 0.5, 0.5]
    """
    check_range("sparsity", sparsity, 0.0, 1.0, open_high=True)
    if pattern not in ("2:4", "rows", "unstructured"):
        raise ValueError(f"pattern = {pattern!r} is none of 2:4, rows, unstructured")
    share = np.asarray(sparsity, dtype=float)
    return np.where(share >= HALF, HALF, 0.0) if pattern == "2:4" else share


def skipped_down_params(n_layers: Array, hidden_size: Array, intermediate_size: Array, keep: Array) -> Array:
    """Return the weights of a token that a down-projection which skips zero inputs would not read.

    ``N = (1 - keep) L d d_ff``: a zero activation makes a column of the down-projection idle. The gate and up
    projections are computed before the activations are known and read in full.

    Parameters
    ----------
    n_layers : float or ndarray
        Layers L [1].
    hidden_size, intermediate_size : float or ndarray
        Sizes d and d_ff [1].
    keep : float or ndarray
        Share of the activations kept [1], 0 to 1.

    Returns
    -------
    float or ndarray
        Weights [1].

    Raises
    ------
    ValueError
        `keep` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] docs/articles.md B05

    Examples
    --------
    >>> round(float(skipped_down_params(30, 576, 1536, 0.85)))
    3981312
    """
    check_range("keep", keep, 0.0, 1.0)
    return (1.0 - np.asarray(keep, dtype=float)) * n_layers * hidden_size * intermediate_size
