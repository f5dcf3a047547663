"""Every form of tegrastats: exact values, absent ones as NaN, nothing lost, nothing made up."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import tegrastats
from tests.app.agent.sensors.parsed import MIB, SENSORS, unknown, values

WORD = re.compile(r"[^\s,\[\]]+")
LINES = (SENSORS / "tegrastats.txt").read_text().splitlines()
NANO, TX2, XAVIER, ORIN_NX, AGX_ORIN, THOR = (tegrastats.parse(line) for line in LINES)


def test_jetpack_4_has_no_date_and_rails_without_unit():
    found = values(NANO)
    assert found["ram.used_byte"] == 512 * MIB
    assert found["ram.largest_free_block_byte"] == 4 * MIB
    assert found["ram.n_largest_free_blocks"] == 700
    assert found["swap.cached_byte"] == 3 * MIB
    assert found["iram.largest_free_block_byte"] == 252 * 1024
    assert found["pom_5v_in.power_w"] == pytest.approx(4.21)
    assert found["pom_5v_cpu.power_w"] == pytest.approx(0.61)
    assert found["gpu.busy_frac"] == 0.76
    assert found["gpu.clock_hz"] == 921e6
    assert found["nvenc.clock_hz"] == 716e6
    assert (found["mts_fg.busy_frac"], found["mts_bg.busy_frac"]) == (0.01, 0.02)
    assert NANO.notes == []


def test_an_unplugged_core_is_nan_and_keeps_its_column():
    assert unknown(NANO, "cpu1.busy_frac", "cpu2.clock_hz")
    assert values(NANO)["cpu3.busy_frac"] == 0.09
    assert values(NANO)["cpu3.clock_hz"] == 1428e6
    assert unknown(THOR, "cpu2.busy_frac")
    assert values(THOR)["cpu3.busy_frac"] == 0.03  # the form [p%,off]@f
    assert values(THOR)["cpu.clock_hz"] == 2601e6


def test_the_load_of_the_memory_without_root_is_unknown_not_zero():
    assert unknown(TX2, "emc.busy_frac")
    assert values(NANO)["emc.busy_frac"] == 0.11
    assert values(tegrastats.parse("EMC_FREQ 0%@2133"))["emc.busy_frac"] == 0  # root prints the clock
    assert "emc.busy_frac" not in THOR.values  # a clock alone is no load
    assert values(THOR)["emc.clock_hz"] == 4266e6


def test_temperatures_of_powered_off_blocks_and_of_the_constant_pmic_are_nan():
    assert unknown(XAVIER, "gpu.temp_c")
    assert unknown(AGX_ORIN, "gpu.temp_c", "gpu.max_temp_c")
    assert unknown(NANO, "pmic.temp_c")
    assert values(TX2)["tdiode.temp_c"] == 38.25
    assert (values(THOR)["tj.temp_c"], values(THOR)["tj.max_temp_c"]) == (43.0, 45.5)


def test_rails_give_now_in_every_form_and_stay_negative():
    assert values(ORIN_NX)["vdd_in.power_w"] == pytest.approx(14.21)  # not the mean since the start, 9.1
    assert values(AGX_ORIN)["vdd_gpu_soc.power_w"] == pytest.approx(3.12)
    assert values(THOR)["vdd_gpu.power_w"] == pytest.approx(-0.392)
    assert values(THOR)["vin.power_w"] == pytest.approx(16.25)
    assert values(XAVIER)["sys5v.power_w"] == pytest.approx(1.98)


def test_engines_off_clock_lists_and_second_gpus():
    assert unknown(ORIN_NX, "nvenc.clock_hz", "pva0.clock_hz", "ofa.clock_hz")
    assert values(ORIN_NX)["gpu.clock_hz"] == 917e6
    assert [values(THOR)[f"gpu_gpc{i}.clock_hz"] for i in range(3)] == [1575e6] * 3
    assert "gpu.busy_frac" not in THOR.values
    assert values(THOR)["gpu2.busy_frac"] == 0
    assert values(AGX_ORIN)["nvenc0.clock_hz"] == 115e6


def test_what_is_not_known_is_kept_word_by_word():
    assert THOR.notes == ["XYZ_NEW", "@@7"]
    assert all(not other.notes for other in (NANO, TX2, XAVIER, ORIN_NX, AGX_ORIN))


@pytest.mark.parametrize("raw", ["GPU@41,5C", "VDD_IN 1,5/2,0", "GR3D_FREQ 1e9%", "cpu@nanC", "CPU [4,5%@1]"])
def test_a_comma_decimal_is_not_read_as_another_number(raw):
    found = tegrastats.parse(raw)
    assert all(math.isnan(reading.value) for reading in found.values.values())
    assert found.notes


@pytest.mark.parametrize("line", LINES)
def test_every_word_of_a_line_is_in_a_field_or_a_note(line):
    parsed = tegrastats.parse(line)
    kept = WORD.findall(" ".join([*(reading.raw for reading in parsed.values.values()), *parsed.notes]))
    without_date = line[20:] if line[2] == "-" else line
    assert set(WORD.findall(without_date)) - {"CPU"} <= set(kept)


names = st.sampled_from(["VDD_IN", "VDD_SOC", "CPU", "GPU", "VIN_SYS_5V0", "new_rail"])
whole = st.integers(0, 99_999)


@given(
    rails=st.dictionaries(names, st.tuples(st.integers(-9_999, 99_999), whole, whole), max_size=4),
    form=st.sampled_from(["{0}/{1}", "{0}mW/{1}mW", "{0}mW/{1}mW/{2}mW"]),
    temps=st.dictionaries(st.sampled_from(["cpu", "GPU", "tj", "SOC0"]), st.integers(-200_000, 150_000), max_size=4),
    cores=st.lists(st.none() | st.tuples(st.integers(0, 100), st.integers(1, 4000)), min_size=1, max_size=14),
    ram=st.tuples(whole, whole),
)
def test_a_line_of_known_fields_gives_them_back(rails, form, temps, cores, ram):
    words = [f"RAM {ram[0]}/{ram[1]}MB (lfb 1x4MB)"]
    words.append("CPU [" + ",".join("off" if core is None else f"{core[0]}%@{core[1]}" for core in cores) + "]")
    words += [f"{name}@{milli / 1000:.3f}C" for name, milli in temps.items()]
    words += [f"{name} {form.format(*numbers)}" for name, numbers in rails.items()]
    parsed = tegrastats.parse(" ".join(words) + "\n")
    assert parsed.notes == []
    assert values(parsed)["ram.total_byte"] == ram[1] * MIB
    for name, (now, *_) in rails.items():
        assert values(parsed)[f"{name.lower()}.power_w"] == pytest.approx(now / 1000)
    for name, milli in temps.items():
        value = values(parsed)[f"{name.lower()}.temp_c"]
        assert math.isnan(value) if milli < -55_000 else value == pytest.approx(milli / 1000)
    for i, core in enumerate(cores):
        value = values(parsed)[f"cpu{i}.busy_frac"]
        assert math.isnan(value) if core is None else value == core[0] / 100


def test_tegrastats_of_jetpack_7():
    line = "GR3D_FREQ 7%@[1300,1290] NVENC0 off gpu@62.9C/98C VDD_GPU 3100mW/3100mW/3300mW VIN 31000mW/30900mW/31500mW"
    parsed = tegrastats.parse(line)
    found = values(parsed)
    assert (found["gpu.busy_frac"], found["gpu_gpc1.clock_hz"], found["gpu.temp_c"]) == (0.07, 1290e6, 62.9)
    assert (found["vdd_gpu.power_w"], found["vin.power_w"]) == (3.1, 31)
    assert parsed.notes == []
