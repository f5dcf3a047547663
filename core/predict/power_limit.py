"""Power limits of a point: that of its power mode, and the user's.

A limit is of the whole board. The rail of the power model gets a share of it, which is uncertain.

The limit of a power mode is evidence: the mode's clocks keep it, so time, energy and the rail's share are conditioned
on a power below it, each by its own uncertainty. The user's limit is a cause: clocks fall until it is kept.

References
----------
docs/physics.md, M6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.physics import power
from core.predict.parameters import plain
from core.spec import Array, Estimate, OperatingPoint, Output, Posterior, ResolvedPoint
from core.spec.board import WHOLE_BOARD_LIMIT_FRAC, WHOLE_BOARD_LIMIT_LOG_SD
from core.units import Z90

MOST_REST_FRAC = 0.5  # [prior] power at rest over the power limit, at most: lower clocks need less at rest too
SAID_FRAC = 0.9  # an energy lowered to less than this share is said
LEAST_LOG_SD = 1e-6
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Limited:
    """Outputs of a point under its power limits, and sentences on limits that the power model does not explain."""

    decode_s: Estimate
    energy_j: Estimate
    power_w: Estimate
    ttft_s: Output
    binds: Array | NDArray[np.bool_] = False  # whether a limit is below the power without it
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
    share, log_sd = limit_share(at, known)
    if at.mode.power_limit_w is not None:
        found = _conditioned(found, at.mode.power_limit_w, share, log_sd)
        kept = np.divide(found.energy_j.median, energy_j.median)
        if not known.n_energy and np.any(kept < SAID_FRAC):
            text = (
                f"boards like {at.board.name} would draw up to {float(np.max(power_w.median)):.2g} W on this work: its "
                f"energy is lowered by up to {100 * (1 - float(np.min(kept))):.0f} % to keep {at.mode.power_limit_w:g} "
                "W"
            )
            found = replace(found, outside=(text,))
    if point.power_limit_w is not None:
        least_w = np.minimum(rest_w, found.power_w.median)
        found = _slower(found, rest_w, np.maximum(point.power_limit_w, least_w), share, log_sd)
        if np.any(least_w > point.power_limit_w):
            text = f"{at.board.name} draws {rest_w:.2g} W at rest: no clock keeps a lower limit"
            found = replace(found, outside=(*found.outside, text))
    return found


def limit_share(at: ResolvedPoint, known: Posterior) -> tuple[float, float]:
    """Return the share of a power limit that the rail of the energies gets, and its log-sd.

    The board states that of its own rail. Energies of a rail of another name are taken for those of the whole board.
    """
    if not known.n_energy or same_rail(known.power_covers, at.board.power_rail):
        return at.board.rail_limit_frac, at.board.rail_limit_log_sd
    return WHOLE_BOARD_LIMIT_FRAC, WHOLE_BOARD_LIMIT_LOG_SD


def most_w(limit_w: float, at: ResolvedPoint, known: Posterior) -> float:
    """Return the upper end of the 90 % interval of the part of a limit that the rail of the energies gets [W]."""
    share, log_sd = limit_share(at, known)
    return limit_w * min(share * float(np.exp(Z90 * log_sd)), 1.0)


def same_rail(one: str, other: str) -> bool:
    """Whether two names of power rails begin with the same word; "" stands for any rail.

    Examples
    --------
    >>> same_rail("VDD_CPU_GPU_CV only (less than half of module power)", "VDD_CPU_GPU_CV rail")
    True
    >>> same_rail("VDD_IN", "GPU rail")
    False
    """
    first, second = (_WORD.search(name) for name in (one, other))
    return first is None or second is None or first[0].lower() == second[0].lower()


def _conditioned(of: Limited, limit_w: float, share: float, share_log_sd: float) -> Limited:
    """Return the outputs given that the rail keeps its part of a limit.

    The logarithms of time, energy and limit are normal, so each moves with that of the power over the limit by its
    regression on it, and keeps the variance that the regression leaves.
    """
    time_sd, energy_sd, power_sd = (_log_sd(each) for each in (of.decode_s, of.energy_j, of.power_w))
    over = np.log(np.divide(of.power_w.median, share * limit_w))
    over_var = np.square(power_sd) + share_log_sd**2
    over_sd = np.maximum(np.sqrt(over_var), LEAST_LOG_SD)
    matters = over + Z90 * over_sd > 0.0
    below = power.below_limit(over, over_sd)  # 5, 50 and 95 %
    left_sd = np.subtract(below[2], below[0]) / (2.0 * Z90)
    with_energy = (np.square(energy_sd) + np.square(power_sd) - np.square(time_sd)) / 2.0  # covariance with the power

    def moved(one: Estimate, cov: Array, log_sd: Array, most: float = np.inf) -> Estimate:
        slope = cov / np.square(over_sd)
        middle = np.multiply(one.median, np.exp(slope * (below[1] - over)))
        spread = np.sqrt(np.maximum(np.square(log_sd) + np.square(slope) * (np.square(left_sd) - over_var), 0.0))
        ends = (middle, middle * np.exp(-Z90 * spread), middle * np.exp(Z90 * spread))
        before = (one.median, one.q05, one.q95)
        middle, low, high = (
            np.minimum(np.where(matters, new, old), most) for new, old in zip(ends, before, strict=True)
        )
        return _estimate(middle, low, high, one)

    energy_j = moved(of.energy_j, with_energy, energy_sd)
    decode_s = moved(of.decode_s, with_energy - np.square(power_sd), time_sd)
    power_w = moved(of.power_w, np.square(power_sd), power_sd, limit_w)
    power_w = replace(power_w, median=plain(np.divide(energy_j.median, decode_s.median)))
    return Limited(decode_s, energy_j, power_w, _with_time(of.ttft_s, of.decode_s, decode_s), over > 0.0)


def _slower(of: Limited, rest_w: float, limit_w: Array, share: float, share_log_sd: float) -> Limited:
    """Return the outputs with clocks that keep a rail's part of a limit."""
    factor = float(np.exp(Z90 * share_log_sd))
    low_w, part_w, high_w = (np.multiply(limit_w, min(share * f, 1.0)) for f in (1.0 / factor, 1.0, factor))
    rest = np.minimum(np.minimum(rest_w, np.multiply(MOST_REST_FRAC, part_w)), of.power_w.median)
    time_s = power.limited_time_s(of.decode_s.median, of.energy_j.median, rest, part_w)
    beyond_s = np.multiply(of.power_w.median, of.decode_s.median) - np.multiply(rest, of.decode_s.median)
    limited_s = beyond_s / np.subtract(part_w, rest)
    by_share = share_log_sd * np.divide(part_w, np.subtract(part_w, rest))
    spread = np.exp(Z90 * np.hypot(_log_sd(of.energy_j), by_share))
    decode_s = _estimate(
        time_s,
        np.maximum(of.decode_s.q05, limited_s / spread),
        np.maximum(of.decode_s.q95, limited_s * spread),
        of.decode_s,
    )
    energy_j = np.add(of.energy_j.median, np.multiply(rest, np.subtract(time_s, of.decode_s.median)))
    low, high = (np.divide(of.energy_j.q05, of.energy_j.median), np.divide(of.energy_j.q95, of.energy_j.median))
    watts = np.minimum(power.mean_power_w(energy_j, time_s), part_w)
    power_w = _estimate(
        watts,
        np.minimum(np.minimum(of.power_w.q05, low_w), watts),
        np.maximum(np.minimum(of.power_w.q95, high_w), watts),
        of.power_w,
    )
    return Limited(
        decode_s,
        _estimate(energy_j, energy_j * low, energy_j * high, of.energy_j),
        power_w,
        _with_time(of.ttft_s, of.decode_s, decode_s),
        np.logical_or(of.binds, np.greater(time_s, of.decode_s.median)),
        of.outside,
    )


def _with_time(ttft_s: Output, before: Estimate, after: Estimate) -> Output:
    """Return the time to first token, slower as the decode time is."""
    if not isinstance(ttft_s, Estimate):
        return ttft_s
    slow = np.divide(after.median, before.median)
    low, high = (np.divide(getattr(after, end), getattr(before, end)) for end in ("q05", "q95"))
    median = np.multiply(ttft_s.median, slow)
    return _estimate(
        median,
        np.minimum(np.multiply(ttft_s.q05, low), median),
        np.maximum(np.multiply(ttft_s.q95, high), median),
        ttft_s,
    )


def _log_sd(of: Estimate) -> Array:
    return np.log(np.divide(of.q95, of.q05)) / (2.0 * Z90)


def _estimate(median: Array, q05: Array, q95: Array, like: Estimate) -> Estimate:
    return Estimate(plain(median), plain(q05), plain(q95), like.provenance)
