"""Clock and voltage: V(f), T(f) and P(f), the optimal clock in closed form, and four knees of a table.

::

    V(f) = max(V_min, V_0 + s f)   or   f = c (V - V_t)^a / V        (alpha-power law)
    T(f) = C / f + M                                                 (M: memory time that does not scale)
    P(f) = P_0 + k f^n                                               (n about 2 to 3)

A table of operating points has no single knee: performance per watt, energy x delay, the bend of the concave envelope
and a price per watt differ. A knee at the end of the table is flagged.

References
----------
.. [1] docs/physics.md M7
.. [2] sakurai1990 (eq. 6) and satopaa2011, docs/references.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Absent, Array
from core.units import check_range

_BISECTIONS = 80  # halves any bracket of doubles down to the last bit


def linear_voltage_v(clock_hz: Array, min_voltage_v: Array, offset_v: Array, slope_v_hz: Array) -> Array:
    """Return the supply voltage of a clock on a straight line with a floor, ``V = max(V_min, V_0 + s f)``.

    Parameters
    ----------
    clock_hz : float or ndarray
        Clock f [Hz], > 0.
    min_voltage_v : float or ndarray
        Least voltage V_min [V], > 0.
    offset_v : float or ndarray
        Voltage V_0 of the line at f = 0 [V].
    slope_v_hz : float or ndarray
        Slope s [V/Hz], >= 0.

    Returns
    -------
    float or ndarray
        Supply voltage [V].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7

    Examples
    --------
    >>> [float(linear_voltage_v(f, 0.6, 0.3, 0.25e-9)) for f in (1.0e9, 2.0e9)]
    [0.6, 0.8]
    """
    check_range("clock_hz", clock_hz, 0.0, open_low=True)
    check_range("min_voltage_v", min_voltage_v, 0.0, open_low=True)
    check_range("slope_v_hz", slope_v_hz, 0.0)
    return np.maximum(min_voltage_v, np.asarray(offset_v) + slope_v_hz * np.asarray(clock_hz))


def alpha_power_clock_hz(voltage_v: Array, scale: Array, threshold_v: Array, exponent: Array) -> Array:
    """Return the highest clock of a supply voltage by the alpha-power law, ``f = c (V - V_t)^a / V``.

    Parameters
    ----------
    voltage_v : float or ndarray
        Supply voltage V [V], above `threshold_v`.
    scale : float or ndarray
        Coefficient c [Hz V^(1-a)], > 0.
    threshold_v : float or ndarray
        Threshold voltage V_t [V], >= 0.
    exponent : float or ndarray
        Exponent a [1], 1 to 2.

    Returns
    -------
    float or ndarray
        Clock [Hz].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] sakurai1990, docs/references.md eq. 6

    Examples
    --------
    >>> round(float(alpha_power_clock_hz(0.8, 4e9, 0.3, 1.0)), 3)
    2500000000.0
    """
    check_range("scale", scale, 0.0, open_low=True)
    check_range("threshold_v", threshold_v, 0.0)
    check_range("exponent", exponent, 1.0, 2.0)
    check_range("voltage_v - threshold_v", np.subtract(voltage_v, threshold_v), 0.0, open_low=True)
    return np.asarray(scale) * np.subtract(voltage_v, threshold_v) ** exponent / voltage_v


def table_voltage_v(clock_hz: Array, table_clock_hz: ArrayLike, table_voltage_v: ArrayLike) -> NDArray[np.float64]:
    """Return the voltage of the lowest table row whose clock is at least the wanted one.

    A frequency governor picks the row in this way.

    Parameters
    ----------
    clock_hz : float or ndarray
        Wanted clock [Hz], above 0 to the last of the table.
    table_clock_hz : array_like, shape (n,)
        Clocks of the table [Hz], rising.
    table_voltage_v : array_like, shape (n,)
        Their voltages [V].

    Returns
    -------
    ndarray
        Supply voltage [V].

    Raises
    ------
    ValueError
        The table does not rise, or `clock_hz` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7

    Examples
    --------
    >>> float(table_voltage_v(900e6, [800e6, 1000e6], [0.7, 0.8]))
    0.8
    """
    clocks, voltages = np.asarray(table_clock_hz, float), np.asarray(table_voltage_v, float)
    check_range("table_clock_hz steps", np.diff(clocks), 0.0, open_low=True)
    check_range("clock_hz", clock_hz, 0.0, float(clocks[-1]), open_low=True)
    return np.asarray(voltages[np.searchsorted(clocks, clock_hz)])


def relative_dynamic_power(clock_hz: ArrayLike, voltage_v: ArrayLike) -> NDArray[np.float64]:
    """Return the dynamic power of each row relative to the last one, ``f V^2`` over its last value.

    Switched capacitance and activity count as equal in all rows.

    Parameters
    ----------
    clock_hz : array_like, shape (n,)
        Clocks f [Hz].
    voltage_v : array_like, shape (n,)
        Supply voltages V [V].

    Returns
    -------
    ndarray, shape (n,)
        Power over that of the last row [1].

    References
    ----------
    .. [1] docs/physics.md M7

    Examples
    --------
    >>> relative_dynamic_power([1e9, 2e9], [0.5, 1.0]).tolist()
    [0.125, 1.0]
    """
    power = np.asarray(clock_hz, float) * np.square(np.asarray(voltage_v, float))
    return np.asarray(power / power[-1])


def power_w(clock_hz: Array, static_w: Array, coefficient: Array, exponent: Array) -> Array:
    """Return the power at a clock, ``P = P_0 + k f^n``.

    Parameters
    ----------
    clock_hz : float or ndarray
        Clock f [Hz], >= 0.
    static_w : float or ndarray
        Static power P_0 [W], >= 0.
    coefficient : float or ndarray
        Coefficient k of the dynamic power [W/Hz^n], >= 0.
    exponent : float or ndarray
        Exponent n [1], >= 1, usually 2 to 3.

    Returns
    -------
    float or ndarray
        Power [W].

    Raises
    ------
    ValueError
        `clock_hz`, `static_w` or `exponent` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] docs/articles.md B04

    Examples
    --------
    >>> round(float(power_w(1000.0, 20.0, 1e-8, 3.0)), 6)
    30.0
    """
    check_range("clock_hz", clock_hz, 0.0)
    check_range("static_w", static_w, 0.0)
    check_range("exponent", exponent, 1.0)
    return np.asarray(static_w) + coefficient * np.power(clock_hz, exponent)


def time_s(clock_hz: Array, cycles: Array, memory_s: Array = 0.0) -> Array:
    """Return the time of a task at a clock, ``T = C / f + M``.

    Parameters
    ----------
    clock_hz : float or ndarray
        Clock f [Hz], > 0.
    cycles : float or ndarray
        Cycles C, which scale with the clock [1], >= 0.
    memory_s : float or ndarray
        Memory time M, which does not [s], >= 0.

    Returns
    -------
    float or ndarray
        Time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] docs/articles.md B04

    Examples
    --------
    >>> float(time_s(1e9, 2e6, 0.5e-3))
    0.0025
    """
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
    """Return the clock that minimises ``P(f) T(f)^m``.

    ``f* = (m P_0 / ((n - m) k))^(1/n)`` without memory time; there the dynamic power is ``m P_0 / (n - m)``. With
    memory time the derivative vanishes where ``(n - m) k C f^n + n k M f^(n+1) = m P_0 C``, found by bisection below
    that clock.

    Parameters
    ----------
    static_w : float or ndarray
        Static power P_0 of `power_w` [W], > 0.
    coefficient : float or ndarray
        Coefficient k of `power_w` [W/Hz^n], > 0.
    exponent : float or ndarray
        Exponent n of `power_w` [1], above `delay_exponent`.
    delay_exponent : float
        Exponent m of the time [1], > 0: 1 for energy, 2 for energy x delay, 3 for energy x delay^2.
    cycles : float or ndarray
        Cycles C of `time_s` [1], > 0.
    memory_s : float or ndarray
        Memory time M of `time_s` [s], >= 0.

    Returns
    -------
    ndarray
        Clock [Hz].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] docs/articles.md B04

    Examples
    --------
    >>> round(float(optimal_clock_hz(5.0, 2e-9, 2.6)), 3)
    3436.249
    >>> round(float(optimal_clock_hz(5.0, 2e-9, 2.6, cycles=1000.0, memory_s=0.5)), 3)
    2292.9
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
    """Return the points on the upper concave hull of a curve.

    Parameters
    ----------
    x : array_like, shape (n,)
        Abscissas [any unit], n >= 1.
    y : array_like, shape (n,)
        Ordinates [any unit].

    Returns
    -------
    ndarray of int
        Indices of the points on the hull [1], in order of rising `x`.

    References
    ----------
    .. [1] docs/physics.md M7

    Examples
    --------
    >>> concave_envelope([0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 2.1, 3.0]).tolist()
    [0, 1, 3]
    """
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
    """Return the height of a rising curve over its chord, both axes scaled to 0..1.

    ``d = (y - y_0) / Y - (x - x_0) / X`` with X and Y the widths of the axes. No affine map with positive slopes
    changes it. It is 0 for fewer than three points or a flat axis.

    Parameters
    ----------
    x : array_like, shape (..., n)
        Abscissas [any unit], rising along the last axis.
    y : array_like, shape (..., n)
        Ordinates [any unit].

    Returns
    -------
    ndarray, shape (..., n)
        Height over the chord [1].

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] docs/articles.md B04
    .. [3] satopaa2011, docs/references.md

    Examples
    --------
    >>> np.round(kneedle_difference([32, 68, 92], [186, 312, 334]), 10).tolist()
    [0.0, 0.2513513514, 0.0]
    """
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    width, height = xs[..., -1:] - xs[..., :1], ys[..., -1:] - ys[..., :1]
    usable = (width > 0) & (height > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = (ys - ys[..., :1]) / height - (xs - xs[..., :1]) / width
    return np.where(usable, difference, 0.0)


def kneedle(x: ArrayLike, y: ArrayLike) -> int | None:
    """Return the knee of a concave rising curve, the largest `kneedle_difference`.

    Parameters
    ----------
    x : array_like, shape (n,)
        Abscissas [any unit], rising.
    y : array_like, shape (n,)
        Ordinates [any unit].

    Returns
    -------
    int or None
        Index of the knee [1]; None where the curve is straight or has fewer than three points.

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] satopaa2011, docs/references.md

    Examples
    --------
    >>> x = np.linspace(0, 1, 10)
    >>> round(float(x[kneedle(x, 5 - 1 / (x + 0.1))]), 4)
    0.2222
    """
    difference = kneedle_difference(x, y)
    index = int(np.argmax(difference))
    return index if difference[index] > 1e-9 else None  # collinear points leave rounding only


@dataclass(frozen=True, slots=True)
class Knee:
    """One knee of a table of operating points, with the 90 % interval of its clock.

    Attributes
    ----------
    index : int
        Row of the table.
    clock_hz : float
        Clock of the row [Hz].
    q05_hz, q95_hz : float
        Ends of the interval [Hz].
    edge : bool
        Whether the row is at the end of the table, so that the optimum may lie beyond it.
    """

    index: int
    clock_hz: float
    q05_hz: float
    q95_hz: float
    edge: bool


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
    """Return the four knees of a table of operating points, with the intervals that errors of its entries leave.

    ``argmax X/P``, ``argmin P/X^2``, Kneedle on the concave envelope of (P, X), and the last clock whose gain ``dX/dP``
    is worth the price. A parametric bootstrap of the entries gives the intervals.

    Parameters
    ----------
    clock_hz : array_like, shape (n,)
        Clocks of the table [Hz], rising.
    power_w : array_like, shape (n,)
        Power P at each clock [W], > 0.
    throughput : array_like, shape (n,)
        Work per second X at each clock [1/s], > 0.
    log_sd : float
        Relative error of each entry of power and throughput [1], 0 to 1.
    price_per_w : float, optional
        Least gain in throughput that is worth one more watt [1/(s W)]; None leaves that knee absent.
    n_draws : int
        Draws of the bootstrap [1].
    seed : int
        Seed of the bootstrap [1].

    Returns
    -------
    dict of str to Knee or Absent
        One entry for each of `KNEES`; absent with the reason where a table has none.

    Raises
    ------
    ValueError
        The columns are unequal or empty, the clocks do not rise, or an argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M7
    .. [2] docs/articles.md B04
    .. [3] satopaa2011, docs/references.md

    Examples
    --------
    >>> found = knees([800e6, 1200e6, 1400e6], [32, 68, 92], [186, 312, 334], log_sd=0.05)
    >>> [found[key].clock_hz / 1e6 for key in ("performance_per_watt", "energy_delay", "envelope_bend")]
    [800.0, 1200.0, 1200.0]
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
