"""Accuracy of operating points: degradation by cause, with parameters that measurements update.

The degradation D is the rise of ln(perplexity) over the reference. It is close to the mean Kullback-Leibler divergence
from the reference, which can be measured far more precisely. Its causes add::

    D = D_weights e^a + D_kv e^b + D_pruning e^c (eps / 0.1)^d        top-1 = exp(-0.447 (1.01 D)^0.477 e^t)

with the curves of `core.physics.quality` as D_.. and a, b, c, d, t Gaussian about 0: "degradation.<weight format>",
"degradation.kv.<format>", "degradation.<policy>", "steepness.<policy>" and "top1" of a `Posterior`. eps is the
attention mass that pruning drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.physics import pruning, quality
from core.predict.parameters import extended, plain, quadratic
from core.spec import Absent, Array, Estimate, OperatingPoint, Posterior, Provenance, ResolvedPoint
from core.units import Z90

WEIGHTS_ROUNDING = quality.Degradation(1e-3, 1.2)
"""[prior] Degradation by rounding of arithmetic in fewer than 32 bits, with weights stored losslessly: 1e-4 to 7e-3."""
KV_ROUNDING = quality.Degradation(5e-5, 1.2)
"""[prior] The same for a 16-bit KV cache."""
STEEPNESS_SD = 0.5  # [prior] of the exponent d of the pruning curve
TOP1_LOG_SD = 0.10  # [prior] of one model and text about the curve of `quality.top1_agreement`, in ln(-ln agreement)
SURE_SD = 1e-3  # of causes without degradation: keeps the covariance positive definite
UNPREDICTED = Absent("the accuracy of compensated weights is not predicted: measure it")
REFERENCE_MASS = 0.1  # dropped mass at which the factor on degradation by pruning is e^c


@dataclass(frozen=True, slots=True)
class Causes:
    """Prior degradation of a point by cause. The fields of pruning may be arrays."""

    weights: quality.Degradation
    kv: quality.Degradation
    pruning: Array  # median
    log_mass: Array  # ln(eps / 0.1); 0 where nothing is dropped

    @property
    def medians(self) -> tuple[Any, Any, Any]:
        """The medians of weights, KV format and pruning."""
        return self.weights.median, self.kv.median, self.pruning


def causes(point: OperatingPoint, at: ResolvedPoint) -> Causes:
    """Return the prior degradation of a point by its weight format, KV format and pruning."""
    n_tokens = np.rint(point.context_tokens)  # a sweep may pass between two whole numbers
    dropped = 1.0 - pruning.zipf_retained_mass(n_tokens, pruning.keep_count(n_tokens, point.alpha))
    safe = np.where(dropped > 0.0, dropped, REFERENCE_MASS)
    pruned = quality.pruning_median(dropped, point.policy)
    return Causes(*format_degradations(at), pruned, np.log(safe / REFERENCE_MASS))


def format_degradations(at: ResolvedPoint) -> tuple[quality.Degradation, quality.Degradation]:
    """Return the prior degradation by the weight format and by the KV format (scalars)."""
    weights = quality.weights_degradation(
        at.weights.bits_per_weight,
        importance_matrix=at.weights.importance_matrix,
        scale=at.model.degradation_scale,
        scale_log_sd=at.model.degradation_scale_log_sd,
        reference_bits=at.reference.bits_per_weight if at.reference else quality.LOSSLESS_BIT,
    )
    kv = quality.kv_degradation(at.kv.bits_per_value)
    if at.reference is None:
        return weights, kv
    # The reference is the file in fp32, so rounding of arithmetic in fewer bits counts.
    return (
        _at_least(weights, WEIGHTS_ROUNDING, at.weights.bits_per_weight),
        _at_least(kv, KV_ROUNDING, at.kv.bits_per_value),
    )


def _at_least(degradation: quality.Degradation, rounding: quality.Degradation, bits: float) -> quality.Degradation:
    return rounding if degradation.median < rounding.median and bits < 32.0 else degradation


def names(point: OperatingPoint) -> tuple[str, ...]:
    """Return the names of the accuracy parameters of a point, in the order of all gradients of this module."""
    kinds = (point.weights, f"kv.{point.kv}", point.policy)
    return (*(f"degradation.{kind}" for kind in kinds), f"steepness.{point.policy}", "top1")


def ratios(point: OperatingPoint, at: ResolvedPoint) -> dict[str, float]:
    """Return the accuracy parameters of a point with their prior standard deviations."""
    weights, kv = format_degradations(at)
    pruned = float(np.max(quality.pruning_degradation(1.0, point.policy).log_sd))
    log_sd = (float(weights.log_sd), float(kv.log_sd), pruned, STEEPNESS_SD, TOP1_LOG_SD)
    return {name: max(sd, SURE_SD) for name, sd in zip(names(point), log_sd, strict=True)}


def log_degradation(
    medians: tuple[Any, Any, Any], log_mass: Array, theta: Any
) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]:
    """Return ln D (-inf without degradation) and its gradient with respect to the first four parameters.

    Parameters
    ----------
    medians : three floats or arrays
        Prior medians of degradation by weights, KV format and pruning, >= 0.
    log_mass : float or array
        ``ln(eps / 0.1)``.
    theta : sequence of five floats or arrays
        The parameters in the order of `names`.

    References
    ----------
    docs/physics.md, M4 and M5: independent degradations add.
    """
    gradient = _degradation_gradient(medians, log_mass, theta)
    total = np.asarray(sum(gradient[:3]))
    safe = np.where(total > 0.0, total, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(total), tuple(slope / safe for slope in gradient)


def _degradation_gradient(medians: tuple[Any, Any, Any], log_mass: Array, theta: Any) -> tuple[Any, Any, Any, Any]:
    """Return the derivatives of D by the first four parameters; the first three are the terms of D."""
    pruned = medians[2] * np.exp(theta[2] + theta[3] * log_mass)
    return medians[0] * np.exp(theta[0]), medians[1] * np.exp(theta[1]), pruned, pruned * log_mass


def estimates(point: OperatingPoint, found: Causes, posterior: Posterior) -> tuple[Estimate, Estimate]:
    """Return perplexity ratio and top-1 agreement with intervals; `posterior` must have the parameters of `ratios`."""
    theta, cov = _known(point, posterior)
    gradient = _degradation_gradient(found.medians, found.log_mass, theta)
    degradation, variance = _degradation(gradient, cov, posterior)
    safe = np.where(degradation > 0.0, degradation, 1.0)
    log_sd = np.sqrt(variance + np.square(quality.kl_log_sd(degradation)))
    ratio = quality.perplexity_ratio(quality.Degradation(degradation, log_sd))
    with_top1 = sum(c * slope for c, slope in zip(cov[4, :4], gradient, strict=True) if c) / safe
    power = quality.TOP1_POWER
    top1_variance = power * (power * variance + 2.0 * with_top1) + cov[4, 4] + posterior.top1_log_sd**2
    factor = np.exp(Z90 * np.sqrt(top1_variance))
    with np.errstate(divide="ignore"):
        disagreement = np.exp(log_disagreement(np.log(degradation)) + theta[4])
    origin = Provenance.CALIBRATED if posterior.n_quality else Provenance.PREDICTED
    median, low, high = (plain(np.exp(-disagreement * f)) for f in (1.0, factor, 1.0 / factor))
    return (
        Estimate(plain(ratio.median), plain(ratio.q05), plain(ratio.q95), origin),
        Estimate(median, low, high, origin),
    )


def predicted(
    point: OperatingPoint, at: ResolvedPoint, posterior: Posterior
) -> tuple[Estimate | Absent, Estimate | Absent]:
    """Return perplexity ratio and top-1 agreement as `estimates`; a compensated point has them measured only."""
    if point.compensation != "none":
        return UNPREDICTED, UNPREDICTED
    return estimates(point, causes(point, at), posterior)


def _known(point: OperatingPoint, posterior: Posterior) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and covariance of the accuracy parameters of a point."""
    index = [posterior.names.index(name) for name in names(point)]
    return posterior.log_mean[index], posterior.log_cov[np.ix_(index, index)]


def _degradation(gradient: tuple[Any, ...], cov: NDArray[np.float64], posterior: Posterior) -> tuple[Any, Any]:
    """Return the degradation and the variance of the logarithm of a measured divergence."""
    degradation = np.asarray(sum(gradient[:3]))
    safe = np.where(degradation > 0.0, degradation, 1.0)
    return degradation, quadratic(dict(enumerate(gradient)), cov) / np.square(safe) + posterior.degradation_log_sd**2


def mean_kl(point: OperatingPoint, at: ResolvedPoint, posterior: Posterior) -> Estimate | Absent:
    """Return the mean KL divergence from the reference [nat], ``1.01 D``, of a point or an array of points.

    Without measured accuracy, D comes from published perplexities, and the scatter of divergences about them widens
    the interval.
    """
    if point.compensation != "none":
        return UNPREDICTED
    theta, cov = _known(point, extended(posterior, ratios(point, at)))
    found = causes(point, at)
    degradation, variance = _degradation(_degradation_gradient(found.medians, found.log_mass, theta), cov, posterior)
    log_sd = np.sqrt(variance if posterior.n_quality else variance + np.square(quality.kl_log_sd(degradation)))
    median, factor = quality.KL_PER_DEGRADATION * degradation, np.exp(Z90 * log_sd)
    origin = Provenance.CALIBRATED if posterior.n_quality else Provenance.PREDICTED
    return Estimate(plain(median), plain(median / factor), plain(median * factor), origin)


def retrieval(point: OperatingPoint) -> Estimate | Absent:
    """Return the retrieval score in long texts, relative to the full cache, of a point or an array of points.

    It falls at lower prune rates than perplexity suggests, since language modelling depends mostly on the last tokens.
    Effects of formats are not included.
    """
    if point.policy not in quality.RETRIEVAL:
        return Absent(f"no published table has retrieval scores of {point.policy}")
    if np.any(np.asarray(point.alpha) > quality.RETRIEVAL_ALPHA):
        return Absent(f"published retrieval scores end at {100 * quality.RETRIEVAL_ALPHA:g} % of the cache pruned")
    band = quality.retrieval_score(point.alpha, point.policy)
    return Estimate(plain(band.median), plain(band.q05), plain(band.q95), Provenance.PREDICTED)


def log_disagreement(log_d: Any) -> Any:
    """Return ln(-ln(top-1 agreement)) of a degradation; `log_d` is its natural logarithm."""
    return np.log(quality.TOP1_SCALE) + quality.TOP1_POWER * (np.log(quality.KL_PER_DEGRADATION) + log_d)
