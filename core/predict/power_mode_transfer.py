"""Transfer of a posterior from one power mode of a board to another: bandwidth and clocks change.

Reading has the same share of the peak bandwidth in every mode. Unpacking is work of the cores: its time goes with the
inverse of the clock, at any bandwidth. Launching a layer's operators is partly work of other cores, whose clocks change
less; it goes with the inverse square root. Static power goes with the clock. Energy per byte and factors of models do
not change.
`core.spec.PARAMETERS` has the rule of each cost parameter.

References
----------
docs/physics.md, M7: low power modes are limited by clocks, not by DRAM.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from core.spec import PARAMETERS, Posterior, PowerMode, PowerModeRule

CORES_EXPONENT = 0.5  # [prior] of the clock ratio in the cost per layer and per token
UNKNOWN_RATE_SD = 1.0  # [prior] of a share of the compute rate, where the rate of one of the modes is assumed
UNKNOWN_CLOCK_SD = 0.5  # [prior] of the exponent, and of the clock ratio's logarithm relative to the bandwidth's


def transferred(posterior: Posterior, old: PowerMode, new: PowerMode) -> Posterior:
    """Return the posterior of one power mode as prior of another mode of the same board and runtime.

    Parameters
    ----------
    posterior : Posterior
        Of the mode `old`.
    old, new : PowerMode
        An unknown clock is assumed to change as the bandwidth does, with a wider interval.

    Returns
    -------
    Posterior
        With `new.key` as its mode. The counts of measurements do not change, since they are of this board.
    """
    log_bandwidth = float(np.log(new.bandwidth_byte_s / old.bandwidth_byte_s))
    known = old.clock_hz is not None and new.clock_hz is not None
    log_clock = float(np.log(new.clock_hz / old.clock_hz)) if old.clock_hz and new.clock_hz else log_bandwidth
    clock_sd = 0.0 if known else UNKNOWN_CLOCK_SD * abs(log_bandwidth)
    moved = {
        PowerModeRule.NOTHING: (0.0, 0.0),
        PowerModeRule.CORES: (-CORES_EXPONENT * log_clock, UNKNOWN_CLOCK_SD * abs(log_clock)),
        PowerModeRule.VECTOR_LANES: _unpacking(old, new, log_clock, clock_sd),
        PowerModeRule.COMPUTE_RATE: _compute(old, new, log_clock, clock_sd),
    }
    mean, cov = posterior.log_mean.copy(), posterior.log_cov.copy()
    for parameter in PARAMETERS:
        shift, sd = moved[parameter.power_mode]
        i = posterior.names.index(parameter.name)
        mean[i] += shift
        cov[i, i] += sd**2
    if "static_power_w" in posterior.names:
        i = posterior.names.index("static_power_w")
        mean[i] += log_clock
        cov[i, i] += (UNKNOWN_CLOCK_SD * abs(log_clock)) ** 2
    if "energy_j_byte" in posterior.names:  # voltages go with the clock, by an amount that no source states
        i = posterior.names.index("energy_j_byte")
        cov[i, i] += (UNKNOWN_CLOCK_SD * abs(log_clock)) ** 2
    return replace(
        posterior,
        power_mode=new.key,
        log_mean=mean,
        log_cov=cov,
        bandwidth_byte_s=new.bandwidth_byte_s,
        moved_from=old.key,
    )


def _unpacking(old: PowerMode, new: PowerMode, log_clock: float, clock_sd: float) -> tuple[float, float]:
    """Return shift and log-sd of rho, which is relative to the bandwidth, by the vector rates or else the clock."""
    log_bandwidth = float(np.log(new.bandwidth_byte_s / old.bandwidth_byte_s))
    if old.vector_op_s is None or new.vector_op_s is None:
        return log_bandwidth - log_clock, clock_sd
    return log_bandwidth - float(np.log(new.vector_op_s / old.vector_op_s)), 0.0


def _compute(old: PowerMode, new: PowerMode, log_clock: float, clock_sd: float) -> tuple[float, float]:
    """Return shift and log-sd of the share of the compute rate; the shift is 0 where the rates follow the clock."""
    rates = [mode.compute_op_s or mode.bandwidth_byte_s for mode in (old, new)]  # assumed rates follow the bandwidth
    if (old.compute_op_s is None) != (new.compute_op_s is None):
        return 0.0, UNKNOWN_RATE_SD
    return log_clock - float(np.log(rates[1] / rates[0])), clock_sd
