"""Sustained operation of a board at an operating point: operating levels, simulated device, and runs with intervals.

Properties of a board without a source have priors; `Speeds.notes` lists those that were used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from core.catalogue.energy import Cooling, DvfsTable, ThrottleRule
from core.physics import power
from core.physics.battery import Cell
from core.physics.dvfs import relative_dynamic_power
from core.predict.cosim import Device, Levels, Run, scaled_levels, simulate
from core.predict.decode import decode_costs
from core.predict.power_limit import most_w
from core.predict.scenario import idle_power_w, initial_posterior, predict, rest_power_w
from core.spec import Absent, Catalogue, Estimate, OperatingPoint, Output, Posterior, Provenance, ResolvedPoint
from core.units import Z90, check_range

EXPONENT = 2.6  # [prior] n of P ~ f^n without known voltages: 2 to 3
LEAKAGE_FRAC, LEAKAGE_RATE_PER_K, LEAKAGE_TEMP_C = 0.1, 0.02, 60.0  # [prior] 0.01 to 0.03 /K
DRAM_MOST_FRAC = 0.7  # [prior] upper bound of the DRAM's share of the power above idle
MOST_IDLE_FRAC = 0.95  # [prior] of idle over decoding power at most, where that is a prediction
MOST_FRAC = 0.95  # a part of a limit below this share of it is said
N_LEVELS, LOWEST_FRAC = 13, 0.4  # [prior] levels of a board without a DVFS table, down to 40 % of its clock
TOP_CLOCK_HZ = {"cpu": 2.4e9, "gpu": 1.0e9, "npu": 1.0e9}  # [prior] where no source gives the clock


@dataclass(frozen=True, slots=True)
class Speeds:
    """Operating levels of a board at an operating point, with log-sds and with assumptions as notes."""

    levels: Levels
    idle_w: float
    decode_log_sd: float
    power_log_sd: float
    notes: tuple[str, ...]
    power_limit_w: float = math.inf  # of the power mode and of the point


def predicted_speeds(
    point: OperatingPoint,
    catalogue: Catalogue,
    posterior: Posterior | None = None,
    *,
    table: DvfsTable | None = None,
    rule: ThrottleRule | None = None,
    idle_w: float | None = None,
    power_w: float | None = None,
) -> Speeds:
    """Return the levels of a board from the prediction of one point.

    The time of reading weights and KV cache does not depend on the clock; all other time goes with 1 / f. DRAM power is
    proportional to the decode rate, the rest of the power above idle to ``f V^2``.

    Parameters
    ----------
    point : Scalars only.
    table : Clocks and voltages of the unit that decodes; None assumes a range of clocks and ``P ~ f^2.6``.
    rule : Source of the top clock where neither table nor power mode has it.
    idle_w : Power of the idle board on the same rail; None uses the measured one, the board's own or a prior.
    power_w : Decoding power at the top clock; None uses the predicted one.

    Raises
    ------
    ValueError
        The board's power is not known, or the idle power is not below it.
    """
    at = catalogue.resolve(point)
    free = point if power_w is None else replace(point, power_limit_w=None)  # clocks fall from the power given
    prediction = predict(free, catalogue, posterior)
    decode, watts = prediction.decode_s, prediction.power_w
    notes = []
    if power_w is None:
        notes.append(f"power covers: {at.board.power_rail}")
    else:
        watts = Estimate(power_w, power_w, power_w, Provenance.PREDICTED)
    if isinstance(watts, Absent) or isinstance(decode, Absent):
        reason = watts.reason if isinstance(watts, Absent) else "its decode time is not known"
        raise ValueError(f"power of {at.board.name}: got nothing ({reason}), expected a decoding power")
    top_w = float(watts.median)
    own = (posterior.board, posterior.runtime, posterior.power_mode) if posterior is not None else None
    same = own == (at.board.key, at.runtime.key, at.mode.key)
    known = posterior if posterior is not None and same else initial_posterior(at, catalogue)
    idle = _idle_w(at, known, idle_w, top_w, notes)
    costs = decode_costs(point, at, point.bandwidth_byte_s or at.mode.bandwidth_byte_s)
    moved = float(np.asarray(costs.dram_byte))
    dram = min(float(power.dram_energy_j(moved)) / float(decode.median), DRAM_MOST_FRAC * (top_w - idle))
    memory_s = float(sum(np.asarray(prediction.parts_s[name]) for name in ("weights", "kv")))
    clock, relative = _clocks(at, table, rule, notes)
    levels = scaled_levels(
        clock,
        relative,
        memory_s=memory_s,
        scaling_s=max(float(decode.median) - memory_s, 0.0),
        core_w=top_w - idle - dram,
        dram_w=dram,
    )
    limit_w = min(at.mode.power_limit_w or math.inf, float(point.power_limit_w or math.inf))
    if limit_w < math.inf:
        notes.append(f"power limit of {limit_w:g} W: clocks fall until it is kept")
        if power_w is None and (part_w := most_w(limit_w, at, known)) < MOST_FRAC * limit_w:
            notes.append(f"[prior] at most {part_w:.2g} W of it are of the parts that the power covers")
            limit_w = part_w
    return Speeds(levels, idle, _log_sd(decode), _log_sd(watts), tuple(notes), limit_w)


def given_speeds(power_w: float, tokens_s: float, idle_w: float = 0.0, exponent: float = EXPONENT) -> Speeds:
    """Return the levels of a board from its power and decode rate at the top clock; the rate follows the clock.

    Parameters
    ----------
    power_w, tokens_s : Decoding power [W] and decode rate, > 0 [tokens/s], at the top clock.
    idle_w : Power of the idle board, below `power_w` [W].
    exponent : n of ``P ~ f^n``.

    Raises
    ------
    ValueError
        A value outside its range.
    """
    if not idle_w < power_w:
        raise ValueError(f"idle power: got {idle_w:g} W, expected less than the decoding power, {power_w:g} W")
    check_range("tokens_s", tokens_s, 0.0, open_low=True)
    clock = np.linspace(LOWEST_FRAC, 1.0, N_LEVELS) * TOP_CLOCK_HZ["npu"]
    relative = (clock / clock[-1]) ** exponent
    levels = scaled_levels(clock, relative, memory_s=0.0, scaling_s=1 / tokens_s, core_w=power_w - idle_w, dram_w=0.0)
    low = 100 * LOWEST_FRAC
    note = f"[prior] levels from {low:.0f} % of the clock; speed follows the clock and power its {exponent:g}th"
    return Speeds(levels, idle_w, 0.0, 0.0, (note,))


def _idle_w(at: ResolvedPoint, known: Posterior, given: float | None, top_w: float, notes: list[str]) -> float:
    stated = idle_power_w(at, known) if given is None else given
    if stated is None:
        idle = min(rest_power_w(at, known), MOST_IDLE_FRAC * top_w)
        notes.append(f"[prior] idle power of {idle:.2g} W, the same for all points of the power mode")
        return idle
    if given is not None and not stated < top_w:
        raise ValueError(f"idle power: got {stated:g} W, expected less than the decoding power, {top_w:.3g} W")
    return min(stated, MOST_IDLE_FRAC * top_w)


def _clocks(
    at: ResolvedPoint, table: DvfsTable | None, rule: ThrottleRule | None, notes: list[str]
) -> tuple[ArrayLike, ArrayLike]:
    if table is not None and table.voltage_v.size:
        notes.append(f"clocks and voltages of {table.name}")
        return table.clock_hz, relative_dynamic_power(table.clock_hz, table.voltage_v)
    top = at.mode.clock_hz or (rule.top_clock_hz if rule else None)
    if top is None:
        top = TOP_CLOCK_HZ[at.board.unit]
        notes.append(f"[prior] top clock of {top / 1e9:g} GHz: no source gives it")
    notes.append(f"[prior] no voltages are known: clocks down to {100 * LOWEST_FRAC:.0f} %, power ~ clock^{EXPONENT:g}")
    clock = np.linspace(LOWEST_FRAC, 1.0, N_LEVELS) * top
    return clock, (clock / top) ** EXPONENT


def _log_sd(estimate: Estimate) -> float:
    return math.log(float(estimate.q95) / float(estimate.q05)) / (2 * Z90)


def device_of(
    speeds: Speeds,
    cooling: Cooling,
    rule: ThrottleRule,
    *,
    battery: Cell | None = None,
    rest_w: float = 0.0,
    converter_frac: float = 1.0,
    leakage_frac: float = LEAKAGE_FRAC,
) -> Device:
    """Return the device to simulate; leakage is a share of the decoding power at 60 deg C."""
    top_w = float(speeds.idle_w + speeds.levels.core_w[-1] + speeds.levels.dram_w[-1])
    return Device(
        levels=speeds.levels,
        idle_w=speeds.idle_w,
        ladder=cooling.ladder,
        throttle=rule.throttle(cooling.resistance_k_w),
        periphery_w=rest_w,
        leakage_w=leakage_frac * top_w,
        leakage_rate_per_k=LEAKAGE_RATE_PER_K,
        leakage_temp_c=LEAKAGE_TEMP_C,
        shutdown_temp_c=rule.shutdown_temp_c,
        battery=battery,
        converter_frac=converter_frac,
        power_limit_w=speeds.power_limit_w,
    )


def simulate_at_quantiles(
    device: Device, speeds: Speeds, load_frac: ArrayLike, step_s: float, ambient_temp_c: float, start_soc: float = 1.0
) -> tuple[Run, ...]:
    """Return the run at the median power, then those at its 5 and 95 % quantiles unless the power is exact.

    Cooling and battery are taken as exact.
    """
    factors = (1.0,) if speeds.power_log_sd == 0 else (1.0, *np.exp(Z90 * speeds.power_log_sd * np.array([-1.0, 1.0])))
    return tuple(simulate(_scaled(device, f), load_frac, step_s, ambient_temp_c, start_soc=start_soc) for f in factors)


def results(runs: Sequence[Run], speeds: Speeds, length_s: float) -> dict[str, Output]:
    """Return the outputs of the runs with 90 % intervals by the uncertainty of power and decode rate.

    Cooling and battery are taken as exact, so the provenance is "predicted" even with a calibrated rate. In the
    interval of the time to throttling, a run that never throttles counts as `length_s`.
    """
    spread = Z90 * speeds.decode_log_sd
    throttled = [runs[0].throttled_after_s, *(_value_or(r.throttled_after_s, length_s) for r in runs[1:])]
    return {
        "throttled_after_s": _between(throttled),
        "sustained_w": _between([r.sustained_w for r in runs]),
        "sustained_tokens_s": _between([r.sustained_tokens_s for r in runs], spread),
        "tokens": _between([r.tokens for r in runs], spread),
        "hours_per_charge": _between([r.hours_per_charge for r in runs]),
        "peak_temp_c": _between([float(r.temp_c.max()) for r in runs]),
    }


def simulate_with_interval(
    device: Device, speeds: Speeds, load_frac: ArrayLike, step_s: float, ambient_temp_c: float, start_soc: float = 1.0
) -> tuple[Run, Mapping[str, Output]]:
    """Return the run at the median power, and its `results`."""
    runs = simulate_at_quantiles(device, speeds, load_frac, step_s, ambient_temp_c, start_soc)
    return runs[0], results(runs, speeds, step_s * np.size(load_frac))


def _scaled(device: Device, factor: float) -> Device:
    levels = device.levels
    return replace(
        device,
        levels=replace(levels, core_w=levels.core_w * factor, dram_w=levels.dram_w * factor),
        idle_w=device.idle_w * factor,
        leakage_w=device.leakage_w * factor,
    )


def _value_or(value: float | Absent, other: float) -> float:
    return other if isinstance(value, Absent) else value


def _between(values: Sequence[float | Absent], log_spread: float = 0.0) -> Output:
    """Return an estimate from the values of the median run and of the runs at the quantiles of power."""
    median = values[0]
    if isinstance(median, Absent):
        return median
    known = [v for v in values if not isinstance(v, Absent)]
    low, high = min(known), max(known)
    if log_spread and median > 0:
        low = median * math.exp(-math.hypot(math.log(median / max(low, 1e-300)), log_spread))
        high = median * math.exp(math.hypot(math.log(max(high, 1e-300) / median), log_spread))
    return Estimate(median, low, high, Provenance.PREDICTED)
