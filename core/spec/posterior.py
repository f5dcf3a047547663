"""The posterior of the cost parameters of a board, runtime and power mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.spec.correction import Correction
from core.spec.interval_scale import UNSCALED, IntervalScale
from core.spec.runtime import ReselectionCost


@dataclass(frozen=True, slots=True)
class Posterior:
    """Gaussian distribution of the natural logarithms of the cost parameters of a board, runtime and power mode.

    Parameters are those of `core.spec.PARAMETERS` ("eta", "kappa", "rho", "t_layer_s", ..., in their units) and ratios
    with prior median 1 by default: "eta.int4" (of a weight format), "kappa.int8" (of a KV format), "eta_compute.int4",
    "model.smollm2-135m" and "prompt.smollm2-135m" (factors of one model on decode time and time to first token),
    "size.0", ... (common to models of similar size), and those of accuracy (`core.predict.accuracy`).
    "energy_j_byte" and "static_power_w" (energy per byte moved, and power that does not depend on it) are parameters
    once an energy was measured. `core.predict.parameters.prior` returns the distribution before any measurement.
    """

    board: str
    runtime: str
    power_mode: str
    names: tuple[str, ...]
    log_mean: NDArray[np.float64]  # shape (n_parameters,)
    log_cov: NDArray[np.float64]  # shape (n_parameters, n_parameters)
    bandwidth_byte_s: float  # peak bandwidth that eta is a share of, and default of predictions
    decode_log_sd: float  # scatter of a new measurement of decode_s about its prediction, without the parameters' share
    ttft_log_sd: float
    degradation_log_sd: float = 0.1  # of a measured divergence from the reference
    top1_log_sd: float = 0.1  # of ln(top-1 agreement)
    energy_log_sd: float = 0.15  # of the energy of a token: between models on one board and rail
    power_covers: str = ""  # rail of the measured power; "" for the board's own `power_rail`
    idle_power_w: float | None = None  # of the idle board, measured on the same rail
    reselection: ReselectionCost | None = None  # of KV token re-selection, where that was measured
    moved_from: str = ""  # power mode of the measurements, where it is another one
    n_decode: int = 0  # measurements in the fit, by output: an output with 0 has the provenance "predicted"
    n_ttft: int = 0
    n_quality: int = 0
    n_energy: int = 0
    interval_scale: IntervalScale = UNSCALED
    interval_scale_basis: str = ""  # reason of the interval scale as a sentence; "" where there is nothing to report
    basis: str = ""  # data of the fit as a phrase, where they are not measurements of this machine
    correction: Correction | None = None  # of times by the newest measurements
