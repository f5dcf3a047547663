"""Power limits of a point: that of its power mode, which a measured time contains already, and the user's.

References
----------
docs/physics.md, M6: clocks fall until the power fits, and the energy beyond that of the board at rest stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.physics import power
from core.predict.parameters import plain
from core.spec import Array, Estimate, OperatingPoint, Output, Posterior, ResolvedPoint

MOST_REST_FRAC = 0.5  # [prior] power at rest over the power limit, at most: lower clocks need less at rest too


@dataclass(frozen=True, slots=True)
class Limited:
    """Outputs of a point under its power limits, and sentences on limits that no clock keeps."""

    decode_s: Estimate
    energy_j: Estimate
    power_w: Estimate
    ttft_s: Output
    outside: tuple[str, ...] = ()


def limited(
    point: OperatingPoint,
    at: ResolvedPoint,
    known: Posterior,
    decode_s: Estimate,
    energy_j: Estimate,
    power_w: Estimate,
    ttft_s: Output,
    rest_w: float,
) -> Limited:
    """Return the outputs of a point under the limit of its power mode and its own.

    Parameters
    ----------
    point, at : the point, and its records
    known : Posterior
        Of the point's board, runtime and power mode.
    decode_s, energy_j, power_w, ttft_s
        Outputs without limits.
    rest_w : float
        Power of the board at rest on the same rail, >= 0 [W].
    """
    found = Limited(decode_s, energy_j, power_w, ttft_s)
    if at.mode.power_limit_w is not None:
        contains = known.n_decode > 0 and not known.moved_from  # the measured times contain the limit
        weak = not known.n_energy and (contains or at.board.energy_assumed)
        found = _less_energy(found, at.mode.power_limit_w) if weak else _slower(found, rest_w, at.mode.power_limit_w)
    if point.power_limit_w is not None:
        least_w = np.minimum(rest_w, found.power_w.median)
        found = _slower(found, rest_w, np.maximum(point.power_limit_w, least_w))
        if np.any(least_w > point.power_limit_w):
            text = f"{at.board.name} draws {rest_w:.2g} W at rest: no clock keeps a lower limit"
            found = Limited(found.decode_s, found.energy_j, found.power_w, found.ttft_s, (text,))
    return found


def _slower(of: Limited, rest_w: float, limit_w: Array) -> Limited:
    """Return the outputs with clocks that keep the limit."""
    rest = np.minimum(np.minimum(rest_w, np.multiply(MOST_REST_FRAC, limit_w)), of.power_w.median)
    time_s = power.limited_time_s(of.decode_s.median, of.energy_j.median, rest, limit_w)
    low, high = (np.divide(of.energy_j.q05, of.energy_j.median), np.divide(of.energy_j.q95, of.energy_j.median))
    beyond_s = np.multiply(of.power_w.median, of.decode_s.median) - np.multiply(rest, of.decode_s.median)
    limited_s = beyond_s / np.subtract(limit_w, rest)
    slow = np.divide(time_s, of.decode_s.median)
    energy_j = np.add(of.energy_j.median, np.multiply(rest, np.subtract(time_s, of.decode_s.median)))
    watts = np.minimum(power.mean_power_w(energy_j, time_s), limit_w)
    ttft_s = of.ttft_s
    if isinstance(ttft_s, Estimate):
        ttft_s = _estimate(ttft_s.median * slow, ttft_s.q05 * slow, ttft_s.q95 * slow, ttft_s)
    watts_low = np.multiply(watts, np.divide(of.power_w.q05, of.power_w.median))
    watts_high = np.minimum(np.multiply(watts, np.divide(of.power_w.q95, of.power_w.median)), limit_w)
    return Limited(
        _estimate(
            time_s,
            np.maximum(of.decode_s.q05, limited_s * low),
            np.maximum(of.decode_s.q95, limited_s * high),
            of.decode_s,
        ),
        _estimate(energy_j, energy_j * low, energy_j * high, of.energy_j),
        _estimate(watts, watts_low, watts_high, of.power_w),
        ttft_s,
    )


def _less_energy(of: Limited, limit_w: Array) -> Limited:
    """Return the outputs with energies that keep the limit at the given times."""
    watts, joule = of.power_w, of.energy_j
    share = np.minimum(np.divide(limit_w, watts.median), 1.0)
    low, median, high = (np.minimum(each, limit_w) for each in (watts.q05, watts.median, watts.q95))
    return Limited(
        of.decode_s,
        _estimate(joule.median * share, joule.q05 * share, joule.q95 * share, joule),
        _estimate(median, low, high, watts),
        of.ttft_s,
    )


def _estimate(median: Array, q05: Array, q95: Array, like: Estimate) -> Estimate:
    return Estimate(plain(median), plain(q05), plain(q95), like.provenance)
