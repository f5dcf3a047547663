"""Energy and power of decoding: energy per byte moved on a named rail, floors below it, leakage and its fixed point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

DRAM_ENERGY_J_BIT = 8e-12
"""[prior] LPDDR4X to LPDDR5X all-in, 4 to 14 pJ/bit. Figures of single parts are in dram_energy.csv."""


def decode_energy_j(moved_byte: Array, energy_j_byte: Array) -> Array:
    """Return the energy of one token [J] on the rail that `energy_j_byte` was measured on, ``e (W + n K)``.

    System energy per byte moved is steadier within a board and rail (10 to 17 %) than any sum of parts. Figures of
    different rails must not be mixed.

    Parameters
    ----------
    moved_byte : float or array
        Bytes of weights and KV cache read for the token, >= 0.
    energy_j_byte : float or array
        Energy per byte moved [J/byte], > 0.

    References
    ----------
    docs/physics.md, M6: 185 pJ/byte on the GPU rail of an AGX Orin, 1214 at the wall of a Raspberry Pi 5.
    """
    check_range("moved_byte", moved_byte, 0.0)
    check_range("energy_j_byte", energy_j_byte, 0.0, open_low=True)
    return np.multiply(moved_byte, energy_j_byte)


STATIC_SHARE = {"wall": 0.6, "rail": 0.3}
"""[prior] share of the power while decoding that does not follow the bytes moved, at the usual pace: of the whole board
at the wall, and of what one rail of the chip feeds; whichever board is left out, the others choose about these."""
STATIC_LOG_ODDS_SD = 0.8  # [prior] of that share between boards
USUAL_READ_SHARE = 0.6  # of the peak bandwidth, at the usual pace


def static_share(rail: str) -> float:
    """Return the expected share of static power in what a rail carries while decoding."""
    return STATIC_SHARE["wall" if "wall" in rail.lower() else "rail"]


def mixed_energy_j(moved_byte: Array, time_s: Array, energy_j_byte: Array, static_w: Array) -> Array:
    """Return the energy of one token [J], ``e (W + n K) + P_static T``.

    Clocks, fans, leakage and waiting cores draw their power for as long as a token takes; moving and computing costs
    energy by the byte. So a model that is slow for its bytes costs more energy than its bytes tell.

    Parameters
    ----------
    moved_byte, time_s : float or array
        Bytes read for the token and the time it takes, >= 0.
    energy_j_byte, static_w : float or array
        Energy per byte beyond the static power [J/byte], and that power [W], >= 0.
    """
    check_range("static_w", static_w, 0.0)
    check_range("time_s", time_s, 0.0)
    return decode_energy_j(moved_byte, energy_j_byte) + np.multiply(static_w, time_s)


def dram_energy_j(moved_byte: Array, energy_j_bit: Array = DRAM_ENERGY_J_BIT) -> Array:
    """Return the energy that the DRAM alone needs to move some bytes [J], ``8 B e``: a floor for the whole board.

    References
    ----------
    docs/physics.md, M6: 41.68 mJ per token of Qwen2-1.5B at 4.5 bits and 6 pJ/bit.
    """
    check_range("moved_byte", moved_byte, 0.0)
    check_range("energy_j_bit", energy_j_bit, 0.0)
    return BIT_PER_BYTE * np.multiply(moved_byte, energy_j_bit)


def energy_floor_j(
    moved_byte: Array, time_s: Array, idle_power_w: float, energy_j_bit: Array = DRAM_ENERGY_J_BIT
) -> Array:
    """Return the least energy a whole board can spend [J]: idle power for the time, and the DRAM's for the bytes."""
    check_range("time_s", time_s, 0.0)
    check_range("idle_power_w", idle_power_w, 0.0)
    return np.multiply(idle_power_w, time_s) + dram_energy_j(moved_byte, energy_j_bit)


def paced_energy_j(energy_j: Array, own_s: Array, time_s: Array, idle_w: Array) -> Array:
    """Return the energy of a token at another pace than the board's own [J], ``E + P_idle (T - T_own)``.

    The energy that a board was measured to spend at its own pace contains its idle power for that time; a slower memory
    makes it pay for longer, so that mean power never falls below the idle power.

    Parameters
    ----------
    energy_j, own_s : float or array
        Energy [J] and time [s] of the token at the board's own pace, > 0.
    time_s : float or array
        Time of the token at the other pace, > 0 [s].
    idle_w : float or array
        Idle power on the same rail, 0 to ``energy_j / own_s`` [W].
    """
    check_range("own_s", own_s, 0.0, open_low=True)
    check_range("time_s", time_s, 0.0, open_low=True)
    check_range("idle_w", idle_w, 0.0)
    return np.add(energy_j, np.multiply(idle_w, np.subtract(time_s, own_s)))


def mean_power_w(energy_j: Array, time_s: Array) -> Array:
    """Return the mean power while decoding [W], ``E / T``."""
    check_range("energy_j", energy_j, 0.0)
    check_range("time_s", time_s, 0.0, open_low=True)
    return np.divide(energy_j, time_s)


def trace_energy_j(time_s: NDArray[np.float64], power_w: NDArray[np.float64]) -> float:
    """Return the energy under a sampled power trace [J]: trapezoids, exact where power is piecewise linear."""
    if time_s.shape != power_w.shape or time_s.ndim != 1 or time_s.size < 2:
        raise ValueError(f"time_s {time_s.shape} and power_w {power_w.shape} are not two equal columns of 2 or more")
    if np.any(np.diff(time_s) <= 0.0):
        raise ValueError("time_s does not rise from sample to sample")
    return float(np.trapezoid(power_w, time_s))


def dynamic_power_w(activity_frac: Array, capacitance_f: Array, clock_hz: Array, voltage_v: Array) -> Array:
    """Return the switching power of a unit [W], ``a C f V^2``.

    Parameters
    ----------
    activity_frac : float or array
        Share of the capacitance that switches in a cycle, 0 to 1.
    capacitance_f, clock_hz, voltage_v : float or array
        Switched capacitance [F], clock [Hz] and supply [V], >= 0.
    """
    check_range("activity_frac", activity_frac, 0.0, 1.0)
    for name, value in (("capacitance_f", capacitance_f), ("clock_hz", clock_hz), ("voltage_v", voltage_v)):
        check_range(name, value, 0.0)
    return np.multiply(activity_frac, capacitance_f) * np.multiply(clock_hz, np.square(voltage_v))


@dataclass(frozen=True, slots=True)
class RequestEnergy:
    """Energy of one request on one rail [J], idle beside it and never subtracted.

    `prefill_j` covers the start of the prompt to the first token, `decode_j` the first token to the last, which are
    ``n_tokens - 1`` steps; `idle_w` is the rail's mean before the request.
    """

    prefill_j: float
    decode_j: float
    decode_j_per_token: float
    idle_w: float


def request_energy(
    time_s: NDArray[np.float64],
    power_w: NDArray[np.float64],
    start_s: float,
    first_token_s: float,
    last_token_s: float,
    n_tokens: int,
) -> RequestEnergy:
    """Return the energy of a request from a power trace in the same clock, by the trapezoid rule with exact ends.

    Parameters
    ----------
    time_s, power_w : array, shape (m,)
        Rising times [s] and the power of one rail [W]; they must span the request, and hold at least two samples
        before it for the idle power.
    start_s, first_token_s, last_token_s : float
        When the prompt began to be read and when the first and the last token came, rising [s].
    n_tokens : int
        Tokens generated, >= 2.
    """
    check_range("n_tokens", n_tokens, 2)
    check_range("first_token_s - start_s", first_token_s - start_s, 0.0)
    check_range("last_token_s - first_token_s", last_token_s - first_token_s, 0.0, open_low=True)
    check_range("start_s", start_s, float(time_s[0]), float(time_s[-1]))
    check_range("last_token_s", last_token_s, float(time_s[0]), float(time_s[-1]))
    before = time_s < start_s
    check_range("samples before the request", int(before.sum()), 2)
    prefill = window_energy_j(time_s, power_w, start_s, first_token_s)
    decode = window_energy_j(time_s, power_w, first_token_s, last_token_s)
    idle = trace_energy_j(time_s[before], power_w[before]) / float(time_s[before][-1] - time_s[0])
    return RequestEnergy(prefill, decode, decode / (n_tokens - 1), idle)


def window_energy_j(time_s: NDArray[np.float64], power_w: NDArray[np.float64], from_s: float, until_s: float) -> float:
    """Return the energy of a power trace within a window [J], its ends interpolated."""
    check_range("until_s - from_s", until_s - from_s, 0.0)
    if until_s == from_s:
        return 0.0
    inside = (time_s > from_s) & (time_s < until_s)
    times = np.concatenate([[from_s], time_s[inside], [until_s]])
    return trace_energy_j(times, np.interp(times, time_s, power_w))


# --- leakage ----------------------------------------------------------------------------------------------------------


def leakage_power_w(temp_c: Array, power_at_reference_w: Array, rate_per_k: Array, reference_temp_c: Array) -> Array:
    """Return the leakage power [W], ``P_l0 exp(b (T - T0))``, with b of 0.01 to 0.03 per kelvin [prior]."""
    check_range("power_at_reference_w", power_at_reference_w, 0.0)
    check_range("rate_per_k", rate_per_k, 0.0)
    return power_at_reference_w * np.exp(np.multiply(rate_per_k, np.subtract(temp_c, reference_temp_c)))


def steady_temp_c(
    ambient_temp_c: Array,
    resistance_k_w: Array,
    power_w: Array,
    leakage_w: Array,
    rate_per_k: Array,
    reference_temp_c: Array,
) -> Array:
    """Return the temperature [deg C] at which heat made, leakage included, equals heat removed.

    ``T = Ta + R (P + P_l0 exp(b (T - T0)))`` solved in closed form:
    ``T = Ta + R P - W0(-R P_l0 b exp(b (Ta + R P - T0))) / b`` with Lambert's W. Infinite where there is no such
    temperature: the board runs away (argument below -1/e).

    Parameters
    ----------
    ambient_temp_c, reference_temp_c : float or array
        Surroundings, and the temperature that `leakage_w` belongs to [deg C].
    resistance_k_w : float or array
        Thermal resistance to the surroundings [K/W], >= 0.
    power_w, leakage_w : float or array
        Power without leakage, and leakage at the reference temperature [W], >= 0.
    rate_per_k : float or array
        Relative growth of leakage [1/K], > 0.

    References
    ----------
    docs/physics.md, M6 and quantities, B06: 48.17954492 C for R = 2 K/W, P = 10 W, P_l0 = 1 W, b = 0.02/K and
    Ta = T0 = 25 C.
    """
    check_range("resistance_k_w", resistance_k_w, 0.0)
    check_range("power_w", power_w, 0.0)
    check_range("leakage_w", leakage_w, 0.0)
    check_range("rate_per_k", rate_per_k, 0.0, open_low=True)
    without = np.add(ambient_temp_c, np.multiply(resistance_k_w, power_w))
    argument = -np.multiply(resistance_k_w, leakage_w) * rate_per_k * np.exp(rate_per_k * (without - reference_temp_c))
    return without - lambert_w0(argument) / rate_per_k


def leakage_loop_gain(resistance_k_w: Array, leakage_at_temp_w: Array, rate_per_k: Array) -> Array:
    """Return how much one kelvin more raises the steady state through leakage [K/K], ``R P_l(T) b``; 1 runs away."""
    return np.multiply(resistance_k_w, leakage_at_temp_w) * rate_per_k


def lambert_w0(x: Array) -> Array:
    """Return the principal branch of Lambert's W, ``w exp(w) = x``, for x <= 0; -infinity below -1/e.

    Halley's iteration from the series about the branch point; relative error under 1e-14 away from it.
    """
    check_range("x", x, -np.inf, 0.0)
    x = np.asarray(x, dtype=float)
    reachable = np.maximum(x, -np.exp(-1.0))
    root = np.sqrt(np.maximum(2.0 * (np.e * reachable + 1.0), 0.0))
    w = -1.0 + root - root**2 / 3.0 + 11.0 / 72.0 * root**3
    for _ in range(6):
        e = np.exp(w)
        off = w * e - reachable
        slope = e * (w + 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = off / (slope - (w + 2.0) * off / (2.0 * w + 2.0))
        w = w - np.where(np.isfinite(step), step, 0.0)
    return np.where(x < -np.exp(-1.0) * (1.0 + 1e-15), -np.inf, w)
