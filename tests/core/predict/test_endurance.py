from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.energy import load_cells, load_cooling, load_dvfs, load_throttle_rules
from core.catalogue.load import load_catalogue
from core.physics import battery
from core.predict import cosim
from core.predict.endurance import EXPONENT, device_of, given_speeds, predicted_speeds, simulate_with_interval
from core.predict.scenario import predict
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
PI = OperatingPoint(board="raspberry_pi_5", model="llama-3.2-1b", runtime="llamacpp_cpu", weights="q4_k_m", kv="fp16")
NPU = replace(PI, board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b")
RULES, COOLING, CELLS = load_throttle_rules(), load_cooling(), load_cells()


def test_top_level_is_the_prediction():
    speeds, made = predicted_speeds(PI, CATALOGUE, rule=RULES["raspberry_pi_5"]), predict(PI, CATALOGUE)
    levels = speeds.levels
    assert levels.tokens_s[-1] == pytest.approx(1 / made.decode_s.median)
    assert speeds.idle_w + levels.core_w[-1] + levels.dram_w[-1] == pytest.approx(made.power_w.median)
    assert levels.clock_hz[-1] == 2.4e9
    assert speeds.idle_w == CATALOGUE.boards["raspberry_pi_5"].idle_power_w
    assert any("wall" in note for note in speeds.notes)


def test_memory_time_does_not_follow_the_clock():
    levels = predicted_speeds(PI, CATALOGUE).levels
    slow, fast = levels.clock_hz[0] / levels.clock_hz[-1], levels.tokens_s[0] / levels.tokens_s[-1]
    assert slow < fast < 1


def test_voltages_of_a_table_are_used():
    table = load_dvfs()["rk3588_npu"]
    speeds = predicted_speeds(NPU, CATALOGUE, table=table, power_w=9.0, idle_w=3.0)
    np.testing.assert_array_equal(speeds.levels.clock_hz, table.clock_hz)
    relative = speeds.levels.core_w / speeds.levels.core_w[-1]
    assert relative[0] == pytest.approx(0.203, abs=5e-4)
    assert speeds.power_log_sd == 0


def test_unknown_power_says_what_to_give():
    bare = replace(CATALOGUE.boards["rk3588"], system_energy_j_byte=None)
    without = replace(CATALOGUE, boards={**CATALOGUE.boards, "rk3588": bare})
    with pytest.raises(ValueError, match=r"power of Rockchip RK3588: got nothing .*, expected a decoding power"):
        predicted_speeds(NPU, without)
    with pytest.raises(ValueError, match="idle power: got 50 W, expected less than"):
        predicted_speeds(PI, CATALOGUE, idle_w=50.0)


def test_given_figures_are_the_top_level():
    speeds = given_speeds(15.0, 20.0, 3.0)
    assert speeds.levels.tokens_s[-1] == pytest.approx(20)
    assert speeds.levels.core_w[-1] == pytest.approx(12)
    relative = speeds.levels.clock_hz[0] / speeds.levels.clock_hz[-1]
    assert speeds.levels.core_w[0] == pytest.approx(12 * relative**EXPONENT)


def device(point=PI, cooling="heatsink", wh=56):
    speeds = predicted_speeds(point, CATALOGUE, rule=RULES[point.board])
    pack = battery.pack_of_energy(CELLS["molicel-p42a"], wh * 3600, 3)
    return device_of(speeds, COOLING[cooling], RULES[point.board], battery=pack), speeds


def test_intervals_hold_their_median_and_come_from_power_and_speed():
    made, speeds = device()
    run, results = simulate_with_interval(made, speeds, np.ones(18000), 0.1, 35.0)
    for output in results.values():
        assert output.q05 <= output.median <= output.q95
    assert results["hours_per_charge"].median == run.hours_per_charge
    assert results["hours_per_charge"].q05 < results["hours_per_charge"].median < results["hours_per_charge"].q95
    ratio = results["sustained_tokens_s"].q95 / results["sustained_tokens_s"].median
    assert ratio >= np.exp(1.6448 * speeds.decode_log_sd) * 0.999


def test_better_cooling_holds_the_speed_longer():
    after = []
    for cooling in ("bare", "heatsink", "fan"):
        made, speeds = device(cooling=cooling)
        run, _ = simulate_with_interval(made, replace(speeds, power_log_sd=0.0), np.ones(36000), 0.1, 40.0)
        after.append(np.inf if isinstance(run.throttled_after_s, Absent) else run.throttled_after_s)
    assert after[0] < after[1] < after[2]


def test_hot_room_shortens_and_battery_energy_lengthens():
    small, _ = device(wh=20)
    large, _ = device(wh=40)
    load = cosim.load_of_phases([1.0], [1.0], 7200.0, 0.1)
    hours = [cosim.simulate(d, load, 0.1, 25.0).hours_per_charge for d in (small, large)]
    assert hours[1] > 2 * hours[0]  # half the current a cell: less is lost
