"""The posterior of the cost parameters of a board, runtime and power mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.spec.interval_scale import UNSCALED, IntervalScale
from core.spec.runtime import ReselectionCost


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is known of the cost parameters of a board, runtime and power mode: a Gaussian in their natural logarithms.

    Parameters are the priors of `Runtime` ("eta", "kappa", "rho", "t_layer_s", ..., in its units), and ratios to them,
    median 1 unless taught otherwise: "eta.int4" (of a weight format), "kappa.int8" (of a KV format),
    "eta_compute.int4", "model.smollm2-135m" and "prompt.smollm2-135m" (factors on one model's decode time and time to
    first token), "size.0", ... (what models of similar size share), those of accuracy (`core.predict.accuracy`), and
    "energy_j_byte" and "static_power_w" (energy per byte moved, and power beside it) once they were measured.
    `core.predict.parameters.prior` makes the one that no measurement has taught.
    """

    board: str
    runtime: str
    power_mode: str
    names: tuple[str, ...]
    log_mean: NDArray[np.float64]  # shape (n_parameters,)
    log_cov: NDArray[np.float64]  # shape (n_parameters, n_parameters)
    bandwidth_byte_s: float  # the bandwidth that eta is a share of; predictions that name none use it
    decode_log_sd: float  # a new measurement of decode_s about its prediction, beyond the parameters
    ttft_log_sd: float
    degradation_log_sd: float = 0.1  # of a measured divergence from the reference
    top1_log_sd: float = 0.1  # of ln(top-1 agreement)
    energy_log_sd: float = 0.15  # of the energy of a token: between models on one board and rail
    power_covers: str = ""  # what the measured power covers; "" while the board's own `power_rail` is meant
    idle_power_w: float | None = None  # of the idle board, measured on the same rail
    reselection: ReselectionCost | None = None  # of KV token re-selection, where that was measured
    n_decode: int = 0  # measurements that taught it, by output: 0 leaves that output "predicted"
    n_ttft: int = 0
    n_quality: int = 0
    n_energy: int = 0
    interval_scale: IntervalScale = UNSCALED
    interval_scale_basis: str = ""  # why intervals are wider or narrower than the model's own, as a sentence
    basis: str = ""  # what it was learned from, as a phrase, where that was not this machine's measurements
