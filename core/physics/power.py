"""Energy and power of decoding: energy per byte moved on a named rail, floors below it, leakage and its fixed point.

References
----------
.. [1] docs/physics.md M6
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

DRAM_ENERGY_J_BIT = 8e-12
"""[prior] LPDDR4X to LPDDR5X, all in, 4 to 14 pJ/bit [J/bit]. Figures of single parts are in dram_energy.csv."""


def decode_energy_j(moved_byte: Array, energy_j_byte: Array) -> Array:
    """Return the energy of one token by the bytes it moves, ``E = e (W + n K)``.

    Energy per byte moved, measured on one rail, is steadier than a sum of parts: between models it varies by 2 to 11 %
    on most boards and rails, and by about 30 % on three. Figures of different rails must not be mixed.

    Parameters
    ----------
    moved_byte : float or ndarray
        Bytes ``W + n K`` of weights and KV cache read for the token [byte], >= 0.
    energy_j_byte : float or ndarray
        Energy e per byte moved [J/byte], > 0: from 187 pJ/byte on the GPU rail of an AGX Orin to 1240 pJ/byte at the
        wall of a Raspberry Pi 5.

    Returns
    -------
    float or ndarray
        Energy on the rail of `energy_j_byte` [J].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(decode_energy_j(868.34e6, 1240e-12)), 6)
    1.076742
    """
    check_range("moved_byte", moved_byte, 0.0)
    check_range("energy_j_byte", energy_j_byte, 0.0, open_low=True)
    return np.multiply(moved_byte, energy_j_byte)


STATIC_SHARE = {"wall": 0.6, "rail": 0.3}
"""[prior] share of decode power that does not follow the bytes, at `USUAL_READ_SHARE` of the peak bandwidth: of the
whole board at the wall, and of one rail of the chip. With each board left out in turn the others give about these."""
STATIC_LOG_ODDS_SD = 0.8  # [prior] of that share between boards
USUAL_READ_SHARE = 0.6  # of the peak bandwidth, to which the shares belong


def static_share(rail: str) -> float:
    """Return the expected share of static power in the power of a rail while decoding, a prior.

    Parameters
    ----------
    rail : str
        Name of the rail; one that contains "wall" feeds the whole board.

    Returns
    -------
    float
        Share [1].

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> static_share("wall"), static_share("VDD_GPU_SOC")
    (0.6, 0.3)
    """
    return STATIC_SHARE["wall" if "wall" in rail.lower() else "rail"]


def mixed_energy_j(moved_byte: Array, time_s: Array, energy_j_byte: Array, static_w: Array) -> Array:
    """Return the energy of one token by the bytes it moves and the time it takes.

    ``E = e (W + n K) + P_static T``: clocks, fans, leakage and waiting cores draw their power for as long as a token
    takes, so a model that is slow for its bytes costs more energy than its bytes alone.

    Parameters
    ----------
    moved_byte : float or ndarray
        Bytes read for the token [byte], >= 0.
    time_s : float or ndarray
        Time T of the token [s], >= 0.
    energy_j_byte : float or ndarray
        Energy e per byte beyond the static power [J/byte], > 0.
    static_w : float or ndarray
        Static power P_static [W], >= 0.

    Returns
    -------
    float or ndarray
        Energy [J].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(mixed_energy_j(1e9, 0.1, 200e-12, 3.0)), 6)
    0.5
    """
    check_range("static_w", static_w, 0.0)
    check_range("time_s", time_s, 0.0)
    return decode_energy_j(moved_byte, energy_j_byte) + np.multiply(static_w, time_s)


def dram_energy_j(moved_byte: Array, energy_j_bit: Array = DRAM_ENERGY_J_BIT) -> Array:
    """Return the energy of the DRAM alone for some bytes, ``8 B e``: a floor for the whole board.

    Parameters
    ----------
    moved_byte : float or ndarray
        Bytes B moved [byte], >= 0.
    energy_j_bit : float or ndarray
        Energy e per bit [J/bit], >= 0; the default of 8 pJ/bit is a prior.

    Returns
    -------
    float or ndarray
        Energy [J].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6
    .. [2] draminfo, docs/references.md
    .. [3] li2018, docs/references.md

    Examples
    --------
    >>> round(float(dram_energy_j(868.34e6, 6e-12)) * 1e3, 2)
    41.68
    """
    check_range("moved_byte", moved_byte, 0.0)
    check_range("energy_j_bit", energy_j_bit, 0.0)
    return BIT_PER_BYTE * np.multiply(moved_byte, energy_j_bit)


def energy_floor_j(
    moved_byte: Array, time_s: Array, idle_power_w: float, energy_j_bit: Array = DRAM_ENERGY_J_BIT
) -> Array:
    """Return the least energy of a whole board, ``P_idle T + 8 B e``.

    Parameters
    ----------
    moved_byte : float or ndarray
        Bytes B moved [byte], >= 0.
    time_s : float or ndarray
        Time T [s], >= 0.
    idle_power_w : float
        Idle power P_idle [W], >= 0.
    energy_j_bit : float or ndarray
        Energy e of the DRAM per bit [J/bit], >= 0.

    Returns
    -------
    float or ndarray
        Energy [J].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(energy_floor_j(868.34e6, 0.01, 2.0, 6e-12)) * 1e3, 2)
    61.68
    """
    check_range("time_s", time_s, 0.0)
    check_range("idle_power_w", idle_power_w, 0.0)
    return np.multiply(idle_power_w, time_s) + dram_energy_j(moved_byte, energy_j_bit)


def paced_energy_j(energy_j: Array, own_s: Array, time_s: Array, idle_w: Array) -> Array:
    """Return the energy of a token at another bandwidth or instruction set than the board's own.

    ``E = E_own + P_idle (T - T_own)``: the energy at the board's own bandwidth contains the idle power of that time,
    and a slower token draws it for longer, so that mean power never falls below the idle power.

    Parameters
    ----------
    energy_j : float or ndarray
        Energy E_own of the token on the board's own memory [J], > 0.
    own_s : float or ndarray
        Its time T_own there [s], > 0.
    time_s : float or ndarray
        Time T of the token at the other bandwidth or instruction set [s], > 0.
    idle_w : float or ndarray
        Idle power P_idle on the same rail [W], 0 to ``energy_j / own_s``.

    Returns
    -------
    float or ndarray
        Energy [J].

    Raises
    ------
    ValueError
        `own_s` or `time_s` is not above 0, or `idle_w` is below 0.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(paced_energy_j(0.5, 0.05, 0.08, 4.0)), 6)
    0.62
    """
    check_range("own_s", own_s, 0.0, open_low=True)
    check_range("time_s", time_s, 0.0, open_low=True)
    check_range("idle_w", idle_w, 0.0)
    return np.add(energy_j, np.multiply(idle_w, np.subtract(time_s, own_s)))


def limited_time_s(time_s: Array, energy_j: Array, rest_w: Array, limit_w: Array) -> Array:
    """Return the time of a token under a power limit, ``T' = max(T, (E - P_rest T) / (P_limit - P_rest))``.

    Clocks fall until the mean power fits. The energy beyond that of the board at rest stays the same, and the time
    grows.

    Parameters
    ----------
    time_s : float or ndarray
        Time T of the token without the limit [s], > 0.
    energy_j : float or ndarray
        Its energy E without the limit [J], >= ``rest_w * time_s``.
    rest_w : float or ndarray
        Power P_rest of the board at rest on the same rail [W], 0 to `limit_w`.
    limit_w : float or ndarray
        Power limit P_limit [W], > 0.

    Returns
    -------
    float or ndarray
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range, or `rest_w` is not below `limit_w`.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(limited_time_s(0.05, 0.5, 2.0, 7.0)), 6)
    0.08
    """
    check_range("time_s", time_s, 0.0, open_low=True)
    check_range("rest_w", rest_w, 0.0)
    check_range("limit_w - rest_w", np.subtract(limit_w, rest_w), 0.0, open_low=True)
    beyond_j = np.subtract(energy_j, np.multiply(rest_w, time_s))
    return np.maximum(time_s, beyond_j / np.subtract(limit_w, rest_w))


def below_limit(log_mean: Array, log_sd: Array) -> tuple[Array, Array, Array]:
    """Return the 5 %, 50 % and 95 % quantiles of a normal variable that is known to be below 0.

    ``F(x) = p F(0)``: the distribution is cut off at 0 and scaled. With the logarithm of a power over its limit, it is
    the belief on a power that is known to keep it.

    Parameters
    ----------
    log_mean : float or ndarray
        Mean before it is known [1], any.
    log_sd : float or ndarray
        Standard deviation [1], > 0.

    Returns
    -------
    tuple of float or ndarray
        Quantiles [1], at most 0.

    Raises
    ------
    ValueError
        `log_sd` is not above 0.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> [round(float(each), 3) for each in below_limit(0.0, 0.5)]
    [-0.98, -0.337, -0.031]
    """
    check_range("log_sd", log_sd, 0.0, open_low=True)
    below = log_ndtr(np.divide(np.negative(log_mean), log_sd))
    low, median, high = (
        np.minimum(np.add(log_mean, np.multiply(log_sd, ndtri_exp(np.log(p) + below))), 0.0) for p in (0.05, 0.5, 0.95)
    )
    return low, median, high


def mean_power_w(energy_j: Array, time_s: Array) -> Array:
    """Return the mean power while decoding, ``P = E / T``.

    Parameters
    ----------
    energy_j : float or ndarray
        Energy E of a token [J], >= 0.
    time_s : float or ndarray
        Time T of a token [s], > 0.

    Returns
    -------
    float or ndarray
        Power [W].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> float(mean_power_w(0.5, 0.1))
    5.0
    """
    check_range("energy_j", energy_j, 0.0)
    check_range("time_s", time_s, 0.0, open_low=True)
    return np.divide(energy_j, time_s)


def trace_energy_j(time_s: NDArray[np.float64], power_w: NDArray[np.float64]) -> float:
    """Return the energy under a sampled power trace by the trapezoid rule, exact for piecewise linear power.

    Parameters
    ----------
    time_s : ndarray, shape (m,)
        Times of the samples [s], rising, m >= 2.
    power_w : ndarray, shape (m,)
        Power at each time [W].

    Returns
    -------
    float
        Energy [J].

    Raises
    ------
    ValueError
        The columns are unequal or shorter than 2, or the times do not rise.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> trace_energy_j(np.array([0.0, 1.0, 2.0]), np.array([2.0, 4.0, 4.0]))
    7.0
    """
    if time_s.shape != power_w.shape or time_s.ndim != 1 or time_s.size < 2:
        raise ValueError(f"time_s {time_s.shape} and power_w {power_w.shape} are not two equal columns of 2 or more")
    if np.any(np.diff(time_s) <= 0.0):
        raise ValueError("time_s does not rise from sample to sample")
    return float(np.trapezoid(power_w, time_s))


def dynamic_power_w(activity_frac: Array, capacitance_f: Array, clock_hz: Array, voltage_v: Array) -> Array:
    """Return the switching power of a unit, ``P = a C f V^2``.

    Parameters
    ----------
    activity_frac : float or ndarray
        Share a of the capacitance that switches in a cycle [1], 0 to 1.
    capacitance_f : float or ndarray
        Switched capacitance C [F], >= 0.
    clock_hz : float or ndarray
        Clock f [Hz], >= 0.
    voltage_v : float or ndarray
        Supply voltage V [V], >= 0.

    Returns
    -------
    float or ndarray
        Power [W].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(dynamic_power_w(0.2, 10e-9, 1e9, 0.8)), 6)
    1.28
    """
    check_range("activity_frac", activity_frac, 0.0, 1.0)
    for name, value in (("capacitance_f", capacitance_f), ("clock_hz", clock_hz), ("voltage_v", voltage_v)):
        check_range(name, value, 0.0)
    return np.multiply(activity_frac, capacitance_f) * np.multiply(clock_hz, np.square(voltage_v))


@dataclass(frozen=True, slots=True)
class RequestEnergy:
    """Energy of one request on one rail; idle power is reported apart and never subtracted.

    Attributes
    ----------
    prefill_j : float
        Energy from the start of the prompt to the first token [J].
    decode_j : float
        Energy from the first token to the last, ``n_tokens - 1`` steps [J].
    decode_j_per_token : float
        Energy of one of these steps [J].
    idle_w : float
        Mean power of the rail before the request [W].
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
    """Return the energy of a request from a power trace in the same clock.

    Trapezoid rule with interpolated ends, for prefill and decode apart.

    Parameters
    ----------
    time_s : ndarray, shape (m,)
        Times of the samples [s], rising; they span the request, with two samples or more before it for the idle power.
    power_w : ndarray, shape (m,)
        Power of one rail [W].
    start_s : float
        Start of the prompt [s].
    first_token_s, last_token_s : float
        Times of the first and the last token [s], rising.
    n_tokens : int
        Tokens generated [1], >= 2.

    Returns
    -------
    RequestEnergy
        Energies [J] and idle power [W].

    Raises
    ------
    ValueError
        The trace does not span the request, or an argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> t = np.arange(0.0, 11.0)
    >>> found = request_energy(t, np.where(t < 4, 2.0, 10.0), 4.0, 6.0, 10.0, 5)
    >>> found.prefill_j, found.decode_j_per_token, found.idle_w
    (20.0, 10.0, 2.0)
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
    """Return the energy of a power trace within a window, the ends interpolated.

    Parameters
    ----------
    time_s : ndarray, shape (m,)
        Times of the samples [s], rising.
    power_w : ndarray, shape (m,)
        Power at each time [W].
    from_s, until_s : float
        Ends of the window [s], not falling.

    Returns
    -------
    float
        Energy [J].

    Raises
    ------
    ValueError
        The window ends before it starts.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> window_energy_j(np.array([0.0, 1.0, 2.0]), np.array([2.0, 4.0, 4.0]), 0.5, 1.5)
    3.75
    """
    check_range("until_s - from_s", until_s - from_s, 0.0)
    if until_s == from_s:
        return 0.0
    inside = (time_s > from_s) & (time_s < until_s)
    times = np.concatenate([[from_s], time_s[inside], [until_s]])
    return trace_energy_j(times, np.interp(times, time_s, power_w))


# --- leakage ----------------------------------------------------------------------------------------------------------


def leakage_power_w(temp_c: Array, power_at_reference_w: Array, rate_per_k: Array, reference_temp_c: Array) -> Array:
    """Return the leakage power at a temperature, ``P_leak = P_l exp(b (T - T_0))``.

    Parameters
    ----------
    temp_c : float or ndarray
        Temperature T [deg C].
    power_at_reference_w : float or ndarray
        Leakage P_l at the reference temperature [W], >= 0.
    rate_per_k : float or ndarray
        Relative growth b [1/K], >= 0; 0.01 to 0.03 as a prior.
    reference_temp_c : float or ndarray
        Reference temperature T_0 [deg C].

    Returns
    -------
    float or ndarray
        Power [W].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6

    Examples
    --------
    >>> round(float(leakage_power_w(60.0, 1.0, 0.02, 25.0)), 6)
    2.013753
    """
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
    """Return the temperature at which heat made, leakage included, equals heat removed.

    ``T = T_a + R (P + P_l exp(b (T - T_0)))`` in closed form with Lambert's W: ``T = T_a + R P - W0(-R P_l b exp(b (T_a
    + R P - T_0))) / b``. Below an argument of -1/e there is no such temperature and the board runs away.

    Parameters
    ----------
    ambient_temp_c : float or ndarray
        Temperature T_a of the surroundings [deg C].
    resistance_k_w : float or ndarray
        Thermal resistance R to the surroundings [K/W], >= 0.
    power_w : float or ndarray
        Power P without leakage [W], >= 0.
    leakage_w : float or ndarray
        Leakage P_l at the reference temperature [W], >= 0.
    rate_per_k : float or ndarray
        Relative growth b of the leakage [1/K], > 0.
    reference_temp_c : float or ndarray
        Reference temperature T_0 [deg C].

    Returns
    -------
    float or ndarray
        Temperature [deg C]; infinite where the board runs away.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6
    .. [2] docs/articles.md B06
    .. [3] corless1996, docs/references.md

    Examples
    --------
    >>> round(float(steady_temp_c(25.0, 2.0, 10.0, 1.0, 0.02, 25.0)), 8)
    48.17954492
    """
    check_range("resistance_k_w", resistance_k_w, 0.0)
    check_range("power_w", power_w, 0.0)
    check_range("leakage_w", leakage_w, 0.0)
    check_range("rate_per_k", rate_per_k, 0.0, open_low=True)
    without = np.add(ambient_temp_c, np.multiply(resistance_k_w, power_w))
    argument = -np.multiply(resistance_k_w, leakage_w) * rate_per_k * np.exp(rate_per_k * (without - reference_temp_c))
    return without - lambert_w0(argument) / rate_per_k


def leakage_loop_gain(resistance_k_w: Array, leakage_at_temp_w: Array, rate_per_k: Array) -> Array:
    """Return the gain of the loop of temperature and leakage, ``R P_leak b``.

    One kelvin more raises the leakage, which raises the steady state by this many kelvin. At 1 the board runs away.

    Parameters
    ----------
    resistance_k_w : float or ndarray
        Thermal resistance R to the surroundings [K/W].
    leakage_at_temp_w : float or ndarray
        Leakage P_leak at the temperature in question [W].
    rate_per_k : float or ndarray
        Relative growth b of the leakage [1/K].

    Returns
    -------
    float or ndarray
        Gain [1].

    References
    ----------
    .. [1] docs/physics.md M6
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(float(leakage_loop_gain(2.0, leakage_power_w(48.17954492, 1.0, 0.02, 25.0), 0.02)), 4)
    0.0636
    """
    return np.multiply(resistance_k_w, leakage_at_temp_w) * rate_per_k


def lambert_w0(x: Array) -> Array:
    """Return the principal branch of Lambert's W, ``w exp(w) = x``, for arguments that are not positive.

    `scipy.special.lambertw`, imported here only, and -1 at the branch point itself, where scipy has NaN.

    Parameters
    ----------
    x : float or ndarray
        Argument [1], <= 0.

    Returns
    -------
    float or ndarray
        W0(x) [1]; minus infinity below -1/e.

    Raises
    ------
    ValueError
        `x` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M6
    .. [2] corless1996, docs/references.md

    Examples
    --------
    >>> round(float(lambert_w0(-0.2)), 9)
    -0.259171102
    """
    from scipy.special import lambertw

    check_range("x", x, -np.inf, 0.0)
    x, branch_point = np.asarray(x, dtype=float), -np.exp(-1.0)
    w = np.where(x > branch_point, lambertw(x).real, -1.0)
    return np.where(x < branch_point * (1.0 + 1e-15), -np.inf, w)
