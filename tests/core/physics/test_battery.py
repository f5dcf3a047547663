import json

import numpy as np
import pytest

from core.physics import battery as b
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
M = json.loads((GOLDEN / "models.json").read_text())


def test_open_circuit_voltage_golden():
    for soc in ("1.0", "0.8", "0.5", "0.2", "0.05"):
        assert b.chen_rincon_mora_ocv_v(float(soc)) == pytest.approx(M[f"M12.OCV({soc})"], rel=1e-12)
    energy = b.chen_rincon_mora_energy_v(0.0, 1.0)
    assert energy == pytest.approx(M["M12.energy_per_Ah_full(Wh)"], rel=1e-12)
    soc = np.linspace(0, 1, 7)
    np.testing.assert_array_equal(b.chen_rincon_mora_ocv_v(soc), [b.chen_rincon_mora_ocv_v(s) for s in soc])


def test_rc_step_golden():
    assert b.rc_voltage_v(7.0, 1.0, 0.0467, 7.0) == pytest.approx(M["M12.rc_V(t=tau)"], rel=1e-12)


def test_constant_power_golden():
    current = b.constant_power_current_a(10, 3.7, 0.05)
    assert current == pytest.approx(Q["B06.phy.I(OCV=3.7,R0=.05,P=10)"], rel=1e-12)
    volts = 3.7 - 0.05 * current
    assert volts == pytest.approx(Q["B06.phy.V"], rel=1e-12)
    assert volts * current == pytest.approx(Q["B06.phy.VI"], rel=1e-12)
    assert volts / 3.7 == pytest.approx(Q["B06.phy.efficiency"], rel=1e-12)
    assert b.deliverable_power_w(3.7, 0.05) == pytest.approx(Q["B06.phy.Pmax"], rel=1e-12)
    assert b.constant_power_current_a(10, 3.7, 0.0) == pytest.approx(10 / 3.7)


def test_peukert_and_constant_energy_golden():
    args = (10 * 3600, 20 * 3600)
    assert b.peukert_s(*args, 1.2, 5) / 3600 == pytest.approx(
        Q["B06.phy.peukert_h(C=10Ah,H=20h,k=1.2,I=5A)"], rel=1e-12
    )
    assert b.peukert_s(*args, 1.0, 5) / 3600 == pytest.approx(Q["B06.phy.peukert_k1"], rel=1e-12)
    assert pytest.approx(Q["B06.phy.hours_constant(56Wh,15W)"]) == 56 / 15


@pytest.mark.parametrize("power", [2.0, 4.0, 8.0])
def test_runtime_golden(power):
    hours = b.runtime_s(power, b.chen_rincon_mora_ocv_v, 3 * 3600, 0.0745, 3.0) / 3600
    # the golden figures come from a stepped solution, which stops about 3e-10 away
    assert hours == pytest.approx(M[f"M12.runtime_h(P={power},3Ah,74.5mOhm,3.0V)"], rel=1e-9)


def test_half_the_power_runs_more_than_twice_as_long():
    hours = [b.runtime_s(p, b.chen_rincon_mora_ocv_v, 3 * 3600, 0.0745, 3.0) for p in (1.0, 2.0, 4.0, 8.0)]
    ratios = np.divide(hours[:-1], hours[1:])
    assert (ratios > 2).all()
    assert ratios[1] == pytest.approx(M["M12.runtime_ratio_2_over_4"], rel=1e-9)


def test_without_resistance_runtime_is_energy_over_power():
    seconds = b.runtime_s(5.0, b.chen_rincon_mora_ocv_v, 3600.0, 0.0, 2.6)
    assert seconds == pytest.approx(3600 * b.chen_rincon_mora_energy_v(0.0, 1.0) / 5.0, rel=1e-9)


def test_packs_keep_energy_per_cell_and_scale_resistance():
    cell = b.chen_rincon_mora_cell(3 * 3600)
    four = b.pack(cell, 4, 2)
    assert four.energy_j == pytest.approx(8 * cell.energy_j)
    assert four.r0_ohm[50] == pytest.approx(2 * cell.r0_ohm[50])
    assert b.pack_of_energy(cell, 56 * 3600, 3).energy_j == pytest.approx(56 * 3600)
    np.testing.assert_allclose(cell.rc_s[:, 100], b.pack(cell, 4, 2).rc_s[:, 100])


def test_cold_raises_the_resistance_and_takes_capacity():
    cell = b.chen_rincon_mora_cell(3 * 3600)
    assert b.at_temperature(cell, 25.0).r0_ohm[0] == pytest.approx(cell.r0_ohm[0])
    assert b.at_temperature(cell, 25.0).charge_c == cell.charge_c
    assert b.at_temperature(cell, 0.0).charge_c == pytest.approx(0.87 * cell.charge_c)
    assert b.at_temperature(cell, 0.0).r0_ohm[0] > 2 * cell.r0_ohm[0] * 0.99
    assert b.at_temperature(cell, 45.0).rc_ohm[1, 7] < cell.rc_ohm[1, 7]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: b.chen_rincon_mora_ocv_v(1.1), "soc = 1.1"),
        (lambda: b.chen_rincon_mora_elements(0.0), "soc = 0"),
        (lambda: b.constant_power_current_a(69, 3.7, 0.05), r"open_v\^2 - 4 resistance_ohm power_w"),
        (lambda: b.runtime_s(60.0, b.chen_rincon_mora_ocv_v, 3600, 0.0745, 3.0), "power_w = 60"),
        (lambda: b.runtime_s(20.0, b.chen_rincon_mora_ocv_v, 3600, 0.0745, 3.9), "open voltage at the start"),
        (lambda: b.pack(b.chen_rincon_mora_cell(3600), 0, 1), "n_series = 0"),
        (lambda: b.at_temperature(b.chen_rincon_mora_cell(3600), 90), "temp_c = 90"),
        (lambda: b.chen_rincon_mora_cell(-1), "charge_c = -1"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
