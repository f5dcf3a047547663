import json

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from core.physics import battery as b
from core.physics.discharge import discharge
from tests.places import GOLDEN

M = json.loads((GOLDEN / "models.json").read_text())
CELL = b.chen_rincon_mora_cell(3 * 3600)


def plain(r0, n=4001):
    """The golden battery: one constant resistance, no RC elements."""
    soc = np.linspace(0, 1, n)
    ocv = np.asarray(b.chen_rincon_mora_ocv_v(soc))
    return b.Cell("plain", "", "", 3 * 3600, 3.0, soc, ocv, np.full(n, r0), np.empty((0, n)), np.empty((0, n)))


@pytest.mark.parametrize("power", [2.0, 4.0, 8.0])
def test_golden_runtime_and_energy(power):
    found = discharge(plain(0.0745), np.full(40000, power), 1.0)
    assert found.end == "cut-off"
    assert found.duration_s / 3600 == pytest.approx(M[f"M12.runtime_h(P={power},3Ah,74.5mOhm,3.0V)"], rel=2e-6)
    residual = found.chemical_j - found.delivered_j - found.ohmic_j - found.rc_j
    assert abs(residual) < 1e-9 * found.delivered_j
    assert found.delivered_j == pytest.approx(power * found.duration_s, rel=1e-12)


@pytest.mark.parametrize("step", [1.0, 2.0, 10.0])
def test_energy_closes_under_a_changing_load(step):
    rng = np.random.default_rng(5)
    found = discharge(CELL, rng.uniform(0, 12, 3000), step)
    residual = found.chemical_j - found.delivered_j - found.ohmic_j - found.rc_j
    assert abs(residual) < 1e-9 * found.delivered_j
    assert found.ohmic_j > 0
    assert found.rc_j > 0


def thevenin(cell, power, start):
    """An independent solution: the differential equations given to an adaptive solver."""

    def table(values, s):
        return np.interp(s, cell.soc, values)

    def current(y):
        e, r0 = table(cell.ocv_v, y[0]) - y[1:].sum(), table(cell.r0_ohm, y[0])
        return (e - np.sqrt(max(e * e - 4 * r0 * power, 0))) / (2 * r0)

    def slope(_t, y):
        i = current(y)
        rates = [
            (i * table(r, y[0]) - v) / table(tau, y[0]) for r, tau, v in zip(cell.rc_ohm, cell.rc_s, y[1:], strict=True)
        ]
        return [-i / cell.charge_c, *rates]

    def voltage(_t, y):
        return power / current(y) - cell.cutoff_v

    voltage.terminal = True
    y0 = np.array([start, *[0.0] * len(cell.rc_ohm)])
    return solve_ivp(slope, (0, 1e6), y0, events=voltage, rtol=1e-8, atol=1e-10, max_step=200).t[-1]


@pytest.mark.parametrize("power", [2.0, 8.0])
@pytest.mark.parametrize("step", [2.0, 10.0])
def test_runtime_agrees_with_an_independent_solver(power, step):
    found = discharge(CELL, np.full(int(40000 / step), power), step, start_soc=0.99)
    assert found.duration_s == pytest.approx(thevenin(CELL, power, 0.99), rel=5e-4)


def test_bursts_cost_more_than_their_mean():
    bursts = np.tile([14.0, 2.0], 6000)
    assert discharge(CELL, bursts, 1.0).duration_s < discharge(CELL, np.full(12000, 8.0), 1.0).duration_s


def test_runtime_falls_with_power_and_more_than_doubles_at_half():
    seconds = [discharge(CELL, np.full(9000, p), 10.0).duration_s for p in (1.0, 2.0, 4.0)]
    assert (np.divide(seconds[:-1], seconds[1:]) > 2).all()


def test_brown_out_is_reported_and_kept_apart_from_the_cut_off():
    weak = b.pack(CELL, 1, 0.02)
    found = discharge(weak, np.full(100, 4.0), 1.0)
    assert found.end == "cut-off"  # at 3 V the cut-off comes before the power limit
    assert found.duration_s == 0
    low_cutoff = b.Cell("low", "", "", 216, 1.5, weak.soc, weak.ocv_v, weak.r0_ohm, weak.rc_ohm, weak.rc_s)
    assert discharge(low_cutoff, np.full(100, 4.0), 1.0).end == "brown-out"
    assert discharge(low_cutoff, [], 1.0).end == ""


def test_a_peak_within_a_step_ends_the_discharge_earlier():
    mean, peak = np.full(9000, 5.0), np.full(9000, 20.0)
    assert discharge(CELL, mean, 1.0, peak_w=peak).duration_s < discharge(CELL, mean, 1.0).duration_s


def test_rest_costs_nothing_and_recovers():
    found = discharge(CELL, np.r_[np.full(600, 8.0), np.zeros(1200)], 1.0)
    assert found.soc[-1] == found.soc[599]
    assert found.voltage_v[-1] > found.voltage_v[600]
    assert found.end == ""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: discharge(CELL, [-1.0], 1.0), "power_w = -1"),
        (lambda: discharge(CELL, [1.0], 0.0), "step_s = 0"),
        (lambda: discharge(CELL, [1.0], 1.0, start_soc=0), "start_soc = 0"),
        (lambda: discharge(CELL, [2.0], 1.0, peak_w=[1.0]), "peak_w - power_w = -1"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
