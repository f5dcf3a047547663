"""A battery under a load: Thevenin cells at constant power, and cells and packs as tables.

::

    V = OCV(s) - I R_0 - sum V_j,    s' = -I / Q,    V_j' = (I R_j - V_j) / tau_j
    I = (E - sqrt(E^2 - 4 R_0 P)) / (2 R_0),    E = OCV - sum V_j        (constant power P)

A load above ``E^2 / (4 R_0)`` has no current that serves it: the battery browns out. A discharge ends when the terminal
voltage reaches the cut-off, not at a state of charge. `core.physics.discharge` steps a battery in time.

References
----------
.. [1] docs/physics.md M9
.. [2] chen2006, docs/references.md: the default coefficients
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from core.spec import Array
from core.units import check_range

Floats = NDArray[np.float64]
_GAS_J_MOL_K, _REFERENCE_K = 8.314462618, 298.15


# --- formulas ---------------------------------------------------------------------------------------------------------


def chen_rincon_mora_ocv_v(soc: Array) -> Array:
    """Return the open-circuit voltage of the cell of Chen and Rincon-Mora.

    ``OCV(s) = -1.031 exp(-35 s) + 3.685 + 0.2156 s - 0.1178 s^2 + 0.3201 s^3``

    Parameters
    ----------
    soc : float or ndarray
        State of charge s [1], 0 to 1.

    Returns
    -------
    float or ndarray
        Open-circuit voltage [V].

    Raises
    ------
    ValueError
        `soc` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] chen2006, docs/references.md

    Examples
    --------
    >>> [round(float(chen_rincon_mora_ocv_v(s)), 4) for s in (1.0, 0.5, 0.2)]
    [4.1029, 3.8034, 3.725]
    """
    check_range("soc", soc, 0.0, 1.0)
    s = np.asarray(soc, float)
    return np.asarray(-1.031 * np.exp(-35 * s) + 3.685 + s * (0.2156 + s * (-0.1178 + s * 0.3201)))


def chen_rincon_mora_elements(soc: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return the series resistance and the two RC elements of the cell of Chen and Rincon-Mora (850 mAh).

    Each element is ``a exp(-b s) + c`` of the state of charge s. Below s = 0.012 the fitted C_2 is negative.

    Parameters
    ----------
    soc : float or ndarray
        State of charge s [1], 0.012 to 1.

    Returns
    -------
    tuple of float or ndarray
        R_0 [Ohm], R_1 [Ohm], C_1 [F], R_2 [Ohm] and C_2 [F].

    Raises
    ------
    ValueError
        `soc` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] chen2006, docs/references.md

    Examples
    --------
    >>> [round(float(element), 4) for element in chen_rincon_mora_elements(1.0)]
    [0.0745, 0.0467, 703.599, 0.0498, 4475.0]
    """
    check_range("soc", soc, 0.012, 1.0)
    s = np.asarray(soc, float)
    return (
        0.1562 * np.exp(-24.37 * s) + 0.07446,
        0.3208 * np.exp(-29.14 * s) + 0.04669,
        -752.9 * np.exp(-13.51 * s) + 703.6,
        6.603 * np.exp(-155.2 * s) + 0.04984,
        -6056 * np.exp(-27.12 * s) + 4475,
    )


def chen_rincon_mora_energy_v(low_soc: Array, high_soc: Array) -> Floats:
    """Return the energy per charge between two states of charge, the integral of the open-circuit voltage.

    ``E / Q = integral of OCV(s) ds``, the OCV being that of `chen_rincon_mora_ocv_v`.

    Parameters
    ----------
    low_soc, high_soc : float or ndarray
        Two states of charge [1], 0 to 1; the energy is negative where the first is the higher.

    Returns
    -------
    ndarray
        Energy per charge [V], which is J/C and Wh/Ah.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] chen2006, docs/references.md

    Examples
    --------
    >>> round(float(chen_rincon_mora_energy_v(0.0, 1.0)), 4)
    3.8041
    """
    check_range("low_soc", low_soc, 0.0, 1.0)
    check_range("high_soc", high_soc, 0.0, 1.0)

    def primitive(soc: Array) -> Floats:
        s = np.asarray(soc, float)
        polynomial = s * (3.685 + s * (0.1078 + s * (-0.1178 / 3 + s * 0.080025)))
        return np.asarray(1.031 / 35 * np.exp(-35 * s) + polynomial)

    return np.asarray(np.subtract(primitive(high_soc), primitive(low_soc)))


def rc_voltage_v(t_s: Array, current_a: Array, resistance_ohm: Array, tau_s: Array) -> Floats:
    """Return the voltage over a rested RC element after a current step.

    ``V = I R (1 - exp(-t / tau))``

    Parameters
    ----------
    t_s : float or ndarray
        Time t since the step [s], >= 0.
    current_a : float or ndarray
        Height I of the step [A].
    resistance_ohm : float or ndarray
        Resistance R of the element [Ohm].
    tau_s : float or ndarray
        Time constant of the element [s], > 0.

    Returns
    -------
    ndarray
        Voltage over the element [V].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9

    Examples
    --------
    >>> round(float(rc_voltage_v(60.0, 2.0, 0.05, 60.0)), 6)
    0.063212
    """
    check_range("t_s", t_s, 0.0)
    check_range("tau_s", tau_s, 0.0, open_low=True)
    return np.asarray(-np.asarray(current_a) * resistance_ohm * np.expm1(-np.asarray(t_s) / tau_s))


def deliverable_power_w(open_v: Array, resistance_ohm: Array) -> Floats:
    """Return the largest power of a source behind a resistance, ``E^2 / (4 R)``.

    A larger load has no current that serves it: the battery browns out.

    Parameters
    ----------
    open_v : float or ndarray
        Voltage E behind the resistance [V].
    resistance_ohm : float or ndarray
        Resistance R [Ohm], > 0.

    Returns
    -------
    ndarray
        Largest power [W].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(float(deliverable_power_w(3.7, 0.05)), 2)
    68.45
    """
    check_range("resistance_ohm", resistance_ohm, 0.0, open_low=True)
    return np.asarray(np.square(open_v) / (4 * np.asarray(resistance_ohm)))


def constant_power_current_a(power_w: Array, open_v: Array, resistance_ohm: Array) -> Floats:
    """Return the current at which a source behind a resistance delivers a power.

    ``I = 2 P / (E + sqrt(E^2 - 4 R P))``: the smaller root of ``R I^2 - E I + P = 0``, in the form without
    cancellation.

    Parameters
    ----------
    power_w : float or ndarray
        Power P [W], 0 to ``E^2 / (4 R)``.
    open_v : float or ndarray
        Voltage E behind the resistance [V], > 0.
    resistance_ohm : float or ndarray
        Resistance R [Ohm], >= 0; 0 gives ``P / E``.

    Returns
    -------
    ndarray
        Current [A].

    Raises
    ------
    ValueError
        An argument is outside its range, or no current delivers the power.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] docs/articles.md B06

    Examples
    --------
    >>> round(float(constant_power_current_a(10.0, 3.7, 0.05)), 6)
    2.809358
    """
    check_range("open_v", open_v, 0.0, open_low=True)
    check_range("resistance_ohm", resistance_ohm, 0.0)
    check_range("power_w", power_w, 0.0)
    left = np.square(open_v) - 4 * np.asarray(resistance_ohm) * power_w
    check_range("open_v^2 - 4 resistance_ohm power_w", left, 0.0)
    return np.asarray(2 * np.asarray(power_w) / (np.asarray(open_v) + np.sqrt(left)))


def peukert_s(charge_c: Array, rated_s: Array, exponent: Array, current_a: Array) -> Array:
    """Return the run time by Peukert's law, ``t = H (Q / (I H))^k``.

    For comparison only: lithium-ion cells have k of 1.02 to 1.05 [prior].

    Parameters
    ----------
    charge_c : float or ndarray
        Charge Q that the battery gives in `rated_s` [C], > 0.
    rated_s : float or ndarray
        Discharge time H at which the charge is rated [s], > 0.
    exponent : float or ndarray
        Peukert's exponent k [1], >= 1.
    current_a : float or ndarray
        Discharge current I [A], > 0.

    Returns
    -------
    float or ndarray
        Run time [s].

    Raises
    ------
    ValueError
        `exponent` or `current_a` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] docs/articles.md B06
    .. [3] peukert1897, docs/references.md

    Examples
    --------
    >>> round(float(peukert_s(10 * 3600, 20 * 3600, 1.2, 5.0)) / 3600, 6)
    1.261915
    """
    check_range("exponent", exponent, 1.0)
    check_range("current_a", current_a, 0.0, open_low=True)
    return np.asarray(rated_s) * (np.asarray(charge_c) / (np.asarray(current_a) * rated_s)) ** exponent


def runtime_s(
    power_w: float,
    ocv_v: Callable[[Floats], Array],
    charge_c: float,
    resistance_ohm: float,
    cutoff_v: float,
    start_soc: float = 1.0,
) -> float:
    """Return the run time at constant power behind one resistance.

    ``t = Q integral of ds / I(s)`` from the cut-off to the start, with I of `constant_power_current_a`. Gauss-Legendre
    quadrature on panels that narrow towards empty; relative error below 1e-10 for smooth curves. The discharge in time,
    with RC elements, is `core.physics.discharge`.

    Parameters
    ----------
    power_w : float
        Power of the load [W], > 0.
    ocv_v : callable
        Rising open-circuit voltage of the state of charge.
    charge_c : float
        Charge Q of the battery [C], > 0.
    resistance_ohm : float
        Series resistance [Ohm], >= 0.
    cutoff_v : float
        Terminal voltage at which the discharge ends [V], > 0.
    start_soc : float
        State of charge at the start [1], above 0 to 1.

    Returns
    -------
    float
        Run time [s].

    Raises
    ------
    ValueError
        The full battery cannot deliver the load, or its voltage is below the cut-off from the start.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] chen2006, docs/references.md

    Examples
    --------
    >>> hours = [runtime_s(p, chen_rincon_mora_ocv_v, 3 * 3600, 0.0745, 3.0) / 3600 for p in (2.0, 4.0, 8.0)]
    >>> [round(t, 4) for t in hours]
    [5.5888, 2.7594, 1.3431]
    """
    check_range("power_w", power_w, 0.0, _deliverable_floor(ocv_v, start_soc, resistance_ohm), open_low=True)
    current_at_cutoff = power_w / cutoff_v
    needed = cutoff_v + current_at_cutoff * resistance_ohm
    least = 2 * math.sqrt(resistance_ohm * power_w)  # below this open voltage nothing delivers the power
    low, high = 0.0, start_soc
    check_range("open voltage at the start", float(ocv_v(np.asarray(start_soc))), max(needed, least))
    for _ in range(100):  # state of charge at the cut-off
        middle = (low + high) / 2
        low, high = (low, middle) if float(ocv_v(np.asarray(middle))) > max(needed, least) else (middle, high)
    node, weight = np.polynomial.legendre.leggauss(24)
    edges = high + (start_soc - high) * np.linspace(0, 1, 65) ** 3
    half = np.diff(edges) / 2
    soc = (edges[:-1] + half)[:, None] + half[:, None] * node
    current = constant_power_current_a(power_w, ocv_v(soc), resistance_ohm)
    return float(charge_c * np.sum(half[:, None] * weight / current))


def _deliverable_floor(ocv_v: Callable[[Floats], Array], soc: float, resistance_ohm: float) -> float:
    """`deliverable_power_w` at a state of charge; infinite without resistance."""
    return float(deliverable_power_w(ocv_v(np.asarray(soc)), resistance_ohm)) if resistance_ohm > 0 else math.inf


# --- cells and packs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: tables over the state of charge, rising from empty to full.

    Attributes
    ----------
    key : str
        Name in the catalogue.
    name : str
        Name for people.
    chemistry : str
        Chemistry, such as LCO.
    charge_c : float
        Capacity [C], > 0.
    cutoff_v : float
        Terminal voltage at which the discharge ends [V], > 0.
    soc : ndarray, shape (n,)
        States of charge [1], rising from 0 to 1.
    ocv_v : ndarray, shape (n,)
        Open-circuit voltages [V], not falling.
    r0_ohm : ndarray, shape (n,)
        Series resistance [Ohm], > 0.
    rc_ohm : ndarray, shape (k, n)
        Resistances of k RC elements [Ohm], >= 0.
    rc_s : ndarray, shape (k, n)
        Time constants of the RC elements [s], > 0.
    """

    key: str
    name: str
    chemistry: str
    charge_c: float
    cutoff_v: float
    soc: Floats
    ocv_v: Floats
    r0_ohm: Floats
    rc_ohm: Floats
    rc_s: Floats

    def __post_init__(self) -> None:
        check_range("charge_c", self.charge_c, 0.0, open_low=True)
        check_range("cutoff_v", self.cutoff_v, 0.0, open_low=True)
        check_range("soc", self.soc, 0.0, 1.0)
        check_range("soc steps", np.diff(self.soc), 0.0, open_low=True)
        check_range("ocv_v steps", np.diff(self.ocv_v), 0.0)
        check_range("r0_ohm", self.r0_ohm, 0.0, open_low=True)
        check_range("rc_ohm", self.rc_ohm, 0.0)
        check_range("rc_s", self.rc_s, 0.0, open_low=True)

    @property
    def energy_j(self) -> float:
        """Energy between full and empty without losses, the integral of the OCV [J]."""
        return float(self.charge_c * np.trapezoid(self.ocv_v, self.soc))


def chen_rincon_mora_cell(charge_c: float, cutoff_v: float = 3.0) -> Cell:
    """Return the cell of Chen and Rincon-Mora (850 mAh polymer, LCO) scaled to a capacity.

    Resistances are inversely proportional to the capacity. The fitted capacitances are negative below a state of charge
    of 0.012; from 0.02 down the elements keep their values at 0.02.

    Parameters
    ----------
    charge_c : float
        Capacity [C], > 0.
    cutoff_v : float
        Terminal voltage at which the discharge ends [V], > 0.

    Returns
    -------
    Cell
        The cell as tables of 201 states of charge.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9
    .. [2] chen2006, docs/references.md

    Examples
    --------
    >>> round(chen_rincon_mora_cell(3600.0).energy_j / 3600, 3)
    3.804
    """
    check_range("charge_c", charge_c, 0.0, open_low=True)
    soc = np.linspace(0.0, 1.0, 201)
    r0, r1, c1, r2, c2 = (np.asarray(e) for e in chen_rincon_mora_elements(np.maximum(soc, 0.02)))
    scale = 850e-3 * 3600 / charge_c
    return Cell(
        key="chen-rincon-mora",
        name="Polymer cell of Chen and Rincon-Mora",
        chemistry="LCO",
        charge_c=charge_c,
        cutoff_v=cutoff_v,
        soc=soc,
        ocv_v=np.asarray(chen_rincon_mora_ocv_v(soc)),
        r0_ohm=r0 * scale,
        rc_ohm=np.stack([r1, r2]) * scale,
        rc_s=np.stack([r1 * c1, r2 * c2]),
    )


CAPACITY_TEMP_C, CAPACITY_FRAC = (-20.0, 0.0, 25.0, 60.0), (0.65, 0.87, 1.0, 1.0)
"""[prior] share of the capacity that a lithium-ion cell gives at a temperature, linear in between."""


def at_temperature(cell: Cell, temp_c: float, activation_j_mol: float = 20e3) -> Cell:
    """Return a cell at a temperature: resistances by Arrhenius, capacity by a table.

    ``R(T) = R exp(E_a / R_g (1 / T - 1 / T_25))``, R_g the gas constant. The figures of the cell count as taken at 25
    deg C; the capacity is interpolated in `CAPACITY_FRAC`.

    Parameters
    ----------
    cell : Cell
        The cell at 25 deg C.
    temp_c : float
        Temperature [deg C], -20 to 60.
    activation_j_mol : float
        Activation energy E_a of the resistances [J/mol], > 0; 20 kJ/mol is a prior.

    Returns
    -------
    Cell
        The cell at the temperature.

    Raises
    ------
    ValueError
        `temp_c` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9

    Examples
    --------
    >>> cold = at_temperature(chen_rincon_mora_cell(3600.0), 0.0)
    >>> round(cold.charge_c / 3600, 2), round(float(cold.r0_ohm[-1] / chen_rincon_mora_cell(3600.0).r0_ohm[-1]), 4)
    (0.87, 2.0926)
    """
    check_range("temp_c", temp_c, CAPACITY_TEMP_C[0], CAPACITY_TEMP_C[-1])
    factor = math.exp(activation_j_mol / _GAS_J_MOL_K * (1 / (temp_c + 273.15) - 1 / _REFERENCE_K))
    return replace(
        cell,
        charge_c=cell.charge_c * float(np.interp(temp_c, CAPACITY_TEMP_C, CAPACITY_FRAC)),
        r0_ohm=cell.r0_ohm * factor,
        rc_ohm=cell.rc_ohm * factor,
    )


def pack(cell: Cell, n_series: int, n_parallel: float) -> Cell:
    """Return cells in series and parallel as one cell.

    Voltages grow by the series count, capacity by the parallel count, resistances by their quotient.

    Parameters
    ----------
    cell : Cell
        One cell.
    n_series : int
        Cells in a row [1], >= 1.
    n_parallel : float
        Rows side by side [1], > 0; a fraction scales the capacity of the cell.

    Returns
    -------
    Cell
        The pack.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9

    Examples
    --------
    >>> two_by_three = pack(chen_rincon_mora_cell(3600.0), 2, 3)
    >>> two_by_three.charge_c, two_by_three.cutoff_v
    (10800.0, 6.0)
    """
    check_range("n_series", n_series, 1)
    check_range("n_parallel", n_parallel, 0.0, open_low=True)
    return replace(
        cell,
        key=f"{cell.key} {n_series}s{n_parallel:.3g}p",
        charge_c=cell.charge_c * n_parallel,
        cutoff_v=cell.cutoff_v * n_series,
        ocv_v=cell.ocv_v * n_series,
        r0_ohm=cell.r0_ohm * (n_series / n_parallel),
        rc_ohm=cell.rc_ohm * (n_series / n_parallel),
    )


def pack_of_energy(cell: Cell, energy_j: float, n_series: int) -> Cell:
    """Return the pack of `n_series` cells in a row that has a given open-circuit energy.

    ``n_parallel = E / (n_series E_cell)``

    Parameters
    ----------
    cell : Cell
        One cell.
    energy_j : float
        Energy E of the pack without losses [J], > 0.
    n_series : int
        Cells in a row [1], >= 1.

    Returns
    -------
    Cell
        The pack.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9

    Examples
    --------
    >>> round(pack_of_energy(chen_rincon_mora_cell(3600.0), 56 * 3600.0, 4).energy_j / 3600, 6)
    56.0
    """
    check_range("energy_j", energy_j, 0.0, open_low=True)
    return pack(cell, n_series, energy_j / (n_series * cell.energy_j))
