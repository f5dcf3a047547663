"""Fit of energy per byte and static power of one rail to measured energies of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.calibrate import robust
from core.calibrate.observations import N_SCALE, MeasuredPoint
from core.physics import power
from core.predict.decode import decode_costs
from core.spec import Catalogue

Floats = NDArray[np.float64]

ENERGY_NAMES = ("energy_j_byte", "static_power_w")
"""Parameters of the fit: energy per byte moved, and power that does not depend on the bytes."""


def energy_prior(rail: str, bandwidth_byte_s: float, median_j_byte: float, log_sd: float) -> tuple[Floats, Floats]:
    """Return mean and covariance of the logarithms of `ENERGY_NAMES`.

    Parameters
    ----------
    rail : str
        The rail determines the share of the static power (`core.physics.power.static_share`).
    bandwidth_byte_s : float
        Peak bandwidth of the power mode, > 0 [byte/s].
    median_j_byte : float
        Energy of a token over its bytes, at the usual share of the bandwidth, > 0 [J/byte].
    log_sd : float
        Of `median_j_byte`.
    """
    share = power.static_share(rail)
    usual_w = median_j_byte * power.USUAL_READ_SHARE * bandwidth_byte_s
    cov = np.full((2, 2), log_sd**2)
    cov[1, 1] += power.STATIC_LOG_ODDS_SD**2
    return np.log([(1.0 - share) * median_j_byte, share * usual_w]), cov


def energy_fit(
    points: Sequence[MeasuredPoint], catalogue: Catalogue, before: tuple[Floats, Floats], scatter_log_sd: float
) -> robust.Fit:
    """Return the posterior of the logarithms of `ENERGY_NAMES`.

    Parameters
    ----------
    points : sequence of MeasuredPoint
        Those with an energy are used; all are of one rail. A decode time that was not measured is assumed to be the
        usual one.
    catalogue : Catalogue
    before : tuple of two arrays
        Mean and covariance of the prior, see `energy_prior`.
    scatter_log_sd : float
        Expected log-sd of an energy about its prediction.
    """
    with_energy = [m for m in points if m.energy_j is not None]
    settings = [catalogue.resolve(m.point) for m in with_energy]
    costs = [decode_costs(m.point, at, 1.0) for m, at in zip(with_energy, settings, strict=True)]
    byte = np.array([float(one.dram_byte) for one in costs])
    usual_s = byte / (power.USUAL_READ_SHARE * np.array([at.mode.bandwidth_byte_s for at in settings]))
    time_s = np.array([m.decode_s or usual for m, usual in zip(with_energy, usual_s, strict=True)])
    observed = robust.Observed(
        np.log([float(m.energy_j or np.nan) for m in with_energy]),
        np.array([m.log_sd for m in with_energy]),
        np.zeros(len(with_energy), dtype=np.intp),
    )
    scale = np.array([scatter_log_sd / robust.NORMAL_SD_PER_SCALE])
    prior = robust.Prior(before[0], before[1], scale, n_scale=N_SCALE)
    return robust.fit(lambda theta: log_energy(theta, byte, time_s), observed, prior)


def log_energy(theta: Floats, moved_byte: Floats, time_s: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms of energies per token, and their Jacobian with respect to the logarithms of `ENERGY_NAMES`.

    Parameters
    ----------
    theta : array (2,)
        Logarithms of `ENERGY_NAMES`.
    moved_byte, time_s : array (n,)
        Bytes [byte] and decode time [s] of each token.
    """
    parts = np.exp(theta) * np.column_stack([moved_byte, time_s])
    total = parts.sum(axis=1)
    return np.log(total), parts / total[:, None]
