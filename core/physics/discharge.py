"""Discharge of a battery under a series of loads: state of charge, voltage, current, cut-off, brown-out, energies.

Cells and formulas are those of `core.physics.battery`. Each step is solved for the constant current whose mean power
is that of the load, so energy closes to rounding; steps may be seconds long because the open-circuit voltage changes
slowly.

References
----------
.. [1] docs/physics.md M9
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.physics.battery import Cell
from core.units import check_range

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Discharge:
    """State of a battery at the end of each step that it served, the reason of the end, and the energy account.

    The energies close: ``chemical_j = delivered_j + ohmic_j + rc_j``.

    Attributes
    ----------
    time_s : ndarray, shape (m,)
        Time at the end of each step [s].
    soc : ndarray, shape (m,)
        State of charge [1].
    voltage_v : ndarray, shape (m,)
        Terminal voltage [V].
    current_a : ndarray, shape (m,)
        Current within the step [A].
    end : str
        "cut-off", "brown-out", "empty", or "" where the series of loads ended first.
    duration_s : float
        Time served [s].
    chemical_j, delivered_j : float
        Energy taken from the cell and given to the load [J].
    ohmic_j, rc_j : float
        Energy lost in the series resistance and put into the RC elements [J].
    """

    time_s: Floats
    soc: Floats
    voltage_v: Floats
    current_a: Floats
    end: str
    duration_s: float
    chemical_j: float
    delivered_j: float
    ohmic_j: float
    rc_j: float


class _Steps:
    """The cell's tables as lists, one entry a segment of the state of charge, for steps of one length.

    Resistances and time constants are those in the middle of the segment.
    """

    def __init__(self, cell: Cell, step_s: float) -> None:
        self.drop_c = step_s / cell.charge_c  # fall of the state of charge per ampere
        self.cutoff_v = cell.cutoff_v
        self.low = cell.soc[:-1].tolist()
        self.ocv = cell.ocv_v[:-1].tolist()
        self.half_slope = (np.diff(cell.ocv_v) / np.diff(cell.soc) / 2).tolist()
        areas = np.diff(cell.soc) * _middle(cell.ocv_v)
        self.energy = np.concatenate([[0.0], np.cumsum(areas)[:-1]]).tolist()
        r0, ohm, tau = (_middle(a) for a in (cell.r0_ohm, cell.rc_ohm, cell.rc_s))
        decay = np.exp(-step_s / tau)
        mean = tau / step_s * (1 - decay)  # share of its start that an element shows on average over the step
        self.r0 = r0.tolist()
        self.effective = (r0 + (ohm * (1 - mean)).sum(axis=0)).tolist()
        self.elements = np.stack([ohm, decay, mean]).T.tolist()  # (segment, element, 3)

    def energy_v(self, soc: float) -> float:
        """Return the integral of the OCV from empty [V]."""
        j = max(bisect_right(self.low, soc) - 1, 0)
        x = soc - self.low[j]
        return float(self.energy[j] + x * (self.ocv[j] + self.half_slope[j] * x))

    def start(self, soc: float, n_elements: int) -> _State:
        """Return the state of the rested battery."""
        j = max(bisect_right(self.low, soc) - 1, 0)
        return soc, [0.0] * n_elements, 0.0, j, self.ocv[j] + 2 * self.half_slope[j] * (soc - self.low[j])

    def refusal(self, state: _State, power_w: float) -> str:
        """Return why the battery cannot go on at a power; "" where it can.

        The terminal voltage is at or above the cut-off V_c as long as ``R_0 P <= V_c (E - V_c)``; where the cut-off is
        below E/2, the power limit ``E^2/(4 R_0)`` comes first.
        """
        soc, _, _, j, behind = state
        if soc < self.low[0]:
            return "empty"
        if 2 * self.cutoff_v < behind:
            return "brown-out" if 4 * self.r0[j] * power_w > behind * behind else ""
        return "cut-off" if self.r0[j] * power_w > self.cutoff_v * (behind - self.cutoff_v) else ""

    def advance(self, state: _State, power_w: float) -> _State | None:
        """Return the state after a step of mean power `power_w`; None where no current delivers it."""
        soc, rc_v, current, j, _ = state
        x, ocv, half, demand = soc - self.low[j], self.ocv[j], self.half_slope[j], 4 * self.effective[j] * power_w
        elements, held = self.elements[j], 0.0
        for v, (_, _, share) in zip(rc_v, elements, strict=True):
            held += v * share
        drop = current * self.drop_c
        for _ in range(_SWEEPS):  # the mean OCV depends on where the step ends: a contraction of about 1e-4
            if drop <= x or j == 0:
                behind = ocv + half * (2 * x - drop) - held
            else:  # the step leaves the segment
                behind = (self.energy_v(soc) - self.energy_v(soc - drop)) / drop - held
            if behind <= 0 or behind * behind < demand:
                return None
            previous, current = current, 2 * power_w / (behind + math.sqrt(behind * behind - demand))
            drop = current * self.drop_c
            if -_SETTLED * current <= current - previous <= _SETTLED * current:
                break
        after = [current * ohm + (v - current * ohm) * decay for v, (ohm, decay, _) in zip(rc_v, elements, strict=True)]
        soc -= drop
        while j > 0 and soc < self.low[j]:
            j -= 1
        return soc, after, current, j, self.ocv[j] + 2 * self.half_slope[j] * (soc - self.low[j]) - sum(after)


_SWEEPS, _SETTLED, _HALVINGS = 12, 1e-12, 14  # the end of a 10 s step is found to 0.6 ms
_State = tuple[float, list[float], float, int, float]
"""State of charge, RC voltages [V], current of the last step [A], table segment, voltage behind R_0 [V]."""


def _middle(table: Floats) -> Floats:
    return np.asarray((table[..., 1:] + table[..., :-1]) / 2)


def discharge(
    cell: Cell, power_w: ArrayLike, step_s: float, *, start_soc: float = 1.0, peak_w: ArrayLike | None = None
) -> Discharge:
    """Return the states of a battery under a series of mean powers, each held for one step.

    ``V = OCV(s) - I R_0 - sum V_j``, ``s' = -I / Q``, ``V_j' = (I R_j - V_j) / tau_j``

    Within a step the current is constant and gives exactly the mean power: OCV and RC voltages are averaged in closed
    form, so energy closes to rounding whatever the step. The last step is shortened to where the battery ends.

    Parameters
    ----------
    cell : Cell
        Cell or pack.
    power_w : array_like, shape (m,)
        Mean power of each step [W], >= 0.
    step_s : float
        Length of a step [s], > 0; 1 to 10 s, short against changes of OCV and resistances.
    start_soc : float
        State of charge at the start [1], above 0 to 1.
    peak_w : array_like, shape (m,), optional
        Highest power within each step [W], >= `power_w`, which decides about cut-off and brown-out; None takes
        `power_w`.

    Returns
    -------
    Discharge
        States of the served steps, and the energy account.

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M9

    Examples
    --------
    >>> from dataclasses import replace
    >>> from core.physics.battery import chen_rincon_mora_cell
    >>> cell = chen_rincon_mora_cell(3 * 3600.0)
    >>> one_resistance = replace(cell, r0_ohm=np.full(201, 0.0745), rc_ohm=np.zeros((2, 201)))
    >>> served = discharge(one_resistance, np.full(3600, 8.0), 10.0)
    >>> served.end, round(served.duration_s / 3600, 3)
    ('cut-off', 1.343)
    """
    powers = np.asarray(power_w, float)
    peaks = powers if peak_w is None else np.asarray(peak_w, float)
    check_range("power_w", powers, 0.0)
    check_range("peak_w - power_w", peaks - powers, -1e-9)
    check_range("step_s", step_s, 0.0, open_low=True)
    check_range("start_soc", start_soc, 0.0, 1.0, open_low=True)
    steps = _Steps(cell, step_s)
    state = steps.start(start_soc, len(cell.rc_ohm))
    states, length = [state], step_s
    end = steps.refusal(state, float(peaks[0])) if peaks.size else ""
    for power, peak in zip(powers.tolist(), peaks.tolist(), strict=True):
        if end:
            break
        after = steps.advance(state, power)
        end = "brown-out" if after is None else steps.refusal(after, peak)
        if after is None or end:
            length, after = _last_step(cell, state, power, peak, step_s)
        state = after
        states.append(state)
    return _account(cell, states, powers[: len(states) - 1], step_s, length, end)


def _last_step(cell: Cell, state: _State, power_w: float, peak_w: float, step_s: float) -> tuple[float, _State]:
    """Return the longest part of a step that the battery still serves, by bisection, and the state after it."""
    low, high, served = 0.0, step_s, (*state[:2], 0.0, *state[3:])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        steps = _Steps(cell, middle)
        after = steps.advance(state, power_w)
        if after is None or steps.refusal(after, peak_w):
            high = middle
        else:
            low, served = middle, after
    return low, served


def _account(cell: Cell, states: list[_State], power_w: Floats, step_s: float, last_s: float, end: str) -> Discharge:
    """Return the series and the energy account of the states, the first one being the start."""
    soc, rc_v, current, at, behind = (np.asarray(column) for column in zip(*states, strict=True))
    current, before = current[1:], at[:-1]
    length = np.full(current.size, float(step_s))
    length[-1:] = last_s
    r0, ohm, tau = (_middle(a)[..., before] for a in (cell.r0_ohm, cell.rc_ohm, cell.rc_s))
    settled = current * ohm
    into_rc = settled * length + (rc_v[:-1].T - settled) * tau * -np.expm1(-length / tau)
    left = np.maximum(behind[1:] ** 2 - 4 * _middle(cell.r0_ohm)[at[1:]] * power_w, 0.0)  # 0 only at a brown-out
    steps = _Steps(cell, step_s)
    return Discharge(
        time_s=np.cumsum(length),
        soc=soc[1:],
        voltage_v=(behind[1:] + np.sqrt(left)) / 2,
        current_a=current,
        end=end,
        duration_s=float(length.sum()),
        chemical_j=cell.charge_c * (steps.energy_v(float(soc[0])) - steps.energy_v(float(soc[-1]))),
        delivered_j=float(power_w @ length),
        ohmic_j=float(current**2 * r0 @ length),
        rc_j=float((current * into_rc).sum()),
    )
