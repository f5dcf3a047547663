import math
from dataclasses import replace

import numpy as np
import pytest

from core.physics import battery, power, thermal
from core.physics import throttle as tr
from core.predict import cosim
from core.spec import Absent

CLOCK = np.linspace(0.3e9, 1e9, 15)
LEVELS = cosim.scaled_levels(CLOCK, (CLOCK / CLOCK[-1]) ** 2.6, memory_s=0.04, scaling_s=0.03, core_w=9.0, dram_w=3.0)
PACK = battery.pack_of_energy(battery.chen_rincon_mora_cell(3 * 3600), 56 * 3600, 3)
LADDER = thermal.Ladder((2.0, 30.0, 120.0), (0.5, 1.5, 2.5))
DEVICE = cosim.Device(
    LEVELS,
    idle_w=2.5,
    ladder=LADDER,
    throttle=tr.PowerAllocator.estimated(8.0, 75.0, 85.0),
    leakage_w=0.8,
    leakage_rate_per_k=0.02,
    leakage_temp_c=60.0,
    battery=PACK,
)
HOUR = cosim.load_of_phases([1.0], [1.0], 3600.0, 0.1)


def test_levels_slow_only_what_follows_the_clock():
    assert LEVELS.tokens_s[-1] == pytest.approx(1 / 0.07)
    half = cosim.scaled_levels([0.5e9, 1e9], [0.2, 1.0], memory_s=0.04, scaling_s=0.03, core_w=9.0, dram_w=3.0)
    assert half.tokens_s[0] == pytest.approx(1 / (0.04 + 0.06))
    assert half.dram_w[0] == pytest.approx(3.0 * 0.07 / 0.10)
    assert half.core_w[0] == pytest.approx(1.8)


@pytest.mark.parametrize("load", [HOUR, cosim.load_of_phases([3.0, 5.0], [1.0, 0.2], 3600.0, 0.1)])
@pytest.mark.parametrize("ambient", [20.0, 45.0])
def test_energy_closes(load, ambient):
    run = cosim.simulate(DEVICE, load, 0.1, ambient)
    assert abs(run.thermal_error_j) < 1e-9 * run.energy_j
    assert abs(run.battery_error_j) < 1e-9 * run.energy_j
    assert run.battery.delivered_j == pytest.approx(run.energy_j, rel=1e-9)
    assert sum(run.terms_w.values()) == pytest.approx(run.energy_j / 3600)


def test_die_follows_the_ladder():
    run = cosim.simulate(DEVICE, HOUR, 0.1, 45.0)
    expected = 45.0 + thermal.respond(LADDER, run.power_w, 0.1)[:, 0]
    np.testing.assert_allclose(run.temp_c, expected, rtol=1e-9)


def test_throttling_holds_the_target_and_the_sustainable_mean():
    run = cosim.simulate(replace(DEVICE, battery=None), HOUR, 0.1, 45.0)
    assert run.temp_c.max() < 87.0
    assert 82.0 < run.temp_c[-1] < 86.0
    assert 60 < run.throttled_after_s < 1200
    assert run.sustained_tokens_s < LEVELS.tokens_s[-1]
    mean_die = run.temp_c[-9000:].mean()
    assert run.sustained_w == pytest.approx(thermal.sustained_power_w(mean_die, 45.0, 4.5), rel=0.01)


def test_a_cool_room_never_throttles_and_settles_at_the_fixed_point():
    cool = replace(DEVICE, battery=None, ladder=thermal.Ladder((2.0, 30.0), (0.5, 1.0)))
    run = cosim.simulate(cool, HOUR, 0.1, 20.0)
    assert isinstance(run.throttled_after_s, Absent)
    assert (run.level == len(CLOCK) - 1).all()
    # level powers contain the leakage at the reference temperature: 14.5 W is 13.7 W and 0.8 W at 60 deg C
    steady = power.steady_temp_c(20.0, 1.5, 14.5 - 0.8, 0.8, 0.02, 60.0)
    assert run.temp_c[-1] == pytest.approx(float(steady), abs=1e-6)


def test_runaway_ends_in_a_shutdown_with_a_reason():
    hot = replace(DEVICE, throttle=tr.Unthrottled(), battery=None, leakage_w=6.0, shutdown_temp_c=105.0)
    run = cosim.simulate(hot, HOUR, 0.1, 45.0)
    assert run.end == "thermal shutdown"
    assert run.temp_c[-1] >= 105.0
    assert run.time_s[-1] < 3600
    assert thermal.runaway_power_w(45.0, 4.5, 6.0, 0.02, 60.0) < 14.5 - 6.0


def test_trip_caps_cycle_between_their_temperatures():
    caps = replace(DEVICE, throttle=tr.TripCaps((tr.Trip(80.0, 0.5e9, 5.0),)), battery=None)
    run = cosim.simulate(caps, HOUR, 0.1, 45.0)
    late = run.temp_c[-6000:]
    assert 74.0 < late.min() < 75.5
    assert 79.5 < late.max() < 81.0
    assert {int(i) for i in np.unique(run.level[-6000:])} == {int(np.searchsorted(CLOCK, 0.5e9, "right")) - 1, 14}


def test_article_figures_without_losses():
    """SITSEnergy: 15 W from 56 Wh last 3.733 h, and 4 K/W at 25 deg C put the die at 85 deg C."""
    flat = battery.Cell(
        "ideal", "", "", 56 * 3600 / 10, 5.0, np.array([0.0, 1.0]), np.array([10.0, 10.0]),
        np.full(2, 1e-9), np.empty((0, 2)), np.empty((0, 2)),
    )  # fmt: skip
    one = cosim.Levels(np.array([1e9]), np.array([12.0]), np.array([3.0]), np.array([10.0]))
    device = cosim.Device(one, 0.0, thermal.Ladder((5.0, 50.0), (1.0, 3.0)), tr.Unthrottled(), battery=flat)
    run = cosim.simulate(device, np.ones(4 * 36000), 0.1, 25.0)
    assert run.hours_per_charge == pytest.approx(56 / 15, rel=1e-6)
    assert run.end == "empty"
    assert run.temp_c[-1] == pytest.approx(85.0, abs=1e-6)
    assert run.tokens == pytest.approx(10 * 3600 * 56 / 15, rel=1e-4)


def test_hours_beyond_the_run_agree_with_a_longer_run():
    short, long = (cosim.simulate(DEVICE, np.ones(n), 0.1, 35.0) for n in (36000, 8 * 36000))
    assert short.end == ""
    assert long.end == "cut-off"
    assert short.hours_per_charge == pytest.approx(long.hours_per_charge, rel=0.02)
    assert long.time_s[-1] == pytest.approx(long.hours_per_charge * 3600, abs=0.2)


def test_converter_and_periphery_cost_time_but_no_heat():
    base = cosim.simulate(DEVICE, HOUR, 0.1, 25.0)
    more = cosim.simulate(replace(DEVICE, periphery_w=2.0, converter_frac=0.9), HOUR, 0.1, 25.0)
    assert more.hours_per_charge < base.hours_per_charge
    np.testing.assert_allclose(more.temp_c, base.temp_c)
    assert more.terms_w["periphery"] == 2.0


def test_loads_keep_their_mean_whatever_the_step():
    load = cosim.load_of_phases([0.25, 0.13], [1.0, 0.0], 38.0, 0.1)
    assert load.mean() == pytest.approx(0.25 / 0.38)
    assert load.max() <= 1.0
    assert cosim.load_of_phases([10.0], [0.3], 5.0, 0.1) == pytest.approx(np.full(50, 0.3))


def test_step_length_hardly_matters():
    fine, coarse = (cosim.simulate(DEVICE, np.ones(round(1800 / h)), h, 40.0) for h in (0.05, 0.2))
    assert coarse.tokens == pytest.approx(fine.tokens, rel=5e-3)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cosim.simulate(DEVICE, [1.2], 0.1, 25.0), "load_frac = 1.2"),
        (lambda: cosim.simulate(DEVICE, [], 0.1, 25.0), "number of steps = 0"),
        (lambda: cosim.simulate(DEVICE, [1.0], 0.0, 25.0), "step_s = 0"),
        (lambda: replace(DEVICE, idle_w=-1.0), "idle_w = -1"),
        (lambda: replace(DEVICE, converter_frac=0.0), "converter_frac = 0"),
        (lambda: replace(DEVICE, ladder=thermal.Ladder((1.0,) * 4, (1.0,) * 4)), "nodes of the ladder = 4"),
        (lambda: cosim.load_of_phases([1.0], [2.0], 10.0, 0.1), "load_frac = 2"),
        (lambda: cosim.scaled_levels([1e9], [1.0], memory_s=0, scaling_s=0, core_w=1, dram_w=1), "memory_s"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_without_battery_or_power_hours_are_absent():
    assert isinstance(cosim.simulate(replace(DEVICE, battery=None), [1.0], 0.1, 25.0).hours_per_charge, Absent)
    assert math.isinf(DEVICE.shutdown_temp_c)
