"""The cost parameters that measurements teach: their priors, the ratios between formats, and how they add up.

Everything is a Gaussian in natural logarithms, so a parameter of one format is a sum: ``ln eta(int4) = ln eta +
ln eta.int4``. That is what lets a measurement of one format inform another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from core.latency import PARAMETERS
from core.spec import OperatingPoint, Posterior, Setting

MODEL_LOG_SD = 0.12  # between models on one board: kernel coverage of an architecture (Trilemma models, M10)
KV_FORMAT_LOG_SD = 0.30  # between KV formats on one board
COMPUTE_FORMAT_LOG_SD = 0.50  # between weight formats in prefill: conversion, missing instructions
REPEAT_LOG_SD = 0.05  # of a repeat of a model seen on the board (Trilemma models, M10)
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
