"""The cost parameters that measurements teach: their priors, the ratios between formats, and how they add up.

Everything is a Gaussian in natural logarithms, so a parameter of one format is a sum: ``ln eta(int4) = ln eta +
ln eta.int4``. That is what lets a measurement of one format inform another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.latency import PARAMETERS
from core.spec import Array, OperatingPoint, Posterior, Setting

MODEL_LOG_SD = 0.12  # between models on one board: kernel coverage of an architecture (Trilemma models, M10)
KV_FORMAT_LOG_SD = 0.30  # between KV formats on one board
COMPUTE_FORMAT_LOG_SD = 0.50  # between weight formats in prefill: conversion, missing instructions
REPEAT_LOG_SD = 0.03  # of a new run of a model seen on the board, beyond what its parameters explain
TTFT_LOG_SD = 0.15  # of a prompt's time about its prediction


def prior(at: Setting) -> Posterior:
    """Return what is known of a board, runtime and power mode before any measurement."""
    names = PARAMETERS
    given = [getattr(at.runtime, name) for name in names]
    log_sd = np.array([p.log_sd for p in given])
    log_sd[names.index("eta")] = np.hypot(at.runtime.eta.log_sd, at.board.bandwidth_log_sd)
    return Posterior(
        at.board.key,
        at.runtime.key,
        at.mode.key,
        names,
        np.log([p.median for p in given]),
        np.diag(log_sd**2),
        at.mode.bandwidth_byte_s,
        decode_log_sd=REPEAT_LOG_SD,
        ttft_log_sd=TTFT_LOG_SD,
    )


def ratio_names(at: Setting) -> dict[str, float]:
    """Return the ratio parameters that a setting's decode and first-token times depend on, with their prior log-sd."""
    return {
        f"eta.{at.weights.key}": at.runtime.format_log_sd,
        f"kappa.{at.kv.key}": KV_FORMAT_LOG_SD,
        f"eta_compute.{at.weights.key}": COMPUTE_FORMAT_LOG_SD,
        f"model.{at.model.key}": MODEL_LOG_SD,
    }


def extended(posterior: Posterior, ratios: Mapping[str, float]) -> Posterior:
    """Return the posterior with the ratios that it lacks added: median 1, independent, with the given log-sd."""
    new = {name: log_sd for name, log_sd in ratios.items() if name not in posterior.names}
    if not new:
        return posterior
    n = len(posterior.names)
    cov = np.zeros((n + len(new), n + len(new)))
    cov[:n, :n] = posterior.log_cov
    cov[range(n, n + len(new)), range(n, n + len(new))] = np.square(list(new.values()))
    mean = np.concatenate([posterior.log_mean, np.zeros(len(new))])
    return replace(posterior, names=(*posterior.names, *new), log_mean=mean, log_cov=cov)


def loadings(names: tuple[str, ...], point: OperatingPoint) -> NDArray[np.float64]:
    """Return how the log of each latency parameter of a point, and of its model's factor, adds up from `names`.

    The KV cache streams at the runtime's own efficiency whatever the weight format, so the format's ratio to it enters
    kappa as it enters eta: ``kappa / eta`` does not depend on the weight format.

    Returns
    -------
    array, shape (7, n_names)
        Rows: `core.latency.PARAMETERS`, then the factor on the decode time. Elements are 0 or 1.
    """
    rows = (
        ("eta", f"eta.{point.weights}"),
        ("kappa", f"kappa.{point.kv}", f"eta.{point.weights}"),
        ("rho",),
        ("t_layer_s",),
        ("t_token_s",),
        ("eta_compute", f"eta_compute.{point.weights}"),
        (f"model.{point.model}",),
    )
    return np.array([[float(name in row) for name in names] for row in rows])


@dataclass(frozen=True, slots=True)
class Physical:
    """A parameter as an engineer knows it: a product of `names` and a constant."""

    key: str
    names: tuple[str, ...]
    meaning: str
    unit: str = ""
    of_bandwidth: bool = False  # a share of the board's bandwidth, shown in byte/s

    def median(self, posterior: Posterior) -> float:
        """Return its median [`unit`]."""
        share = float(np.exp(self._pick(posterior) @ posterior.log_mean))
        return share * posterior.bandwidth_byte_s if self.of_bandwidth else share

    def log_sd(self, posterior: Posterior) -> float:
        """Return the standard deviation of its logarithm."""
        pick = self._pick(posterior)
        return float(np.sqrt(pick @ posterior.log_cov @ pick))

    def _pick(self, posterior: Posterior) -> NDArray[np.float64]:
        return np.array([float(name in self.names) for name in posterior.names])


def physical_parameters(
    points: Sequence[OperatingPoint], *, with_ttft: bool, with_accuracy: bool = False
) -> tuple[Physical, ...]:
    """Return the parameters that these points depend on."""
    weights, caches, models = (
        sorted({getattr(point, field) for point in points}) for field in ("weights", "kv", "model")
    )
    found = [
        Physical(f"eta.{w}", ("eta", f"eta.{w}"), f"effective bandwidth of {w} weights", "byte/s", of_bandwidth=True)
        for w in weights
    ]
    found += [Physical(f"kappa.{g}", ("kappa", f"kappa.{g}"), f"cost of a KV byte in {g}") for g in caches]
    found += [
        Physical("rho", ("rho",), "unpacking cost of 4- to 6-bit weights"),
        Physical("t_layer_s", ("t_layer_s",), "cost per layer", "s"),
        Physical("t_token_s", ("t_token_s",), "constant per token", "s"),
    ]
    if with_ttft:
        found += [
            Physical(f"eta_compute.{w}", ("eta_compute", f"eta_compute.{w}"), f"share of the compute rate, {w} prompts")
            for w in weights
        ]
    if with_accuracy:
        policies = sorted({point.policy for point in points if point.alpha > 0.0})
        found += [
            Physical(f"damage.{p}", (f"damage.{p}",), f"damage by pruning, {p}, over its prior") for p in policies
        ]
    if len(models) > 1:
        found += [Physical(f"model.{m}", (f"model.{m}",), f"factor of {m} on the decode time") for m in models]
    return tuple(found)


def quadratic(gradient: Sequence[Any], cov: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quadratic form of a gradient, given as one array per parameter, with a covariance."""
    total: Any = 0.0
    for i, slope in enumerate(gradient):
        inner: Any = cov[i, i] * slope
        for j in range(i):
            if cov[i, j] != 0.0:
                inner = inner + 2.0 * cov[i, j] * gradient[j]
        total = total + inner * slope
    return np.asarray(total)


def plain(value: Any) -> Array:
    """Return a float for what has no dimensions, and an array as it is."""
    return value if np.ndim(value) else float(value)
