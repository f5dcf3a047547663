"""Accuracy against bits and pruning: degradations of weights, KV cache and pruning, added in ln(perplexity).

A degradation is the rise of ln(perplexity) over the reference. Every curve has a log-normal band, because models
differ more than formats do; nothing here replaces a measurement of the model at hand.

References
----------
.. [1] docs/physics.md M4, M5
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from core.spec import BY_NAME, Array
from core.units import Z90, check_range


class Degradation(NamedTuple):
    """A rise of ln(perplexity) with the log-sd of its value.

    Attributes
    ----------
    median : float or ndarray
        Rise of ln(perplexity) [nat], >= 0; a median of 0 is exact.
    log_sd : float or ndarray
        Standard deviation of its natural logarithm [1].
    """

    median: Array
    log_sd: Array


class Band(NamedTuple):
    """An output with its 90 % interval.

    Attributes
    ----------
    median : float or ndarray
        Median [unit of the output].
    q05, q95 : float or ndarray
        Ends of the interval [unit of the output].
    """

    median: Array
    q05: Array
    q95: Array


class BitCurve(NamedTuple):
    """Degradation against bits per weight or value, ``amplitude * exp(-rate * bits)``.

    Attributes
    ----------
    amplitude : float
        A [nat].
    rate : float
        k [1/bit].
    log_sd : float
        Standard deviation of the natural logarithm [1].
    """

    amplitude: float
    rate: float
    log_sd: float


IMPORTANCE_MATRIX = BitCurve(25.8, 1.4273, 0.23)
"""Formats quantised with calibration data: fitted to 14 of them in precision_ppl.csv (Llama-3-8B, 2.15 to 4.9 bits)."""

PLAIN = BitCurve(27.5, 1.301, 0.37)
"""Formats quantised without: 11 formats of the same model, 3.2 to 8.5 bits."""

KV = BitCurve(0.2, 0.76, 0.557)
"""[prior] KV cache with per-channel keys: 0.0005 at 8 bits, 0.01 at 4, 0.05 at 2, each within a factor of 2.5."""

LOSSLESS_BIT = 16.0  # a format of 16 bits or more is the reference itself


def _of_bits(bits: Array, lossless_bit: float, amplitude: float, rate: float, log_sd: float) -> Degradation:
    lossy: Any = bits < lossless_bit
    return Degradation(lossy * amplitude * np.exp(-rate * bits), lossy * log_sd)


def weights_degradation(
    bits_per_weight: Array,
    *,
    importance_matrix: bool = False,
    scale: float = 1.0,
    scale_log_sd: float = 0.0,
    reference_bits: float = LOSSLESS_BIT,
) -> Degradation:
    """Return the degradation of storing weights in few bits, ``D = s A exp(-k b)``.

    None from `reference_bits` on. A and k depend on the use of an importance matrix; the exponential form is that of
    the scaling law of precision.

    Parameters
    ----------
    bits_per_weight : float or ndarray
        Bits b per weight with scales [bit], 1 to 32.
    importance_matrix : bool
        Whether the format was quantised on calibration data.
    scale : float
        Sensitivity s of the model relative to Llama-3-8B [1], > 0.
    scale_log_sd : float
        Standard deviation of its natural logarithm [1], >= 0.
    reference_bits : float
        Bits of the weights that accuracy is relative to [bit], 1 to 32; below 16 for a model from a quantised file.

    Returns
    -------
    Degradation
        Rise of ln(perplexity) [nat] and its log-sd [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M5
    .. [2] kumar2024, docs/references.md
    .. [3] llamacppperplexity, docs/references.md

    Examples
    --------
    >>> [round(float(weights_degradation(b, importance_matrix=True).median), 5) for b in (4.89, 4.5, 4.0)]
    [0.02401, 0.0419, 0.08554]
    """
    check_range("bits_per_weight", bits_per_weight, 1.0, 32.0)
    check_range("scale", scale, 0.0, open_low=True)
    check_range("scale_log_sd", scale_log_sd, 0.0)
    check_range("reference_bits", reference_bits, 1.0, 32.0)
    curve = IMPORTANCE_MATRIX if importance_matrix else PLAIN
    log_sd = float(np.hypot(curve.log_sd, scale_log_sd))
    return _of_bits(bits_per_weight, min(reference_bits, LOSSLESS_BIT), scale * curve.amplitude, curve.rate, log_sd)


def kv_degradation(bits_per_value: Array) -> Degradation:
    """Return the degradation of storing keys and values in few bits, ``D = 0.2 exp(-0.76 b)``.

    A prior; none from 16 bit on.

    Parameters
    ----------
    bits_per_value : float or ndarray
        Bits b per cached value with scales [bit], 1 to 32.

    Returns
    -------
    Degradation
        Rise of ln(perplexity) [nat] and its log-sd [1].

    Raises
    ------
    ValueError
        `bits_per_value` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M5
    .. [2] liuz2024, docs/references.md

    Examples
    --------
    >>> [round(float(kv_degradation(b).median), 4) for b in (8.0, 4.0, 2.0)]
    [0.0005, 0.0096, 0.0437]
    """
    check_range("bits_per_value", bits_per_value, 1.0, 32.0)
    return _of_bits(bits_per_value, LOSSLESS_BIT, KV.amplitude, KV.rate, KV.log_sd)


class MassCurve(NamedTuple):
    """Degradation against dropped attention mass eps, ``scale * (c1 eps + c2 eps^2)``.

    Attributes
    ----------
    scale : float
        Scale of the policy [1].
    log_sd : float
        Standard deviation of the natural logarithm [1].
    """

    scale: float
    log_sd: float


C1, C2 = 0.3, 3.0
"""[prior] c1 from the literature on language modelling (docs/physics.md M4); c2 so that dropping all context costs what
a model without context loses, 3 to 4 nats."""

LANGUAGE_MODELLING: Mapping[str, MassCurve] = {
    "attention_mass": MassCurve(1.0, 1.0),
    "sinks_recent": MassCurve(1.0, 1.0),
    "key_norm": MassCurve(2.0, 1.2),
    "snapkv": MassCurve(1.0, 1.0),
    "expected_attention": MassCurve(1.0, 1.0),
    "page_bounds": MassCurve(2.0, 1.2),
    "rope_sensitivity": MassCurve(4.0, 1.5),
    "composite": MassCurve(1.4, 1.2),
}
"""[prior] By pruning policy: the mass of the heaviest tokens is what `attention_mass` keeps by definition; the others
keep other tokens, of which the nearest matter most to the next word. Of `page_bounds` and `rope_sensitivity` nothing is
published: their medians follow a run of SmolLM2 (docs/kernels.md), their bands are wide. `composite` lies between its
signs."""


def pruning_degradation(dropped_mass: Array, policy: str) -> Degradation:
    """Return the degradation of pruning in language modelling, ``D = s (c1 eps + c2 eps^2)``, a prior.

    Parameters
    ----------
    dropped_mass : float or ndarray
        Attention mass eps of the removed tokens if the heaviest are kept [1], 0 to 1.
    policy : str
        One of `core.spec.POLICIES`, which sets the scale s.

    Returns
    -------
    Degradation
        Rise of ln(perplexity) [nat] and its log-sd [1].

    Raises
    ------
    ValueError
        `dropped_mass` is outside its range, or the policy is unknown.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> round(float(pruning_degradation(0.1, "key_norm").median), 6)
    0.12
    """
    log_sd = _of_policy(LANGUAGE_MODELLING, policy).log_sd
    return Degradation(pruning_median(dropped_mass, policy), np.where(np.asarray(dropped_mass) > 0.0, log_sd, 0.0))


def pruning_median(dropped_mass: Array, policy: str) -> Array:
    """Return the median of `pruning_degradation` alone, ``s (c1 eps + c2 eps^2)``.

    Parameters
    ----------
    dropped_mass : float or ndarray
        Attention mass eps of the removed tokens if the heaviest are kept [1], 0 to 1.
    policy : str
        One of `core.spec.POLICIES`, which sets the scale s.

    Returns
    -------
    float or ndarray
        Rise of ln(perplexity) [nat].

    Raises
    ------
    ValueError
        `dropped_mass` is outside its range, or the policy is unknown.

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> round(float(pruning_median(0.1, "attention_mass")), 6)
    0.06
    """
    check_range("dropped_mass", dropped_mass, 0.0, 1.0)
    eps, scale = np.asarray(dropped_mass), float(_of_policy(LANGUAGE_MODELLING, policy).scale)
    median: Array = eps * (scale * (C1 + C2 * eps))
    return median


def added(*degradations: Degradation) -> Degradation:
    """Return the sum of independent degradations: medians add, the log-sd follows by the delta method.

    ``sd = sqrt(sum (D_i sd_i)^2) / sum D_i``; a sum of 0 is exact.

    Parameters
    ----------
    degradations : Degradation
        The causes.

    Returns
    -------
    Degradation
        Rise of ln(perplexity) [nat] and its log-sd [1].

    References
    ----------
    .. [1] docs/physics.md M5

    Examples
    --------
    >>> total = added(Degradation(0.03, 0.4), Degradation(0.01, 0.4))
    >>> round(float(total.median), 6), round(float(total.log_sd), 6)
    (0.04, 0.316228)
    """
    total: Any = 0.0
    squares: Any = 0.0
    for degradation in degradations:
        total = total + degradation.median
        squares = squares + np.square(np.multiply(degradation.median, degradation.log_sd))
    safe = np.where(np.asarray(total) > 0.0, total, 1.0)
    return Degradation(total, np.sqrt(squares) / safe)


# --- outputs ----------------------------------------------------------------------------------------------------------


def perplexity_ratio(degradation: Degradation) -> Band:
    """Return the perplexity over that of the reference, ``exp(D)``.

    Parameters
    ----------
    degradation : Degradation
        Rise D of ln(perplexity) [nat], >= 0, with its log-sd.

    Returns
    -------
    Band
        Ratio [1], at least 1, with its 90 % interval.

    Raises
    ------
    ValueError
        The degradation is below 0.

    References
    ----------
    .. [1] docs/physics.md M5

    Examples
    --------
    >>> round(float(perplexity_ratio(Degradation(0.0419, 0.23)).median), 5)
    1.04279
    """
    check_range("degradation", degradation.median, 0.0)
    factor = np.exp(Z90 * np.asarray(degradation.log_sd))
    median = np.asarray(degradation.median)
    return Band(np.exp(median), np.exp(median / factor), np.exp(median * factor))


KL_PER_DEGRADATION = 1.01
"""Mean divergence over degradation in precision_ppl.csv, interquartile 1.00 to 1.02 above a degradation of 0.01."""


def mean_kl(degradation: Degradation) -> Degradation:
    """Return the mean Kullback-Leibler divergence from the reference, ``KL = 1.01 D``, with its log-sd.

    Fitted to the rows of precision_ppl.csv with D above 0.01 (ratio 1.01, interquartile 1.00 to 1.02). Below, the ratio
    scatters from 0.5 to 3, which `kl_log_sd` follows.

    Parameters
    ----------
    degradation : Degradation
        Rise D of ln(perplexity) [nat], >= 0, with its log-sd.

    Returns
    -------
    Degradation
        Divergence [nat] and its log-sd [1].

    Raises
    ------
    ValueError
        The degradation is below 0.

    References
    ----------
    .. [1] docs/physics.md M5
    .. [2] llamacppperplexity, docs/references.md

    Examples
    --------
    >>> round(float(mean_kl(Degradation(0.0419, 0.23)).median), 6)
    0.042319
    """
    check_range("degradation", degradation.median, 0.0)
    median = np.asarray(degradation.median)
    scatter = np.where(median > 0.0, kl_log_sd(median), 0.0)
    return Degradation(KL_PER_DEGRADATION * median, np.hypot(degradation.log_sd, scatter))


def kl_log_sd(degradation: Array) -> Array:
    """Return the log-sd of the divergence about its mean, ``0.05 + 0.003 / (D + 0.004)``.

    Parameters
    ----------
    degradation : float or ndarray
        Rise D of ln(perplexity) [nat], > 0.

    Returns
    -------
    float or ndarray
        Standard deviation of the natural logarithm [1].

    References
    ----------
    .. [1] docs/physics.md M5

    Examples
    --------
    >>> round(float(kl_log_sd(0.01)), 6)
    0.264286
    """
    return 0.05 + 0.003 / (degradation + 0.004)


TOP1_SCALE, TOP1_POWER, TOP1_LOG_SD = 0.447, 0.477, 0.133
"""Least squares of ln(-ln agreement) on ln KL over 9 rows of precision_ppl.csv (weights, KL 2.5e-5 to 0.45) and 3 of
kv_quant_accuracy.csv (KV cache): residual log-sd 0.133."""


def top1_agreement(kl: Degradation) -> Band:
    """Return the share of tokens whose most likely successor is the reference's, ``exp(-0.447 KL^0.477)``.

    Parameters
    ----------
    kl : Degradation
        Mean Kullback-Leibler divergence [nat], >= 0, with its log-sd, as `mean_kl` returns it.

    Returns
    -------
    Band
        Share [1] with its 90 % interval.

    Raises
    ------
    ValueError
        The divergence is below 0.

    References
    ----------
    .. [1] docs/physics.md M5
    .. [2] llamacppperplexity, docs/references.md
    .. [3] kvquant, docs/references.md

    Examples
    --------
    >>> round(float(top1_agreement(Degradation(0.01, 0.0)).median), 4)
    0.9515
    """
    check_range("kl", kl.median, 0.0)
    median = np.asarray(kl.median)
    disagreement = TOP1_SCALE * median**TOP1_POWER
    factor = np.exp(Z90 * np.hypot(TOP1_POWER * np.asarray(kl.log_sd), TOP1_LOG_SD))
    return Band(np.exp(-disagreement), np.exp(-disagreement * factor), np.exp(-disagreement / factor))


# --- retrieval --------------------------------------------------------------------------------------------------------


class RetrievalCurve(NamedTuple):
    """Score against removed share x, ``-ln(score / full) = c (x / (1 - x))^p``.

    Attributes
    ----------
    c : float
        Loss at x = 0.5 [nat].
    p : float
        Exponent [1].
    """

    c: float
    p: float


RETRIEVAL: Mapping[str, RetrievalCurve] = {
    "random": RetrievalCurve(1.80, 1.12),
    "key_norm": RetrievalCurve(0.54, 0.75),
    "attention_mass": RetrievalCurve(0.52, 0.65),
    "sinks_recent": RetrievalCurve(0.43, 0.74),
    "snapkv": RetrievalCurve(0.33, 0.77),
    "lagkv": RetrievalCurve(0.11, 1.06),
    "expected_attention": RetrievalCurve(0.034, 1.78),
    "kvzip": RetrievalCurve(0.003, 0.33),
}
"""By method, fitted to kv_eviction_accuracy.csv (RULER 4096, Llama-3.1-8B-Instruct, x = 0.25, 0.5, 0.75). `key_norm`
is its knorm, `attention_mass` its observed_attention, `sinks_recent` its streaming_llm."""

RETRIEVAL_ALPHA = 0.75  # largest share removed in the fitted data: the curves are not tested beyond

RETRIEVAL_LOG_SD = 0.5
"""[prior] of ``-ln(score / full)`` on another model or task; the fit itself leaves 0.05 to 0.2."""


def retrieval_score(alpha: Array, method: str) -> Band:
    """Return a retrieval score relative to that of the full cache, ``exp(-c (alpha / (1 - alpha))^p)``.

    Fitted up to an alpha of 0.75; the interval is that of another model or task.

    Parameters
    ----------
    alpha : float or ndarray
        Share of cached tokens removed [1], 0 to below 1.
    method : str
        A pruning policy or another method of `RETRIEVAL`, which sets c and p.

    Returns
    -------
    Band
        Score [1] with its 90 % interval.

    Raises
    ------
    ValueError
        `alpha` is outside its range, or the method is unknown.

    References
    ----------
    .. [1] docs/physics.md M4
    .. [2] hsieh2024, docs/references.md
    .. [3] kvleaderboard, docs/references.md

    Examples
    --------
    >>> [round(float(retrieval_score(alpha, "sinks_recent").median), 3) for alpha in (0.25, 0.5, 0.75)]
    [0.826, 0.651, 0.379]
    """
    BY_NAME["alpha"].check(alpha)
    curve = _of_policy(RETRIEVAL, method)
    loss = curve.c * (np.asarray(alpha) / (1.0 - np.asarray(alpha))) ** curve.p
    factor = np.exp(Z90 * RETRIEVAL_LOG_SD)
    return Band(np.exp(-loss), np.exp(-loss * factor), np.exp(-loss / factor))


def _of_policy(table: Mapping[str, Any], policy: str) -> Any:
    if policy not in table:
        raise ValueError(f"policy = {policy!r} is none of {', '.join(table)}")
    return table[policy]
