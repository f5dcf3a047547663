"""Co-simulation of power, heat, throttling and battery of a board over a workload.

Steps are equal (0.1 s). In each step the throttle reads the die temperature and allows an operating level, the workload
keeps the board busy for a share of the step, and the resulting power is constant:

::

    P = P_idle + u (P_core(level) + P_dram(level)) + P_l (exp(b (T - T_0)) - 1),    battery: (P + P_periphery) / eta

The die temperature is exact for this power (modes of its ladder). The battery is simulated afterwards in longer steps,
with the mean and the peak of the power in each; it determines the end of the run, not the speed. The level powers
contain the leakage at the reference temperature; the last term is the change of leakage with temperature.

References
----------
docs/physics.md, M6 to M9; quantities, B06 (SITSEnergy: 15 W, 85 deg C, 56 Wh).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.physics.battery import Cell
from core.physics.discharge import Discharge, discharge
from core.physics.thermal import Ladder, balance_error_j, modes
from core.physics.throttle import Throttle
from core.spec import Absent
from core.units import check_range

Floats = NDArray[np.float64]
_MOST_NODES = 3
RUNAWAY_TEMP_C = 1000.0
"""Die temperature at which a run ends as thermal runaway."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Operating levels of a board, rising: (n,) clock [Hz], power above idle of the compute units and of the DRAM while
    decoding [W], and decode rate [tokens/s].
    """

    clock_hz: Floats
    core_w: Floats
    dram_w: Floats
    tokens_s: Floats

    def __post_init__(self) -> None:
        check_range("clock_hz steps", np.diff(self.clock_hz), 0.0, open_low=True)
        check_range("level power steps", np.diff(self.core_w + self.dram_w), 0.0)
        for name in ("clock_hz", "core_w", "dram_w", "tokens_s"):
            check_range(name, getattr(self, name), 0.0)


def scaled_levels(
    clock_hz: ArrayLike,
    relative_dynamic: ArrayLike,
    *,
    memory_s: float,
    scaling_s: float,
    core_w: float,
    dram_w: float,
) -> Levels:
    """Return the levels of a board, extrapolated from its top clock.

    ``T(f) = memory + scaling f_top / f``. DRAM power is proportional to the decode rate, power of the compute units to
    ``f V^2``.

    Parameters
    ----------
    clock_hz, relative_dynamic : (n,) rising clocks [Hz] and ``f V^2`` relative to the top one (`core.physics.dvfs`).
    memory_s, scaling_s : Decode time at the top clock that does not depend on the clock, and that goes with 1 / f [s].
    core_w, dram_w : Power above idle at the top clock [W].
    """
    clock, relative = np.asarray(clock_hz, float), np.asarray(relative_dynamic, float)
    check_range("clock_hz", clock, 0.0, open_low=True)
    check_range("memory_s", memory_s, 0.0)
    check_range("scaling_s", scaling_s, 0.0)
    check_range("memory_s + scaling_s", memory_s + scaling_s, 0.0, open_low=True)
    tokens_s = 1 / (memory_s + scaling_s * clock[-1] / clock)
    return Levels(clock, core_w * relative, dram_w * tokens_s / tokens_s[-1], tokens_s)


@dataclass(frozen=True, slots=True)
class Device:
    """A board with its cooling, throttle and battery.

    Attributes
    ----------
    levels : Levels
    idle_w : Power of the idle board, which heats the die, >= 0 [W].
    periphery_w : Power of loads on the battery that do not heat the die (display, radio, camera), >= 0 [W].
    ladder : Die first, up to 3 nodes.
    throttle : Throttle
    leakage_w, leakage_rate_per_k, leakage_temp_c : P_l >= 0 [W], b >= 0 [1/K], T_0 [deg C].
    shutdown_temp_c : Die temperature at which the board switches off; infinity for never.
    battery : Cell or pack; None for a mains supply.
    converter_frac : Efficiency from battery to board, in (0, 1].
    power_limit_w : Limit of the power that heats the die, > 0 [W]; clocks fall until it is kept, to the lowest level.
    """

    levels: Levels
    idle_w: float
    ladder: Ladder
    throttle: Throttle
    periphery_w: float = 0.0
    leakage_w: float = 0.0
    leakage_rate_per_k: float = 0.0
    leakage_temp_c: float = 25.0
    shutdown_temp_c: float = math.inf
    battery: Cell | None = None
    converter_frac: float = 1.0
    power_limit_w: float = math.inf

    def __post_init__(self) -> None:
        for name in ("idle_w", "periphery_w", "leakage_w", "leakage_rate_per_k"):
            check_range(name, getattr(self, name), 0.0)
        check_range("nodes of the ladder", len(self.ladder.capacity_j_k), 1, _MOST_NODES)
        check_range("converter_frac", self.converter_frac, 0.0, 1.0, open_low=True)
        check_range("power_limit_w", self.power_limit_w, 0.0, open_low=True)


@dataclass(frozen=True, slots=True)
class Run:
    """Result of a simulation, with one value per step until its end.

    `end` is "", "thermal shutdown", "thermal runaway" or the reason that the battery ended. `terms_w` has the mean
    power by term; `thermal_error_j` and `battery_error_j` are the residuals of the energy balances (rounding).
    """

    time_s: Floats  # end of each step
    temp_c: Floats  # die
    power_w: Floats  # board and periphery, before the converter
    tokens_s: Floats
    level: NDArray[np.intp]
    battery: Discharge | None
    end: str
    throttled_after_s: float | Absent
    sustained_tokens_s: float
    sustained_w: float
    tokens: float
    hours_per_charge: float | Absent
    terms_w: dict[str, float]
    energy_j: float
    thermal_error_j: float
    battery_error_j: float | Absent


def load_of_phases(seconds: ArrayLike, load_frac: ArrayLike, duration_s: float, step_s: float) -> Floats:
    """Return the mean load in each step of a workload whose phases repeat until the end.

    Parameters
    ----------
    seconds, load_frac : (p,) length of each phase, > 0 [s], and share of it in which the board decodes, 0 to 1.
    duration_s, step_s : Length of the run and of a step, > 0 [s].
    """
    length, load = np.asarray(seconds, float), np.asarray(load_frac, float)
    check_range("seconds", length, 0.0, open_low=True)
    check_range("load_frac", load, 0.0, 1.0)
    check_range("step_s", step_s, 0.0, open_low=True)
    check_range("duration_s", duration_s, step_s)
    edges, busy = np.r_[0.0, np.cumsum(length)], np.r_[0.0, np.cumsum(length * load)]
    ends = step_s * np.arange(round(duration_s / step_s) + 1)
    turns, within = np.divmod(ends, edges[-1])
    done = turns * busy[-1] + np.interp(within, edges, busy)
    return np.asarray(np.clip(np.diff(done) / step_s, 0.0, 1.0))  # differences of sums leave rounding


def simulate(
    device: Device,
    load_frac: ArrayLike,
    step_s: float,
    ambient_temp_c: float,
    *,
    start_temp_c: float | None = None,
    start_soc: float = 1.0,
) -> Run:
    """Simulate a workload on a board.

    Parameters
    ----------
    load_frac : (n,) share of each step in which the board decodes, 0 to 1.
    step_s : Step and control period, > 0 [s].
    ambient_temp_c : Surroundings [deg C].
    start_temp_c : Temperature of the whole board at the start; None for the ambient.
    start_soc : Charge at the start, in (0, 1].
    """
    load = np.asarray(load_frac, float)
    check_range("load_frac", load, 0.0, 1.0)
    check_range("number of steps", load.size, 1)
    check_range("step_s", step_s, 0.0, open_low=True)
    rise = (ambient_temp_c if start_temp_c is None else start_temp_c) - ambient_temp_c
    level, temp = _heat(device, load.tolist(), step_s, ambient_temp_c, rise)
    n = len(level)
    before = np.r_[ambient_temp_c + rise, temp[:-1]]
    leak = device.leakage_w * np.expm1(device.leakage_rate_per_k * (before - device.leakage_temp_c))
    end = _off_reason(device, float(temp[-1])) if n < load.size else ""
    load, levels = load[:n], device.levels
    terms = {
        "idle": np.full(n, device.idle_w),
        "core": load * levels.core_w[level],
        "dram": load * levels.dram_w[level],
        "leakage above reference": leak,
        "periphery": np.full(n, device.periphery_w),
    }
    die_w = terms["idle"] + terms["core"] + terms["dram"] + leak
    error_j = balance_error_j(device.ladder, die_w, step_s, rise)
    battery = None
    if device.battery is not None:
        supply = (die_w + device.periphery_w) / device.converter_frac
        battery = _drain(device.battery, supply, step_s, start_soc)
        if battery.end:
            end, n = battery.end, max(1, math.ceil(battery.duration_s / step_s - 1e-9))
    return _summary(
        device, step_s, load[:n], level[:n], temp[:n], {k: v[:n] for k, v in terms.items()}, battery, end, error_j
    )


def _off_reason(device: Device, temp_c: float) -> str:
    return "thermal shutdown" if temp_c >= device.shutdown_temp_c else "thermal runaway"


def _heat(
    device: Device, load: list[float], step_s: float, ambient: float, rise_k: float
) -> tuple[NDArray[np.intp], Floats]:
    """Return level and final die temperature of each step until the board switches off.

    The loop over all steps uses scalars for speed: three mode states of the die, padded with zeros.
    """
    m, pad = modes(device.ladder), _MOST_NODES - len(device.ladder.capacity_j_k)
    decay = np.exp(-step_s / m.tau_s)
    d1, d2, d3 = np.pad(decay, (0, pad)).tolist()
    g1, g2, g3 = np.pad(m.resistance_k_w * (1 - decay), (0, pad)).tolist()
    start = np.linalg.solve(m.node_share, np.full(m.tau_s.size, rise_k))
    x1, x2, x3 = np.pad(start, (0, pad)).tolist()
    powers = device.levels.core_w + device.levels.dram_w
    control = device.throttle.controller((powers + device.idle_w).tolist(), device.levels.clock_hz.tolist())
    power, idle, exp = powers.tolist(), device.idle_w, math.exp
    rate, off = device.leakage_rate_per_k, min(device.shutdown_temp_c, RUNAWAY_TEMP_C)
    leakage = device.leakage_w * exp(-rate * device.leakage_temp_c)  # at 0 deg C
    level, temps = list[int](), list[float]()
    add_level, add_temp = level.append, temps.append
    temp, idle = ambient + x1 + x2 + x3, idle - device.leakage_w
    limit = device.power_limit_w
    for busy in load:
        allowed = control(temp)
        leak = leakage * exp(rate * temp)
        watts = idle + busy * power[allowed] + leak
        while watts > limit and allowed:
            allowed -= 1
            watts = idle + busy * power[allowed] + leak
        x1 = d1 * x1 + g1 * watts
        x2 = d2 * x2 + g2 * watts
        x3 = d3 * x3 + g3 * watts
        temp = ambient + x1 + x2 + x3
        add_level(allowed)
        add_temp(temp)
        if temp >= off:
            break
    return np.asarray(level), np.asarray(temps)


_LONG_STEP_S, _SHORT_STEP_S, _RIPPLE_FRAC = 10.0, 2.0, 0.1


def _drain(cell: Cell, supply_w: Floats, step_s: float, start_soc: float) -> Discharge:
    """Discharge the battery in steps of 10 s where power typically varies by less than 10 % within a step, else of 2 s.

    Each step has the mean and the peak of the power. Losses by ripple within a step are neglected: 1 % of the losses at
    10 % ripple. The last step is padded with the last value of the series.
    """
    for length in (_LONG_STEP_S, _SHORT_STEP_S):
        n_join = max(1, round(length / step_s))
        n = -(-supply_w.size // n_join)
        joined = np.pad(supply_w, (0, n * n_join - supply_w.size), mode="edge").reshape(n, n_join)
        mean = joined.mean(axis=1)
        if joined.std(axis=1).mean() <= _RIPPLE_FRAC * mean.mean():
            break
    return discharge(cell, mean, step_s * n_join, start_soc=start_soc, peak_w=np.maximum(joined.max(axis=1), mean))


def _summary(
    device: Device,
    step_s: float,
    load: Floats,
    level: NDArray[np.intp],
    temp: Floats,
    terms: dict[str, Floats],
    battery: Discharge | None,
    end: str,
    thermal_error_j: float,
) -> Run:
    top = len(device.levels.clock_hz) - 1
    power = np.sum(list(terms.values()), axis=0)
    tokens_s = load * device.levels.tokens_s[level]
    throttled = np.flatnonzero((level < top) & (load > 0))
    last = slice(-max(1, load.size // 4), None)
    sustained_w = float(power[last].mean())
    return Run(
        time_s=np.asarray(step_s * np.arange(1.0, load.size + 1)),
        temp_c=temp,
        power_w=power,
        tokens_s=tokens_s,
        level=level,
        battery=battery,
        end=end,
        throttled_after_s=step_s * float(throttled[0]) if throttled.size else Absent("it never throttles in this run"),
        sustained_tokens_s=float(tokens_s[last].mean()),
        sustained_w=sustained_w,
        tokens=float(tokens_s.sum() * step_s),
        hours_per_charge=_hours(device, battery, sustained_w),
        terms_w={name: float(values.mean()) for name, values in terms.items()},
        energy_j=float(power.sum() * step_s),
        thermal_error_j=thermal_error_j,
        battery_error_j=Absent("no battery")
        if battery is None
        else battery.chemical_j - battery.delivered_j - battery.ohmic_j - battery.rc_j,
    )


def _hours(device: Device, battery: Discharge | None, sustained_w: float) -> float | Absent:
    """Return the hours until the battery is empty; after the end of the run at its sustained power."""
    if battery is None or device.battery is None:
        return Absent("no battery")
    if battery.end:
        return battery.duration_s / 3600
    supply, soc = sustained_w / device.converter_frac, float(battery.soc[-1])
    if supply <= 0:
        return Absent("the board draws no power")
    step = max(10.0, soc * device.battery.energy_j / supply / 200)
    rest = discharge(device.battery, np.full(250, supply), step, start_soc=soc)
    return (battery.duration_s + rest.duration_s) / 3600
