"""Which share of the KV cache may go: tokens kept, attention mass retained, the error made, and how far is safe.

Notation: L cached tokens, alpha the share removed, p the attention mass of each token (sums to 1), H = -sum p ln p its
entropy in nats, eps the mass that pruning drops.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

ZIPF_EXPONENT = 1.2
"""[prior] Attention mass by rank falls as rank**-1.2; at 2048 tokens that is an entropy of 4.49 nats."""

_FEW = 16  # below this many terms a harmonic number is summed term by term
_TABLED = 1 << 16  # up to this many tokens their masses are looked up
_ROUNDING = 1e-9  # so that 10 tokens at alpha = 0.9 keep 1, not 2, of 10 - 9.000000000000002


def keep_count(n_tokens: Array, alpha: Array) -> Array:
    """Return how many tokens stay when a share alpha goes, ``max(1, ceil(L - alpha L))``.

    Parameters
    ----------
    n_tokens : float or array
        Cached tokens, at least 1.
    alpha : float or array
        Share removed, 0 <= alpha < 1.

    Raises
    ------
    ValueError
        An argument outside its range.

    References
    ----------
    docs/articles.md, A02: keep(2048, 0.623) = 773, keep(10, 0.9) = 1.
    """
    check_range("n_tokens", n_tokens, 1.0)
    check_range("alpha", alpha, 0.0, 1.0, open_high=True)
    return np.maximum(1.0, np.ceil(n_tokens - alpha * np.asarray(n_tokens) - _ROUNDING))


def page_keep_frac(keep_frac: Array, page_tokens: int) -> Array:
    """Return the share of pages still read when tokens are kept at random inside pages, ``1 - (1 - keep)**page``.

    References
    ----------
    docs/physics.md, M4: 0.9997 of the pages at keep = 0.4 and 16 tokens a page.
    """
    check_range("keep_frac", keep_frac, 0.0, 1.0)
    check_range("page_tokens", page_tokens, 1.0)
    return 1.0 - (1.0 - np.asarray(keep_frac)) ** page_tokens


# --- attention mass ---------------------------------------------------------------------------------------------------


def harmonic_number(n: Array, exponent: float) -> Array:
    """Return the generalised harmonic number ``sum_{i=1..n} i**-exponent`` of whole numbers n >= 0.

    Term by term below 16, Euler-Maclaurin above (relative error under 1e-12 for 0 <= exponent <= 4).
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
    """Integral of x**-s from 1 to n plus the correction terms at n (Bernoulli numbers up to B6)."""
    log_n = np.log(n)
    integral = log_n if s == 1.0 else np.expm1((1.0 - s) * log_n) / (1.0 - s)
    inverse = 1.0 / (n * n)
    tail = 0.5 - s / (12.0 * n) * (
        1.0 - (s + 1) * (s + 2) / 60.0 * inverse * (1.0 - (s + 3) * (s + 4) / 42.0 * inverse)
    )
    return integral + np.exp(-s * log_n) * tail


def zipf_retained_mass(n_tokens: Array, n_keep: Array, exponent: float = ZIPF_EXPONENT) -> Array:
    """Return the attention mass that the `n_keep` heaviest of `n_tokens` tokens hold when mass falls as rank**-s.

    Both are whole numbers. Up to 65536 tokens the sums are looked up.

    ``m = H(n_keep, s) / H(n_tokens, s)``, 0 < m <= 1.

    Raises
    ------
    ValueError
        `n_keep` outside 1..`n_tokens`, or the exponent outside [0, 4].

    References
    ----------
    docs/physics.md, M4: 0.9514 for 819 of 2048 tokens at s = 1.2.
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
    """Return the entropy [nat] of attention mass that falls as rank**-exponent over `n_tokens` tokens."""
    check_range("n_tokens", n_tokens, 1.0)
    mass = np.arange(1.0, n_tokens + 1.0) ** -exponent
    return entropy(mass / mass.sum())


def retained_mass(mass: ArrayLike, n_keep: int) -> float:
    """Return the share of a measured attention mass that its `n_keep` heaviest tokens hold."""
    p = _distribution(mass)
    check_range("n_keep", n_keep, 1.0, p.size)
    return float(np.sort(p)[-n_keep:].sum())


def entropy(mass: ArrayLike) -> float:
    """Return the entropy ``-sum p ln p`` [nat] of a distribution; tokens of zero mass add nothing."""
    p = _distribution(mass)
    p = p[p > 0.0]
    return float(0.0 - p @ np.log(p))


def causal_column_mass(n_tokens: int) -> NDArray[np.float64]:
    """Return the mass that each key receives when every query attends evenly to itself and all before it.

    ``p_j = (1/L) sum_{i >= j} 1/(i+1)``: the evenest causal attention, and still not an even distribution over keys.

    References
    ----------
    docs/articles.md, A05: entropy 7.2025 nats at L = 2048, against ln L = 7.6246.
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
    """What pruning does to one attention output o = sum p v."""

    dropped_mass: float  # eps
    error: NDArray[np.float64]  # o - o_kept, by definition [unit of the values]
    identity: NDArray[np.float64]  # eps (mean of dropped v - mean of kept v): equal to `error` up to rounding
    bound: float  # 2 eps max|v|, never below |error|


def output_error(mass: ArrayLike, values: ArrayLike, keep: ArrayLike) -> OutputError:
    """Return the exact error of one attention output when only some tokens are kept and the mass is renormalised.

    ``o - o_kept = eps (mean_dropped(v) - mean_kept(v))``, hence ``|o - o_kept| <= 2 eps max |v|``.

    Parameters
    ----------
    mass : array, shape (L,)
        Attention probabilities of one query, summing to 1.
    values : array, shape (L, d)
        The value vectors.
    keep : bool array, shape (L,)
        True for the tokens that stay; they must hold some mass.

    References
    ----------
    docs/articles.md, A02 and models, M4 (the structure of the L1 bound in Ada-KV, arXiv 2407.11550).
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
    """Return the time of a memory-bound token whose cache is pruned and some of whose layers are recomputed [s].

    ``T0 (1 - alpha f_kv) + n_re t_re``: recomputing pays only while ``n_re t_re`` is below what more pruning saves, at
    most ``T0 f_kv``.

    Parameters
    ----------
    full_s : float or array
        Time with the whole cache, >= 0 [s].
    kv_frac : float or array
        Share of it that reading the cache takes, 0 to 1.
    alpha : float or array
        Share of the cache's bytes removed, 0 to 1.
    n_recomputed, recompute_s : float or array
        Layers recomputed, and the time of each [s], >= 0.

    References
    ----------
    docs/articles.md, A12: from 60 to 65 % of Qwen2-1.5B in 4.5 bit at 2048 tokens the ratio is 0.9967.
    """
    check_range("full_s", full_s, 0.0)
    check_range("kv_frac", kv_frac, 0.0, 1.0)
    check_range("alpha", alpha, 0.0, 1.0)
    check_range("n_recomputed", n_recomputed, 0.0)
    check_range("recompute_s", recompute_s, 0.0)
    return full_s * (1.0 - np.multiply(alpha, kv_frac)) + np.multiply(n_recomputed, recompute_s)


# --- how far pruning may go -------------------------------------------------------------------------------------------


def r_max_mass(mass: ArrayLike, dropped_mass: float = 0.02) -> float:
    """Return the largest share of tokens that can go while the rest holds a mass of at least ``1 - dropped_mass``.

    ``r = 1 - |S| / L`` with S the fewest tokens that hold the mass. It needs the distribution itself.

    References
    ----------
    docs/articles.md, A05 (a).
    """
    p = _distribution(mass)
    check_range("dropped_mass", dropped_mass, 0.0, 1.0, open_high=True)
    held = np.cumsum(np.sort(p)[::-1])
    n_needed = int(np.searchsorted(held, (1.0 - dropped_mass) * held[-1] - 1e-12)) + 1
    return 1.0 - min(n_needed, p.size) / p.size


def r_max_entropy_bound(entropy_nat: Array, n_tokens: Array, dropped_mass: Array) -> Array:
    """Return a share that is safe whatever the distribution of the given entropy, ``max(0, 1 - exp(H / eps) / L)``.

    From Markov's inequality on -ln p: at most exp(H / eps) tokens are needed. It is 0, and says nothing, as soon as
    ``H / eps > ln L``.

    References
    ----------
    docs/articles.md, A05 (b): 0.9733 for H = 2, L = 2048, eps = 0.5; 0 for eps = 0.1.
    """
    check_range("entropy_nat", entropy_nat, 0.0)
    check_range("n_tokens", n_tokens, 1.0)
    check_range("dropped_mass", dropped_mass, 0.0, 1.0, open_low=True)
    share: Array = 0.0 - np.expm1(np.minimum(np.asarray(entropy_nat) / dropped_mass - np.log(n_tokens), 0.0))
    return share


def r_max_effective_support(entropy_nat: Array, n_tokens: Array) -> Array:
    """Return the share outside the effective support exp(H) of the mass, ``max(0, 1 - exp(H) / L)``: a heuristic.

    References
    ----------
    docs/articles.md, A05 (c): 0.9560 for H = 4.5, L = 2048.
    """
    check_range("entropy_nat", entropy_nat, 0.0)
    check_range("n_tokens", n_tokens, 1.0)
    share: Array = 0.0 - np.expm1(np.minimum(np.asarray(entropy_nat) - np.log(n_tokens), 0.0))
    return share


def r_max_zipf(n_tokens: int, dropped_mass: float = 0.02, exponent: float = ZIPF_EXPONENT) -> float:
    """Return `r_max_mass` of attention mass that falls as rank**-exponent: the mark on alpha without a measurement."""
    check_range("n_tokens", n_tokens, 1.0)
    mass = np.arange(1.0, n_tokens + 1.0) ** -exponent
    return r_max_mass(mass / mass.sum(), dropped_mass)
