import csv
import json
from importlib.resources import files

import numpy as np
import pytest
from scipy.stats import norm

from core.catalogue.load import load_catalogue
from core.physics.power import (
    below_limit,
    decode_energy_j,
    dram_energy_j,
    energy_floor_j,
    lambert_w0,
    leakage_loop_gain,
    leakage_power_w,
    mean_power_w,
    paced_energy_j,
    steady_temp_c,
    trace_energy_j,
)
from tests.places import GOLDEN

MODELS = json.loads((GOLDEN / "models.json").read_text())
QUANTITIES = json.loads((GOLDEN / "quantities.json").read_text())


def test_dram_energy_golden():
    qwen2_byte = 868.339296e6  # 4.5 bits
    golden = MODELS["M9.dram_mJ_per_token(Qwen2-1.5B 4.5b,6pJ/bit)"]
    assert dram_energy_j(qwen2_byte, 6e-12) * 1e3 == pytest.approx(golden, rel=1e-12)
    assert dram_energy_j(25e9, 6e-12) == pytest.approx(MODELS["M9.dram_W_at_25GBs(6pJ/bit)"], rel=1e-12)


def test_energy_and_power_golden():
    golden = MODELS["M9.J_per_token(Pi 500+ 13W 5.55tok/s)"]
    assert mean_power_w(golden, 1 / 5.55) == pytest.approx(13.0, rel=1e-12)
    assert mean_power_w(MODELS["M9.J_per_token(M4 mini 30.1W 41.31tok/s)"], 1 / 41.31) == pytest.approx(30.1, rel=1e-12)


def test_every_board_with_a_figure_stands_on_its_row():
    with files("resources").joinpath("measurements", "energy_per_byte.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    n_checked = 0
    for board in load_catalogue().boards.values():
        if board.energy_assumed or board.key == "this":
            continue
        medians = [float(r["median_pj_byte"]) * 1e-12 for r in rows if r["board_key"] == board.key]
        nearest = min(abs(np.log(board.system_energy_j_byte / m)) for m in medians)
        assert nearest < 0.05, board.key
        assert decode_energy_j(1e9, board.system_energy_j_byte) >= dram_energy_j(1e9)
        assert board.power_rail
        n_checked += 1
    assert n_checked >= 6


def test_a_variable_known_to_be_below_zero_is_cut_off_there():
    low, median, high = below_limit(np.array([-10.0, 0.0, 3.0, 60.0]), 0.5)
    np.testing.assert_allclose([low[0], median[0], high[0]], [-10.822427, -10.0, -9.177573], rtol=1e-6)
    np.testing.assert_allclose(median[1], 0.5 * norm.ppf(0.25), rtol=1e-12)
    assert np.all(low < median)
    assert np.all(median < high)
    assert np.all(high < 0.0)
    with pytest.raises(ValueError, match="log_sd"):
        below_limit(0.0, 0.0)


def test_energy_is_power_times_time():
    moved = np.array([1e8, 1e9])
    energy = decode_energy_j(moved, 185e-12)
    np.testing.assert_allclose(mean_power_w(energy, 0.05) * 0.05, energy)
    assert energy[1] == decode_energy_j(1e9, 185e-12)


def test_floor_adds_idle_and_dram():
    assert energy_floor_j(1e9, 0.1, 3.0, 8e-12) == pytest.approx(0.3 + 0.064)
    assert energy_floor_j(0.0, 0.0, 3.0) == 0.0


def test_trace_energy_is_exact_for_straight_pieces():
    t = np.array([0.0, 1.0, 1.5, 4.0])
    p = np.array([2.0, 4.0, 1.0, 1.0])
    assert trace_energy_j(t, p) == pytest.approx(3.0 + 1.25 + 2.5, rel=1e-15)
    fine = np.unique(np.concatenate([np.linspace(0, 4, 999), t]))
    assert trace_energy_j(fine, np.interp(fine, t, p)) == pytest.approx(6.75, rel=1e-12)
    with pytest.raises(ValueError, match="does not rise"):
        trace_energy_j(t[::-1].copy(), p)
    with pytest.raises(ValueError, match="not two equal columns"):
        trace_energy_j(t, p[:2])


def test_lambert_w_inverts_w_exp_w():
    w = -np.concatenate([np.linspace(0.0, 0.99, 400), np.logspace(-300, -3, 50)])
    np.testing.assert_allclose(lambert_w0(w * np.exp(w)), w, rtol=2e-14)
    near = -1.0 + np.logspace(-6, -2, 50)  # the inverse of a maximum: its error is that of x over the distance to it
    np.testing.assert_allclose(lambert_w0(near * np.exp(near)), near, atol=1e-9)
    assert lambert_w0(-np.exp(-1.0)) == -1.0
    assert lambert_w0(-0.4) == -np.inf
    with pytest.raises(ValueError, match=r"x = 0\.1"):
        lambert_w0(0.1)


def test_steady_temperature_golden_and_by_iteration():
    hot = steady_temp_c(25, 2, 10, 1, 0.02, 25)
    assert hot == pytest.approx(MODELS["M9.T_leak_lambertw"], rel=1e-12)
    assert hot == pytest.approx(QUANTITIES["B06.phy.T_leak_fixed_point(R=2,P0=10,Pl=1,b=.02)"], rel=1e-12)
    temp = 25.0
    for _ in range(60):
        temp = 25 + 2 * (10 + leakage_power_w(temp, 1.0, 0.02, 25.0))
    assert hot == pytest.approx(temp, rel=1e-12)
    gain = leakage_loop_gain(2, leakage_power_w(hot, 1.0, 0.02, 25.0), 0.02)
    assert gain == pytest.approx(QUANTITIES["B06.phy.loop_gain"], rel=1e-9)


def test_steady_temperature_limits():
    assert steady_temp_c(25, 2, 10, 0, 0.02, 25) == pytest.approx(45.0)
    runaway = QUANTITIES["B06.phy.P0_runaway"]
    tangent = QUANTITIES["B06.phy.T_runaway_tangent"]
    assert steady_temp_c(25, 2, runaway * (1 - 1e-12), 1, 0.02, 25) == pytest.approx(tangent, rel=1e-4)
    assert steady_temp_c(25, 2, runaway * 1.001, 1, 0.02, 25) == np.inf
    powers = np.linspace(0, 60, 61)
    temps = steady_temp_c(25, 2, powers, 1, 0.02, 25)
    assert np.all(np.diff(temps[temps < np.inf]) > 0)
    assert np.all(np.isinf(temps[powers > runaway]))
    assert temps[10] == pytest.approx(steady_temp_c(25, 2, 10, 1, 0.02, 25))


def test_refusals_name_the_argument():
    with pytest.raises(ValueError, match="moved_byte = -1"):
        decode_energy_j(-1, 1e-10)
    with pytest.raises(ValueError, match="energy_j_byte = 0"):
        decode_energy_j(1, 0)
    with pytest.raises(ValueError, match="time_s = 0"):
        mean_power_w(1, 0)
    with pytest.raises(ValueError, match="rate_per_k = 0"):
        steady_temp_c(25, 2, 10, 1, 0, 25)


def test_a_slower_pace_pays_idle_power_for_longer():
    times = np.array([0.1, 0.2, 1.0, 1e6])
    energy = paced_energy_j(0.5, 0.1, times, 2.0)
    assert energy == pytest.approx([0.5, 0.7, 2.3, 0.5 + 2 * (1e6 - 0.1)])
    assert energy / times == pytest.approx([5.0, 3.5, 2.3, 2.0], rel=1e-5)  # down to the idle power, never below
    with pytest.raises(ValueError, match="idle_w"):
        paced_energy_j(0.5, 0.1, 0.2, -1.0)
