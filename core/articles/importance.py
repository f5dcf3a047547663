"""Importance of cached tokens: attention mass, key norm, recency, sensitivity to position; and selection of the kept.

A token's score is a weighted sum of ranks of these signs, so that no unit has an influence. Sinks and recent tokens
always stay.

References
----------
.. [1] docs/articles.md A10
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.units import check_range

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """Weights of the signs of importance, each from 0 to 1, summing to 1.

    Attributes
    ----------
    mass : float
        Of attention mass [1].
    small_norm : float
        Of the inverse key norm [1]: keys of small norm attract attention (devoto2024, docs/references.md).
    recency : float
        Of the position [1], the newest highest.
    phase : float
        Of the sensitivity to position [1].
    """

    mass: float = 0.5
    small_norm: float = 0.25
    recency: float = 0.25
    phase: float = 0.0

    def __post_init__(self) -> None:
        values = [getattr(self, field.name) for field in fields(self)]
        for field, value in zip(fields(self), values, strict=True):
            check_range(f"weight of {field.name}", value, 0.0, 1.0)
        check_range("sum of weights", sum(values), 1.0 - 1e-9, 1.0 + 1e-9)


def importance(
    mass: ArrayLike, key_norm: ArrayLike, phase: ArrayLike | None = None, weights: ScoreWeights | None = None
) -> Vector:
    """Return the importance of each cached token, the oldest first.

    ``w_mass r(mass) + w_norm (1 - r(norm)) + w_recency r(index) + w_phase r(phase)`` with r the rank from 0 to 1.

    Parameters
    ----------
    mass : array_like, shape (L,)
        Attention mass received from recent queries [1], >= 0.
    key_norm : array_like, shape (L,)
        Norms of the keys [1], >= 0.
    phase : array_like, shape (L,), optional
        Sensitivity to position as `rotary_sensitivity` bounds it [1], >= 0; needed where its weight is not 0.
    weights : ScoreWeights, optional
        Weights w of the signs.

    Returns
    -------
    ndarray, shape (L,)
        Importance [1], 0 to 1.

    Raises
    ------
    ValueError
        A value is below 0 or NaN, columns are unequal, or `phase` is missing.

    References
    ----------
    .. [1] docs/articles.md A10
    .. [2] devoto2024, docs/references.md

    Examples
    --------
    >>> importance([0.1, 0.2, 0.7], [3.0, 2.0, 1.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    w = weights or ScoreWeights()
    m, norm = np.asarray(mass, dtype=float), np.asarray(key_norm, dtype=float)
    if m.shape != norm.shape or m.ndim != 1 or not m.size:
        raise ValueError(f"mass {m.shape} and key_norm {norm.shape} are not one value a token")
    check_range("mass", m, 0.0)
    check_range("key_norm", norm, 0.0)
    score = w.mass * _rank(m) + w.small_norm * (1.0 - _rank(norm)) + w.recency * _rank(np.arange(float(m.size)))
    if w.phase:
        if phase is None:
            raise ValueError(f"phase is not given, but its weight is {w.phase:g}")
        sensitivity = np.asarray(phase, dtype=float)
        if sensitivity.shape != m.shape:
            raise ValueError(f"phase {sensitivity.shape} and mass {m.shape} are not one value a token")
        check_range("phase", sensitivity, 0.0)
        score = score + w.phase * _rank(sensitivity)
    return np.asarray(score)


def _rank(values: Vector) -> Vector:
    """Return ranks from 0 to 1; equal values share the mean of theirs."""
    if values.size == 1:
        return np.ones(1)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1.0
    return np.asarray((last - (counts - 1) / 2.0)[inverse] / (values.size - 1))


def kept_tokens(score: ArrayLike, n_keep: int, n_sinks: int = 4, n_recent: int = 32) -> NDArray[np.int64]:
    """Return the indices of the kept tokens in their order: sinks, recent window, then the highest scores.

    Where `n_keep` does not hold sinks and window, the sinks have precedence. Of equal scores the more recent token
    stays.

    Parameters
    ----------
    score : array_like, shape (L,)
        Score of each token [1], the oldest first.
    n_keep : int
        Tokens kept [1], 1 to L.
    n_sinks : int
        First tokens that always stay [1], >= 0.
    n_recent : int
        Last tokens that always stay [1], >= 0.

    Returns
    -------
    ndarray of int, shape (n_keep,)
        Indices [1], rising.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A10
    .. [2] xiao2024, docs/references.md

    Examples
    --------
    >>> kept_tokens(age_decay(8, 128.0), 3, n_sinks=0, n_recent=0).tolist()
    [5, 6, 7]
    """
    values = np.asarray(score, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"score has shape {values.shape}, expected one value a token")
    check_range("score", values, -np.inf)
    check_range("n_keep", n_keep, 1, values.size)
    check_range("n_sinks", n_sinks, 0)
    check_range("n_recent", n_recent, 0)
    n_sinks = min(n_sinks, n_keep)
    n_recent = min(n_recent, n_keep - n_sinks)
    forced = values.copy()
    forced[values.size - n_recent :] = np.inf
    forced[:n_sinks] = np.inf
    order = np.lexsort((np.arange(values.size), forced))
    return np.sort(order[values.size - n_keep :]).astype(np.int64)


def age_decay(n_tokens: int, length_tokens: float) -> Vector:
    """Return a weight that decays with the age of each token, ``exp(-age / length)``, the oldest first.

    Parameters
    ----------
    n_tokens : int
        Tokens [1], >= 1.
    length_tokens : float
        Length of the decay [token], > 0.

    Returns
    -------
    ndarray, shape (n_tokens,)
        Weights [1]; 1 for the newest token.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A10

    Examples
    --------
    >>> np.round(age_decay(3, 128.0), 6).tolist()
    [0.984496, 0.992218, 1.0]
    """
    check_range("n_tokens", n_tokens, 1)
    check_range("length_tokens", length_tokens, 0.0, open_low=True)
    return np.exp(-np.arange(n_tokens - 1.0, -1.0, -1.0) / length_tokens)


# --- rotary embedding -------------------------------------------------------------------------------------------------


def rotary_frequencies(head_dim: int, base: float = 10_000.0) -> Vector:
    """Return the angle per position of each pair of a rotary embedding, ``theta_j = base^(-2 j / d)``.

    Parameters
    ----------
    head_dim : int
        Head dimension d [1], even, >= 2.
    base : float
        Base [1], > 1.

    Returns
    -------
    ndarray, shape (d / 2,)
        Angles [rad/token].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A10
    .. [2] su2021, docs/references.md

    Examples
    --------
    >>> np.round(rotary_frequencies(8), 6).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim = {head_dim} is not an even number of 2 or more")
    check_range("base", base, 1.0, open_low=True)
    return base ** (-np.arange(0.0, head_dim, 2.0) / head_dim)


def rotary_score_slope(query: ArrayLike, key: ArrayLike, distance: float, base: float = 10_000.0) -> float:
    """Return the derivative of a rotary score by the distance of query and key, ``d/dD (q . R(D) k)``.

    Pairs are (0, 1), (2, 3), ...

    Parameters
    ----------
    query, key : array_like, shape (d,)
        Query q and key k [any unit], d even.
    distance : float
        Distance D [token].
    base : float
        Base of the rotary embedding [1], > 1.

    Returns
    -------
    float
        Slope [product of the units per token].

    Raises
    ------
    ValueError
        An argument is outside its range, or a vector has an odd number of values.

    References
    ----------
    .. [1] docs/articles.md A10
    .. [2] su2021, docs/references.md

    Examples
    --------
    >>> round(rotary_score_slope([1.0, 0.0], [1.0, 0.0], np.pi / 2), 6)
    -1.0
    """
    q, k, theta = _pairs(query), _pairs(key), rotary_frequencies(np.size(query), base)
    turned = np.conj(q) * k * np.exp(1j * theta * distance)
    return float(np.real(np.sum(1j * theta * turned)))


def rotary_sensitivity(query: ArrayLike, key: ArrayLike, base: float = 10_000.0) -> float:
    """Return a bound of the slope of a rotary score at any distance, ``sum_j theta_j |q_j| |k_j|``.

    Parameters
    ----------
    query, key : array_like, shape (d,)
        Query q and key k [any unit], d even.
    base : float
        Base of the rotary embedding [1], > 1.

    Returns
    -------
    float
        Bound [product of the units per token].

    Raises
    ------
    ValueError
        An argument is outside its range, or a vector has an odd number of values.

    References
    ----------
    .. [1] docs/articles.md A10
    .. [2] su2021, docs/references.md

    Examples
    --------
    >>> round(rotary_sensitivity([1.0, 0.0, 3.0, 4.0], [1.0, 0.0, 2.0, 0.0]), 6)
    1.1
    """
    q, k, theta = _pairs(query), _pairs(key), rotary_frequencies(np.size(query), base)
    return float(np.sum(theta * np.abs(q) * np.abs(k)))


def _pairs(vector: ArrayLike) -> NDArray[np.complex128]:
    values = np.asarray(vector, dtype=float)
    if values.ndim != 1 or values.size < 2 or values.size % 2:
        raise ValueError(f"vector has shape {values.shape}, expected an even number of values")
    return np.asarray(values[0::2] + 1j * values[1::2])
