"""KV pruning: tokens kept, attention mass retained, error of the output, and the largest safe prune rate.

Notation: L cached tokens, alpha the share removed, p the attention mass of each token (sums to 1), H = -sum p ln p its
entropy in nats, eps the mass that pruning drops.

References
----------
.. [1] docs/physics.md M4
.. [2] docs/articles.md A02, A05, A12
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import BY_NAME, Array
from core.units import check_range

ZIPF_EXPONENT = 1.2
"""[prior] Attention mass by rank falls as rank**-1.2; at 2048 tokens that is an entropy of 4.49 nats."""

_FEW = 16  # below this many terms a harmonic number is summed term by term
_TABLED = 1 << 16  # up to this many tokens the sums are tabulated
_ROUNDING = 1e-9  # so that 10 tokens at alpha = 0.9 keep 1, not 2, of 10 - 9.000000000000002


def keep_count(n_tokens: Array, alpha: Array) -> Array:
    """Return the number of tokens kept when a share is removed, ``max(1, ceil(L - alpha L))``.

    Parameters
    ----------
    n_tokens : float or ndarray
        Cached tokens L [1], >= 1.
    alpha : float or ndarray
        Share alpha removed [1], 0 to below 1.

    Returns
    -------
    float or ndarray
        Tokens kept [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] docs/articles.md A02

    Examples
    --------
    >>> [int(keep_count(*pair)) for pair in ((2048, 0.6), (2048, 0.623), (10, 0.9), (1, 0.99))]
    [820, 773, 1, 1]
    """
    check_range("n_tokens", n_tokens, 1.0)
    BY_NAME["alpha"].check(alpha)
    return np.maximum(1.0, np.ceil(n_tokens - alpha * np.asarray(n_tokens) - _ROUNDING))


def page_keep_frac(keep_frac: Array, page_tokens: int) -> Array:
    """Return the share of pages still read when tokens are kept at random inside pages, ``1 - (1 - keep)^page``.

    Parameters
    ----------
    keep_frac : float or ndarray
        Share of tokens kept [1], 0 to 1.
    page_tokens : int
        Tokens of a page [1], >= 1.

    Returns
    -------
    float or ndarray
        Share of pages read [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> round(float(page_keep_frac(0.4, 16)), 4)
    0.9997
    """
    check_range("keep_frac", keep_frac, 0.0, 1.0)
    check_range("page_tokens", page_tokens, 1.0)
    return 1.0 - (1.0 - np.asarray(keep_frac)) ** page_tokens


# --- attention mass ---------------------------------------------------------------------------------------------------


def harmonic_number(n: Array, exponent: float) -> Array:
    """Return the generalised harmonic number, ``H_n,s = sum_{i=1..n} i^-s``.

    Term by term below 16, Euler-Maclaurin above; relative error below 1e-12.

    Parameters
    ----------
    n : float or ndarray
        Whole number n of terms [1], >= 0.
    exponent : float
        Exponent s [1], 0 to 4.

    Returns
    -------
    float or ndarray
        Sum [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> round(float(harmonic_number(4.0, 1.0)), 6)
    2.083333
    """
    check_range("n", n, 0.0)
    check_range("exponent", exponent, 0.0, 4.0)
    total: Array = _harmonic(n, exponent)
    return total


def _harmonic(n: Any, s: float) -> Any:
    few = np.concatenate([[0.0], np.cumsum(np.arange(1.0, _FEW + 1.0) ** -s)])
    constant = few[_FEW] - _euler_maclaurin(np.float64(_FEW), s)
    many = constant + _euler_maclaurin(np.maximum(n, float(_FEW)), s)
    if np.min(n) >= _FEW:
        return many
    return np.where(np.less(n, _FEW), few[np.minimum(n, _FEW).astype(np.intp)], many)


@lru_cache(maxsize=4)
def _table(s: float) -> NDArray[np.float64]:
    """Return the generalised harmonic numbers of 0 to `_TABLED`."""
    terms = np.arange(1.0, _TABLED + 1.0) ** -s
    return np.concatenate([[0.0], np.cumsum(terms, dtype=np.longdouble).astype(float)])


def _euler_maclaurin(n: Any, s: float) -> Any:
    """Return the integral of x^-s from 1 to n plus the correction terms at n (Bernoulli numbers up to B6)."""
    log_n = np.log(n)
    integral = log_n if s == 1.0 else np.expm1((1.0 - s) * log_n) / (1.0 - s)
    inverse = 1.0 / (n * n)
    tail = 0.5 - s / (12.0 * n) * (
        1.0 - (s + 1) * (s + 2) / 60.0 * inverse * (1.0 - (s + 3) * (s + 4) / 42.0 * inverse)
    )
    return integral + np.exp(-s * log_n) * tail


def zipf_retained_mass(n_tokens: Array, n_keep: Array, exponent: float = ZIPF_EXPONENT) -> Array:
    """Return the attention mass of the heaviest tokens when mass falls as ``rank^-s``.

    ``m = H(n_keep, s) / H(n_tokens, s)`` with H of `harmonic_number`; up to 65536 tokens the sums are tabulated.

    Parameters
    ----------
    n_tokens : float or ndarray
        Whole number of cached tokens [1], >= 1.
    n_keep : float or ndarray
        Whole number of tokens kept [1], 1 to `n_tokens`.
    exponent : float
        Exponent s [1], 0 to 4.

    Returns
    -------
    float or ndarray
        Mass [1], above 0 to 1.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> [round(float(zipf_retained_mass(2048, 820, s)), 4) for s in (0.8, 1.0, 1.2, 1.5)]
    [0.7927, 0.8884, 0.9515, 0.99]
    """
    check_range("n_keep", n_keep, 1.0)
    check_range("n_keep / n_tokens", np.asarray(n_keep) / n_tokens, 0.0, 1.0)
    check_range("exponent", exponent, 0.0, 4.0)
    if np.max(n_tokens, initial=0) <= _TABLED:
        sums = _table(exponent)
        kept: Array = sums[np.asarray(n_keep, dtype=np.intp)] / sums[np.asarray(n_tokens, dtype=np.intp)]
        return kept
    kept = _harmonic(n_keep, exponent) / _harmonic(n_tokens, exponent)
    return kept


def zipf_entropy(n_tokens: int, exponent: float = ZIPF_EXPONENT) -> float:
    """Return the entropy of attention mass that falls as ``rank^-s``.

    Parameters
    ----------
    n_tokens : int
        Cached tokens [1], >= 1.
    exponent : float
        Exponent s [1].

    Returns
    -------
    float
        Entropy [nat].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> round(zipf_entropy(2048), 2)
    4.49
    """
    check_range("n_tokens", n_tokens, 1.0)
    mass = np.arange(1.0, n_tokens + 1.0) ** -exponent
    return entropy(mass / mass.sum())


def retained_mass(mass: ArrayLike, n_keep: int) -> float:
    """Return the share of a measured attention mass that its heaviest tokens hold.

    Parameters
    ----------
    mass : array_like, shape (L,)
        Attention mass of each token [1], >= 0, summing to 1.
    n_keep : int
        Tokens kept [1], 1 to L.

    Returns
    -------
    float
        Mass [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> round(retained_mass([0.1, 0.6, 0.3], 2), 6)
    0.9
    """
    p = _distribution(mass)
    check_range("n_keep", n_keep, 1.0, p.size)
    return float(np.sort(p)[-n_keep:].sum())


def entropy(mass: ArrayLike) -> float:
    """Return the entropy of a distribution, ``H = -sum p ln p``; entries of 0 add nothing.

    Parameters
    ----------
    mass : array_like, shape (L,)
        Distribution p [1], >= 0, summing to 1.

    Returns
    -------
    float
        Entropy [nat].

    Raises
    ------
    ValueError
        `mass` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A05

    Examples
    --------
    >>> round(entropy(causal_column_mass(2048)), 9)
    7.202514789
    """
    p = _distribution(mass)
    p = p[p > 0.0]
    return float(0.0 - p @ np.log(p))


def causal_column_mass(n_tokens: int) -> NDArray[np.float64]:
    """Return the attention mass of each key when every query attends evenly to itself and all keys before it.

    ``p_j = (1 / L) sum_{i >= j} 1 / (i + 1)``: the most even causal attention is not even over keys.

    Parameters
    ----------
    n_tokens : int
        Tokens L [1], >= 1.

    Returns
    -------
    ndarray, shape (L,)
        Mass of each key [1], summing to 1.

    Raises
    ------
    ValueError
        `n_tokens` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A05

    Examples
    --------
    >>> np.round(causal_column_mass(2), 6).tolist()
    [0.75, 0.25]
    """
    check_range("n_tokens", n_tokens, 1.0)
    return np.cumsum(1.0 / np.arange(n_tokens, 0.0, -1.0))[::-1] / n_tokens


def _distribution(mass: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(mass, dtype=float)
    if p.ndim != 1 or not p.size:
        raise ValueError(f"mass has shape {p.shape}, expected one value for each token")
    check_range("mass", p, 0.0)
    total = float(p.sum())
    if not (math.isfinite(total) and abs(total - 1.0) <= 1e-6):
        raise ValueError(f"sum of mass = {total:g} is outside [1 - 1e-06, 1 + 1e-06]")
    return p


# --- the error of one attention output --------------------------------------------------------------------------------


class OutputError(NamedTuple):
    """Effect of pruning on one attention output, o = sum p v.

    Attributes
    ----------
    dropped_mass : float
        Dropped attention mass eps [1].
    error : ndarray, shape (d,)
        o - o_kept by definition [unit of the values].
    identity : ndarray, shape (d,)
        eps (mean of dropped v - mean of kept v), equal to `error` up to rounding [unit of the values].
    bound
        , at least the norm of `error` [unit of the values].
    """

    dropped_mass: float
    error: NDArray[np.float64]
    identity: NDArray[np.float64]
    bound: float


def output_error(mass: ArrayLike, values: ArrayLike, keep: ArrayLike) -> OutputError:
    """Return the exact error of one attention output when tokens are removed and the mass is renormalised.

    ``o - o_kept = eps (mean_dropped(v) - mean_kept(v))``, hence ``|o - o_kept| <= 2 eps max |v|``. The means are
    weighted by attention; the bound has the structure of the L1 bound of Ada-KV.

    Parameters
    ----------
    mass : array_like, shape (L,)
        Attention p of one query [1], summing to 1.
    values : array_like, shape (L, d)
        Value vectors v [any unit].
    keep : array_like of bool, shape (L,)
        True for the tokens that stay; they must hold some mass.

    Returns
    -------
    OutputError
        Dropped mass [1], error by definition and by the identity, and bound [unit of `values`].

    Raises
    ------
    ValueError
        The arrays do not fit each other, `mass` is no distribution, or the kept tokens hold no mass.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] docs/articles.md A02
    .. [3] feng2024, docs/references.md

    Examples
    --------
    >>> found = output_error([0.5, 0.3, 0.2], [[1.0], [2.0], [4.0]], [True, True, False])
    >>> round(found.dropped_mass, 6), round(float(found.error[0]), 6), round(float(found.identity[0]), 6)
    (0.2, 0.525, 0.525)
    """
    p, v = _distribution(mass), np.asarray(values, dtype=float)
    kept = np.asarray(keep, dtype=bool)
    if v.ndim != 2 or v.shape[0] != p.size or kept.shape != p.shape:
        raise ValueError(f"values {v.shape} and keep {kept.shape} do not belong to {p.size} tokens")
    held = float(p[kept].sum())
    if held <= 0.0:
        raise ValueError(f"mass of the kept tokens = {held:g} is outside (0, 1]")
    eps = float(p[~kept].sum())
    mean_kept = p[kept] @ v[kept] / held
    mean_dropped = p[~kept] @ v[~kept] / eps if eps > 0.0 else mean_kept
    largest = float(np.linalg.norm(v, axis=1).max())
    return OutputError(eps, p @ v - mean_kept, eps * (mean_dropped - mean_kept), 2.0 * eps * largest)


def pruned_latency_s(
    full_s: Array, kv_frac: Array, alpha: Array, n_recomputed: Array = 0.0, recompute_s: Array = 0.0
) -> Array:
    """Return the time of a memory-bound token with a pruned cache and recomputed layers.

    ``T = T_0 (1 - alpha f_kv) + n_re t_re``: recomputing pays while ``n_re t_re`` is below the saving of more pruning,
    at most ``T_0 f_kv``.

    Parameters
    ----------
    full_s : float or ndarray
        Time T_0 with the whole cache [s], >= 0.
    kv_frac : float or ndarray
        Share f_kv of it that reading the cache takes [1], 0 to 1.
    alpha : float or ndarray
        Share alpha of the cache's bytes removed [1], 0 to 1.
    n_recomputed : float or ndarray
        Layers n_re recomputed [1], >= 0.
    recompute_s : float or ndarray
        Time t_re of each [s], >= 0.

    Returns
    -------
    float or ndarray
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] docs/articles.md A12

    Examples
    --------
    >>> round(float(pruned_latency_s(48.2e-3, 0.06334, 0.6) * 1e3), 4)
    46.3682
    """
    check_range("full_s", full_s, 0.0)
    check_range("kv_frac", kv_frac, 0.0, 1.0)
    check_range("alpha", alpha, 0.0, 1.0)
    check_range("n_recomputed", n_recomputed, 0.0)
    check_range("recompute_s", recompute_s, 0.0)
    return full_s * (1.0 - np.multiply(alpha, kv_frac)) + np.multiply(n_recomputed, recompute_s)


# --- how far pruning may go -------------------------------------------------------------------------------------------


def r_max_mass(mass: ArrayLike, dropped_mass: float = 0.02) -> float:
    """Return the largest share of tokens that can go while the rest holds a mass of at least ``1 - eps``.

    ``r_max = 1 - |S| / L`` with S the fewest tokens that hold the mass; exact.

    Parameters
    ----------
    mass : array_like, shape (L,)
        Attention mass of each token [1], summing to 1.
    dropped_mass : float
        Mass eps that may go [1], 0 to below 1.

    Returns
    -------
    float
        Share of tokens [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] docs/articles.md A05

    Examples
    --------
    >>> r_max_mass([0.5, 0.3, 0.19, 0.01])
    0.25
    """
    p = _distribution(mass)
    check_range("dropped_mass", dropped_mass, 0.0, 1.0, open_high=True)
    held = np.cumsum(np.sort(p)[::-1])
    n_needed = int(np.searchsorted(held, (1.0 - dropped_mass) * held[-1] - 1e-12)) + 1
    return 1.0 - min(n_needed, p.size) / p.size


def r_max_entropy_bound(entropy_nat: Array, n_tokens: Array, dropped_mass: Array) -> Array:
    """Return a share of tokens that can go whatever the distribution of the given entropy.

    ``r = max(0, 1 - exp(H / eps) / L)``: by Markov's inequality on -ln p at most exp(H / eps) tokens hold the mass. It
    is 0 once ``H / eps > ln L``.

    Parameters
    ----------
    entropy_nat : float or ndarray
        Entropy H of the attention mass [nat], >= 0.
    n_tokens : float or ndarray
        Cached tokens L [1], >= 1.
    dropped_mass : float or ndarray
        Mass eps that may go [1], above 0 to 1.

    Returns
    -------
    float or ndarray
        Share of tokens [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] docs/articles.md A05

    Examples
    --------
    >>> [round(float(r_max_entropy_bound(h, 2048, eps)), 5) for h, eps in ((0.5, 0.1), (2.0, 0.5), (2.0, 0.1))]
    [0.92753, 0.97334, 0.0]
    """
    check_range("entropy_nat", entropy_nat, 0.0)
    check_range("n_tokens", n_tokens, 1.0)
    check_range("dropped_mass", dropped_mass, 0.0, 1.0, open_low=True)
    share: Array = 0.0 - np.expm1(np.minimum(np.asarray(entropy_nat) / dropped_mass - np.log(n_tokens), 0.0))
    return share


def r_max_effective_support(entropy_nat: Array, n_tokens: Array) -> Array:
    """Return the share of tokens outside the effective support of the mass, ``max(0, 1 - exp(H) / L)``: a heuristic.

    Parameters
    ----------
    entropy_nat : float or ndarray
        Entropy H of the attention mass [nat], >= 0.
    n_tokens : float or ndarray
        Cached tokens L [1], >= 1.

    Returns
    -------
    float or ndarray
        Share of tokens [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] docs/articles.md A05

    Examples
    --------
    >>> [round(float(r_max_effective_support(h, 2048)), 5) for h in (0.0, 2.0, 4.5)]
    [0.99951, 0.99639, 0.95605]
    """
    check_range("entropy_nat", entropy_nat, 0.0)
    check_range("n_tokens", n_tokens, 1.0)
    share: Array = 0.0 - np.expm1(np.minimum(np.asarray(entropy_nat) - np.log(n_tokens), 0.0))
    return share


def r_max_zipf(n_tokens: int, dropped_mass: float = 0.02, exponent: float = ZIPF_EXPONENT) -> float:
    """Return `r_max_mass` of attention mass that falls as ``rank^-s``, the mark on alpha without a measurement.

    Parameters
    ----------
    n_tokens : int
        Cached tokens [1], >= 1.
    dropped_mass : float
        Mass that may go [1], 0 to below 1.
    exponent : float
        Exponent s [1].

    Returns
    -------
    float
        Share of tokens [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> [round(r_max_zipf(n), 3) for n in (1024, 2048)]
    [0.285, 0.328]
    """
    check_range("n_tokens", n_tokens, 1.0)
    mass = np.arange(1.0, n_tokens + 1.0) ** -exponent
    return r_max_mass(mass / mass.sum(), dropped_mass)
