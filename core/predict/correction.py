"""Correction of a predicted time by recent residuals: shifts of its terms, and the residuals of measured points near.

A residual r = ln measured - ln predicted of a point x at time t is modelled as

    r(x, t) = sum_k h_k(x) d_k(t) + m(x) + error

with the shifts d of the cost terms, the share h_k of the time that goes with a term, and a local residual m, a Gaussian
process over the point's numbers. `core.calibrate.follow` fits it to the measurements.

References
----------
.. [1] docs/physics.md M10
.. [2] kennedy2001, docs/references.md
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.physics import latency
from core.spec import Array, OperatingPoint, ResolvedPoint
from core.spec.correction import COST_TERMS, Correction

Floats = NDArray[np.float64]

DECODE, TTFT = 0, 1
N_TERMS = len(COST_TERMS)

LENGTHS = (0.7, 0.3, 0.3, 0.3, 0.3)
"""[prior] correlation lengths of `places`: a context by a factor of 2 correlates by 0.61."""


def decode_shares(parts: latency.DecodeParts) -> Floats:
    """Return the share of a decode time that goes with each of `COST_TERMS`, shape (4, ...)."""
    slopes = latency.decode_log_gradient(parts)
    launch = slopes["t_layer_s"] + slopes["t_token_s"]
    memory = np.greater_equal(parts.memory, parts.compute)
    compute = np.where(memory, slopes["rho"], parts.compute / parts.total)
    return _stacked(-np.asarray(slopes["eta"]), compute, launch)


def prefill_shares(parts: latency.PrefillParts) -> Floats:
    """Return the share of a time to first token that goes with each of `COST_TERMS`, shape (4, ...)."""
    slopes = latency.prefill_log_gradient(parts)
    launch = slopes["t_layer_s"] + slopes["t_token_s"] + slopes["t_layer_prefill_s"]
    return _stacked(-np.asarray(slopes["eta"]), -np.asarray(slopes["eta_compute"]), launch)


def _stacked(bandwidth: Array, compute: Array, launch: Array) -> Floats:
    first = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in (bandwidth, compute, launch)))
    return np.stack([*first, np.ones_like(first[0])])


def names_of(point: OperatingPoint, kind: int) -> tuple[object, ...]:
    """Return what two points must have in common to have a common local residual."""
    return kind, point.model, point.weights, point.kv, point.head


def places(point: OperatingPoint, own_byte_s: float) -> Floats:
    """Return the coordinates of a point, shape (..., 5), in correlation lengths.

    Logarithm of the context, prune rate, logarithms of beta and of the share of the own bandwidth, re-selection or not.
    """
    share = 1.0 if point.bandwidth_byte_s is None else np.asarray(point.bandwidth_byte_s) / own_byte_s
    alpha = np.asarray(point.alpha, dtype=float)
    reselects = (np.asarray(point.reselect_tokens) > 0) & (alpha > 0)
    found = (np.log(point.context_tokens), alpha, np.log(point.beta), np.log(share), reselects)
    scaled = (np.asarray(value, dtype=float) / length for value, length in zip(found, LENGTHS, strict=True))
    return np.stack(np.broadcast_arrays(*scaled), axis=-1)


def correlation(one: Floats, other: Floats) -> Floats:
    """Return the correlation of the local residuals of two sets of `places`, ``exp(-d^2 / 2)``, shape (..., m)."""
    square = np.sum(np.square(one[..., None, :] - other), axis=-1)
    found: Floats = np.exp(-0.5 * square)
    return found


def corrected(
    correction: Correction, kind: int, point: OperatingPoint, at: ResolvedPoint, shares: Floats
) -> tuple[Array, Array]:
    """Return the shift of a log time, and what it adds to its variance in place of the scatter between points.

    Parameters
    ----------
    correction : Correction
    kind : int
        `DECODE` or `TTFT`.
    point : OperatingPoint
    at : ResolvedPoint
    shares : array (4, ...)
        `decode_shares` or `prefill_shares` of the point.

    Returns
    -------
    shift : float or array
    added : float or array
        Variance of the shift minus that of an unknown local residual, which the scatter of a prediction contains. It
        is negative near measured points.
    """
    drift, cov = correction.mean[:N_TERMS], correction.cov
    shift = np.tensordot(drift, shares, axes=1)
    added = np.einsum("i...,ij,j...->...", shares, cov[:N_TERMS, :N_TERMS], shares)
    anchors = correction.anchors.get(names_of(point, kind))
    if anchors is None:
        return shift, added
    near = correlation(places(point, at.mode.bandwidth_byte_s), anchors.place)  # (..., p)
    weight = near @ anchors.inverse
    local, cross = cov[np.ix_(anchors.index, anchors.index)], cov[:N_TERMS, anchors.index]
    shift = shift + weight @ correction.mean[anchors.index]
    known = correction.local_log_sd[kind] ** 2 - correction.repeat_log_sd[kind] ** 2  # a new run scatters all the same
    added = added - known * np.sum(weight * near, axis=-1)
    added = added + np.sum(weight @ local * weight, axis=-1)
    return shift, added + 2.0 * np.einsum("i...,ij,...j->...", shares, cross, weight)
