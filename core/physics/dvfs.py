"""Clock and voltage: V(f), T(f) and P(f), the clock that is best in closed form, and four knees of a table.

::

    V(f) = max(V_min, V_0 + s f)   or   f = c (V - V_t)^a / V        (alpha-power law)
    T(f) = C / f + M                                                 (M: memory time that does not scale)
    P(f) = P_0 + k f^n                                               (n about 2 to 3)

A table of operating points has no single knee: performance per watt, energy x delay, the bend of the concave envelope
and a price per watt each name their own, and one at the end of the table says so.

References
----------
docs/physics.md, M7. Alpha-power law: Sakurai and Newton, IEEE JSSC 25(2), 1990, eq. 6. Kneedle: Satopaa et al.,
ICDCSW 2011.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Absent, Array
from core.units import check_range

_BISECTIONS = 80  # halves any bracket of doubles down to the last bit


def linear_voltage_v(clock_hz: Array, min_voltage_v: Array, offset_v: Array, slope_v_hz: Array) -> Array:
    """Supply voltage of a straight line that ends at the least voltage: ``max(V_min, V_0 + s f)`` [V].

    Parameters
    ----------
    clock_hz : Clock, > 0 [Hz].
    min_voltage_v : V_min, > 0 [V].
    offset_v, slope_v_hz : V_0 [V] and s >= 0 [V/Hz].
    """
    check_range("clock_hz", clock_hz, 0.0, open_low=True)
    check_range("min_voltage_v", min_voltage_v, 0.0, open_low=True)
    check_range("slope_v_hz", slope_v_hz, 0.0)
    return np.maximum(min_voltage_v, np.asarray(offset_v) + slope_v_hz * np.asarray(clock_hz))


def alpha_power_clock_hz(voltage_v: Array, scale: Array, threshold_v: Array, exponent: Array) -> Array:
    """Highest clock that a supply voltage carries, ``c (V - V_t)^a / V`` [Hz].

    Parameters
    ----------
    voltage_v, threshold_v : V > V_t >= 0 [V].
    scale : c, > 0 [Hz V^(1-a)].
    exponent : a, 1 to 2.
    """
    check_range("scale", scale, 0.0, open_low=True)
    check_range("threshold_v", threshold_v, 0.0)
    check_range("exponent", exponent, 1.0, 2.0)
    check_range("voltage_v - threshold_v", np.subtract(voltage_v, threshold_v), 0.0, open_low=True)
    return np.asarray(scale) * np.subtract(voltage_v, threshold_v) ** exponent / voltage_v


def table_voltage_v(clock_hz: Array, table_clock_hz: ArrayLike, table_voltage_v: ArrayLike) -> NDArray[np.float64]:
    """Voltage of the lowest table row whose clock is at least `clock_hz`, as a frequency governor picks it [V].

    Parameters
    ----------
    clock_hz : Wanted clock, above 0 and at most the last of the table [Hz].
    table_clock_hz, table_voltage_v : (n,) rising clocks [Hz] and their voltages [V].
    """
    clocks, voltages = np.asarray(table_clock_hz, float), np.asarray(table_voltage_v, float)
    check_range("table_clock_hz steps", np.diff(clocks), 0.0, open_low=True)
    check_range("clock_hz", clock_hz, 0.0, float(clocks[-1]), open_low=True)
    return np.asarray(voltages[np.searchsorted(clocks, clock_hz)])


def relative_dynamic_power(clock_hz: ArrayLike, voltage_v: ArrayLike) -> NDArray[np.float64]:
    """``f V^2`` of each row relative to the last one [frac]; equal switched capacitance and activity are assumed."""
    power = np.asarray(clock_hz, float) * np.square(np.asarray(voltage_v, float))
    return np.asarray(power / power[-1])


def power_w(clock_hz: Array, static_w: Array, coefficient: Array, exponent: Array) -> Array:
    """Power at a clock, ``P_0 + k f^n`` [W]; P_0 >= 0, k >= 0, `exponent` n >= 1."""
    check_range("clock_hz", clock_hz, 0.0)
    check_range("static_w", static_w, 0.0)
    check_range("exponent", exponent, 1.0)
    return np.asarray(static_w) + coefficient * np.power(clock_hz, exponent)


def time_s(clock_hz: Array, cycles: Array, memory_s: Array = 0.0) -> Array:
    """Time of a task, ``C / f + M`` [s]: `cycles` scale with the clock, `memory_s` does not."""
    check_range("clock_hz", clock_hz, 0.0, open_low=True)
    check_range("cycles", cycles, 0.0)
    check_range("memory_s", memory_s, 0.0)
    return np.asarray(cycles) / clock_hz + memory_s


def optimal_clock_hz(
    static_w: Array,
    coefficient: Array,
    exponent: Array,
    *,
    delay_exponent: float = 1.0,
    cycles: Array = 1.0,
    memory_s: Array = 0.0,
) -> NDArray[np.float64]:
    """Clock that minimises ``P(f) T(f)^m`` [Hz]: m = 1 energy, 2 energy x delay, 3 energy x delay^2.

    The derivative vanishes where ``(n - m) k C f^n + n k M f^(n+1) = m P_0 C``. Without memory time that is
    ``f = (m P_0 / ((n - m) k))^(1/n)``; there the dynamic power is ``m P_0 / (n - m)``. Memory time lowers it.

    Parameters
    ----------
    static_w, coefficient, exponent : P_0 > 0 [W], k > 0 [W/Hz^n] and n > m of `power_w`.
    delay_exponent : m, > 0.
    cycles, memory_s : C > 0 and M >= 0 [s] of `time_s`.
    """
    check_range("static_w", static_w, 0.0, open_low=True)
    check_range("coefficient", coefficient, 0.0, open_low=True)
    check_range("exponent", exponent, delay_exponent, open_low=True)
    check_range("cycles", cycles, 0.0, open_low=True)
    check_range("memory_s", memory_s, 0.0)
    p0, k, n, c, mem = np.broadcast_arrays(static_w, coefficient, exponent, cycles, memory_s)
    m = delay_exponent
    closed = (m * p0 / ((n - m) * k)) ** (1 / n)
    low, high = np.zeros_like(closed), closed
    for _ in range(_BISECTIONS):  # the left side rises with f, and memory time only adds to it
        middle = (low + high) / 2
        above = (n - m) * k * c * middle**n + n * k * mem * middle ** (n + 1) > m * p0 * c
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(np.where(mem > 0, high, closed))


def concave_envelope(x: ArrayLike, y: ArrayLike) -> NDArray[np.intp]:
    """Indices, in order of rising `x`, of the points on the upper concave hull of a curve (n,), n >= 1."""
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    hull: list[int] = []
    for i in map(int, np.lexsort((ys, xs))):
        if hull and xs[hull[-1]] == xs[i]:
            hull.pop()
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (xs[b] - xs[a]) * (ys[i] - ys[a]) < (xs[i] - xs[a]) * (ys[b] - ys[a]):
                break
            hull.pop()
        hull.append(i)
    return np.asarray(hull, np.intp)


def kneedle_difference(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Height of a rising curve over its chord, both axes scaled to 0..1: ``(y - y_0)/Y - (x - x_0)/X``.

    Unchanged by any affine map with positive slopes. All zero for fewer than three points or a flat axis.

    Parameters
    ----------
    x, y : (..., n) the curve, `x` rising along the last axis.
    """
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    width, height = xs[..., -1:] - xs[..., :1], ys[..., -1:] - ys[..., :1]
    usable = (width > 0) & (height > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = (ys - ys[..., :1]) / height - (xs - xs[..., :1]) / width
    return np.where(usable, difference, 0.0)


def kneedle(x: ArrayLike, y: ArrayLike) -> int | None:
    """Index of the knee of a concave rising curve, or None where it is straight (or has fewer than three points)."""
    difference = kneedle_difference(x, y)
    index = int(np.argmax(difference))
    return index if difference[index] > 1e-9 else None  # collinear points leave rounding only


@dataclass(frozen=True, slots=True)
class Knee:
    """One knee of a table of operating points, with the 90 % interval of its clock."""

    index: int  # row of the table
    clock_hz: float
    q05_hz: float
    q95_hz: float
    edge: bool  # at the end of the table: the optimum may lie beyond it


KNEES = ("performance_per_watt", "energy_delay", "envelope_bend", "price")
"""argmax X/P, argmin P/X^2, Kneedle on the concave envelope of (P, X), and where dX/dP meets a price."""


def knees(
    clock_hz: ArrayLike,
    power_w: ArrayLike,
    throughput: ArrayLike,
    *,
    log_sd: float,
    price_per_w: float | None = None,
    n_draws: int = 400,
    seed: int = 0,
) -> dict[str, Knee | Absent]:
    """Find the four knees of a table, each with the interval that errors of its entries leave it.

    Parameters
    ----------
    clock_hz, power_w, throughput : (n,) rising clocks [Hz], power > 0 [W] and work per second > 0.
    log_sd : Relative error of each entry of power and throughput; a parametric bootstrap turns it into the interval.
    price_per_w : Least gain in throughput worth one more watt; None leaves that knee absent.
    n_draws, seed : Size and seed of the bootstrap.
    """
    f, p, x = (np.asarray(a, float) for a in (clock_hz, power_w, throughput))
    if not f.shape == p.shape == x.shape or f.ndim != 1 or f.size == 0:
        raise ValueError(
            f"clock_hz, power_w, throughput have shapes {f.shape}, {p.shape}, {x.shape}, expected equal (n,)"
        )
    check_range("clock_hz steps", np.diff(f), 0.0, open_low=True)
    check_range("power_w", p, 0.0, open_low=True)
    check_range("throughput", x, 0.0, open_low=True)
    check_range("log_sd", log_sd, 0.0, 1.0)
    if f.size < 2:
        return {key: Absent("no knee: the table has one row") for key in KNEES}
    rng = np.random.default_rng(seed)
    draws = np.exp(log_sd * rng.standard_normal((2, n_draws, f.size)))
    tables = [(p, x), *zip(p * draws[0], x * draws[1], strict=True)]
    return {key: _knee(key, [_index(key, *table, price_per_w) for table in tables], f, price_per_w) for key in KNEES}


def _index(key: str, p: NDArray[np.float64], x: NDArray[np.float64], price_per_w: float | None) -> int | None:
    if key == "performance_per_watt":
        return int(np.argmax(x / p))
    if key == "energy_delay":
        return int(np.argmin(p / x**2))
    hull = concave_envelope(p, x)
    hull = hull[: int(np.argmax(x[hull])) + 1]  # past the highest throughput more power buys nothing
    if key == "envelope_bend":
        at = kneedle(p[hull], x[hull])
        return None if at is None else int(hull[at])
    if price_per_w is None:
        return None
    gains = np.diff(x[hull]) / np.diff(p[hull])
    return int(hull[np.count_nonzero(gains >= price_per_w)])


def _knee(key: str, indices: list[int | None], f: NDArray[np.float64], price_per_w: float | None) -> Knee | Absent:
    if key == "price" and price_per_w is None:
        return Absent("no price per watt was given")
    best = indices[0]
    if best is None:
        return Absent("no knee: throughput against power is a straight line or has fewer than three points")
    found = f[[i for i in indices[1:] if i is not None]]
    low, high = np.quantile(found, [0.05, 0.95], method="inverted_cdf") if found.size else (f[best], f[best])
    return Knee(best, float(f[best]), float(low), float(high), best in (0, f.size - 1))
