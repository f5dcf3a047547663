"""Fit of energy per byte and static power of one rail to measured energies of tokens, and its leave-one-out check."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from core.calibrate import robust
from core.calibrate.leave_one_out import FEWEST, CrossCheck, cross_check
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
    observed, byte, time_s = _rows(points, catalogue)
    prior = _robust_prior(before, scatter_log_sd)
    return robust.fit(partial(log_energy, moved_byte=byte, time_s=time_s), observed, prior)


def energy_check(
    points: Sequence[MeasuredPoint], catalogue: Catalogue, before: tuple[Floats, Floats], scatter_log_sd: float
) -> CrossCheck | None:
    """Refit without each operating point and predict its power at its measured time.

    Parameters
    ----------
    points, catalogue, before, scatter_log_sd : as for `energy_fit`

    Returns
    -------
    CrossCheck or None
        With powers [W] in place of times; None with energies of fewer than three points.
    """
    of = [m.point for m in points if m.energy_j is not None]
    group = np.array([of.index(point) for point in of], dtype=np.intp)
    if len(np.unique(group)) < FEWEST:
        return None
    observed, byte, time_s = _rows(points, catalogue)
    prior = _robust_prior(before, scatter_log_sd)
    predicted, log_sd = np.full((2, len(group)), np.nan)
    for one in np.unique(group):
        out = group == one
        others = robust.Observed(observed.value[~out], observed.noise_sd[~out], observed.kind[~out])
        refit = robust.fit(partial(log_energy, moved_byte=byte[~out], time_s=time_s[~out]), others, prior)
        there, jacobian = log_energy(refit.mean, byte[out], time_s[out])
        variance = np.sum(jacobian @ refit.cov * jacobian, axis=1) + np.square(observed.noise_sd[out])
        predicted[out] = there
        log_sd[out] = np.sqrt(variance + np.square(refit.scale[0] * robust.NORMAL_SD_PER_SCALE))
    return cross_check(observed.value - np.log(time_s), predicted - np.log(time_s), log_sd)


def _rows(points: Sequence[MeasuredPoint], catalogue: Catalogue) -> tuple[robust.Observed, Floats, Floats]:
    """Return the logarithms of the energies, and the bytes and times of their tokens."""
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
    return observed, byte, time_s


def _robust_prior(before: tuple[Floats, Floats], scatter_log_sd: float) -> robust.Prior:
    return robust.Prior(before[0], before[1], np.array([scatter_log_sd / robust.NORMAL_SD_PER_SCALE]), n_scale=N_SCALE)


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
