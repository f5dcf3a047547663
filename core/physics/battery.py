"""A battery under a load: formulas of Thevenin cells at constant power, and cells and packs as tables.

::

    V = OCV(s) - I R_0 - sum V_j,    s' = -I / Q,    V_j' = (I R_j - V_j) / tau_j
    I = (E - sqrt(E^2 - 4 R_0 P)) / (2 R_0),    E = OCV - sum V_j        (constant power P)

A load above ``E^2 / (4 R_0)`` has no current that serves it: the battery browns out. A discharge ends when the terminal
voltage reaches the cut-off, not at a state of charge. `core.physics.discharge` follows one in time.

References
----------
docs/physics.md, M9. Default coefficients: Chen and Rincon-Mora, IEEE Trans. Energy Conversion 21(2), 2006, as listed
in dhollenbeck1/CBMS simulate_chenRinconMoraModel.m.
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
    """Open-circuit voltage ``-1.031 e^(-35 s) + 3.685 + 0.2156 s - 0.1178 s^2 + 0.3201 s^3`` [V]; `soc` in [0, 1]."""
    check_range("soc", soc, 0.0, 1.0)
    s = np.asarray(soc, float)
    return np.asarray(-1.031 * np.exp(-35 * s) + 3.685 + s * (0.2156 + s * (-0.1178 + s * 0.3201)))


def chen_rincon_mora_elements(soc: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Series resistance, short and long RC of the same cell (850 mAh): R_0, R_1, C_1, R_2, C_2 [Ohm, F].

    `soc` in [0.012, 1]: below, the fitted C_2 is negative.
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
    """Energy per charge between two states of charge, the integral of the OCV over s [V = J/C = Wh/Ah]."""
    check_range("low_soc", low_soc, 0.0, 1.0)
    check_range("high_soc", high_soc, 0.0, 1.0)

    def primitive(soc: Array) -> Floats:
        s = np.asarray(soc, float)
        polynomial = s * (3.685 + s * (0.1078 + s * (-0.1178 / 3 + s * 0.080025)))
        return np.asarray(1.031 / 35 * np.exp(-35 * s) + polynomial)

    return np.asarray(np.subtract(primitive(high_soc), primitive(low_soc)))


def rc_voltage_v(t_s: Array, current_a: Array, resistance_ohm: Array, tau_s: Array) -> Floats:
    """Voltage over an RC element after a current step, ``I R (1 - exp(-t/tau))`` [V]."""
    check_range("t_s", t_s, 0.0)
    check_range("tau_s", tau_s, 0.0, open_low=True)
    return np.asarray(-np.asarray(current_a) * resistance_ohm * np.expm1(-np.asarray(t_s) / tau_s))


def deliverable_power_w(open_v: Array, resistance_ohm: Array) -> Floats:
    """Most power that a source behind a resistance gives, ``E^2 / (4 R)`` [W]; above it the battery browns out."""
    check_range("resistance_ohm", resistance_ohm, 0.0, open_low=True)
    return np.asarray(np.square(open_v) / (4 * np.asarray(resistance_ohm)))


def constant_power_current_a(power_w: Array, open_v: Array, resistance_ohm: Array) -> Floats:
    """Current at which a source behind a resistance delivers a power, the smaller root [A].

    Parameters
    ----------
    power_w : P, 0 to ``E^2/(4R)`` [W].
    open_v : E, the voltage behind the resistance, > 0 [V].
    resistance_ohm : R, >= 0 [Ohm]; 0 gives ``P / E``.

    Notes
    -----
    ``2 P / (E + sqrt(E^2 - 4 R P))``, the same root without the cancellation.
    """
    check_range("open_v", open_v, 0.0, open_low=True)
    check_range("resistance_ohm", resistance_ohm, 0.0)
    check_range("power_w", power_w, 0.0)
    left = np.square(open_v) - 4 * np.asarray(resistance_ohm) * power_w
    check_range("open_v^2 - 4 resistance_ohm power_w", left, 0.0)
    return np.asarray(2 * np.asarray(power_w) / (np.asarray(open_v) + np.sqrt(left)))


def peukert_s(charge_c: Array, rated_s: Array, exponent: Array, current_a: Array) -> Array:
    """Run time by Peukert's law, ``H (Q / (I H))^k`` [s]; for compatibility only, Li-ion has k of 1.02 to 1.05 [prior].

    Parameters
    ----------
    charge_c : Q rated at `rated_s` H, > 0 [C, s].
    exponent : k >= 1.
    current_a : I > 0 [A].
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
    """Run time at constant power behind one resistance, ``Q int ds / I(s)`` from the cut-off to the start [s].

    Gauss-Legendre quadrature on panels that are finer towards empty; relative error under 1e-10 for smooth curves. The
    closed counterpart of `discharge`, which also follows RC elements.

    Parameters
    ----------
    power_w, charge_c, resistance_ohm, cutoff_v : > 0 [W, C, Ohm, V].
    ocv_v : Rising open-circuit voltage as a function of the state of charge.
    start_soc : In (0, 1].

    Raises
    ------
    ValueError
        The load is beyond what the full battery delivers, or its voltage is below the cut-off from the start.
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
    charge_c : Capacity, > 0 [C].
    cutoff_v : Terminal voltage at which the discharge ends, > 0 [V].
    soc, ocv_v : (n,) states of charge from 0 to 1 and open-circuit voltages, not falling.
    r0_ohm : (n,) series resistance, > 0 [Ohm].
    rc_ohm, rc_s : (k, n) resistances >= 0 [Ohm] and time constants > 0 [s] of k RC elements.
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
    """The cell of Chen and Rincon-Mora (850 mAh polymer, LCO) scaled to a capacity: resistances fall as it grows.

    Its fitted capacitances turn negative below 1.2 % of charge; there the elements keep their values at 2 %.
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
"""[prior] share of the capacity that a lithium-ion cell gives at a temperature, straight in between."""


def at_temperature(cell: Cell, temp_c: float, activation_j_mol: float = 20e3) -> Cell:
    """The cell at a temperature: resistances by Arrhenius, capacity by a table.

    ``R exp(E_a/R_g (1/T - 1/T_25))``; `activation_j_mol` of 20 kJ/mol is a [prior]. The cell's own figures count as
    taken at 25 deg C. `temp_c` in [-20, 60].
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
    """Cells in series and parallel as one cell; a fractional `n_parallel` scales the capacity of the cell."""
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
    """The pack of `n_series` cells in a row whose open-circuit energy is `energy_j` [J]."""
    check_range("energy_j", energy_j, 0.0, open_low=True)
    return pack(cell, n_series, energy_j / (n_series * cell.energy_j))
