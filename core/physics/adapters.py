"""Low-rank adapters: parameters that a token reads in addition to the weights of the model.

References
----------
.. [1] docs/physics.md M1
"""

from __future__ import annotations

import numpy as np

from core.spec import Array, ModelShape
from core.units import check_range

ADAPTER_BIT = 16.0  # of a stored parameter: adapters are kept in 16 bits on quantised weights too


def adapter_params(shape: ModelShape, rank: Array, matrices: str) -> Array:
    """Return the parameters of low-rank adapters on the matrices of all layers, ``N_a = r sum (in + out)``.

    Parameters
    ----------
    shape : ModelShape
        The model. Its layers without a KV cache count as those with one; a mixture of experts has one adapter a
        layer, not one an expert.
    rank : float or ndarray
        Rank r [1], >= 0; 0 is no adapters.
    matrices : str
        "attention" (query, key, value and output projections) or "all" (gate, up and down projections as well).

    Returns
    -------
    float or ndarray
        Parameters N_a [1].

    Raises
    ------
    ValueError
        `rank` is below 0, or `matrices` is unknown.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] docs/articles.md B12
    .. [3] hu2021, docs/references.md

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> llama = load_catalogue().models["llama-3-8b"]
    >>> [round(float(adapter_params(llama, 16, which))) for which in ("attention", "all")]
    [13631488, 41943040]
    """
    check_range("rank", rank, 0.0)
    hidden, heads, kv = shape.hidden_size, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    widths = 2 * (hidden + heads) + 2 * (hidden + kv)
    if matrices == "all":
        widths += 3 * (hidden + shape.intermediate_size)
    elif matrices != "attention":
        raise ValueError(f"matrices = {matrices!r} is none of attention, all")
    return np.asarray(rank, dtype=float) * shape.n_layers * widths
