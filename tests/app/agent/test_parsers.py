"""What the tools print, in every form met: exact values, absent ones as NaN, nothing lost, nothing made up, in time.

The texts in tests/data/sensors are written in the tools' formats. The random damage is tests/app/mutate_parsers.py.
"""

import json
import math
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import cnmon, devfreq, horizon, npu_smi, nvidia, pi, powermetrics, rknpu, tegrastats
from app.agent.sensors.adreno import parse_busy, parse_percent
from app.agent.sensors.reading import MAX_FIELDS, MAX_NOTE_CHAR, MAX_NOTES, Parsed, number
from tests.places import DATA, ROOT

SENSORS = DATA / "sensors"
MIB = 1024.0**2
WORD = re.compile(r"[^\s,\[\]]+")
LINES = (SENSORS / "tegrastats.txt").read_text().splitlines()
NANO, TX2, XAVIER, ORIN_NX, AGX_ORIN, THOR = (tegrastats.parse(line) for line in LINES)


def values(parsed):
    return {key: reading.value for key, reading in parsed.values.items()}


def unknown(parsed, *keys):
    return all(math.isnan(parsed.values[key].value) for key in keys)


# ---- tegrastats


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


@given(st.dictionaries(st.integers(0, 15), st.integers(0, 40_000), min_size=1, max_size=8))
def test_loads_of_any_number_of_npu_cores_come_back(loads):
    line = "NPU load:  " + "".join(f"Core{core}: {load:2d}%, " for core, load in loads.items())
    parsed = rknpu.parse(line + "\n")
    assert values(parsed) == {f"rknpu.core{core}.busy_frac": min(load / 100, 1.0) for core, load in loads.items()}
    assert len(parsed.notes) == sum(load > 100 for load in loads.values())


micro = st.integers(0, 5_000_000).map(lambda n: n / 1e6)


@given(
    st.dictionaries(st.sampled_from(["3V7_WL_SW", "VDD_CORE", "1V8_SYS", "HDMI"]), st.tuples(micro, micro), min_size=1)
)
def test_power_of_any_rails_of_the_pi_comes_back(rails):
    lines = [f"  {name}_A current({i})={ampere:.8f}A" for i, (name, (ampere, _)) in enumerate(rails.items())]
    lines += [f"  {name}_V volt({i})={volt:.8f}V" for i, (name, (_, volt)) in enumerate(rails.items())]
    parsed = pi.parse_pmic("\n".join(lines))
    total = sum(ampere * volt for ampere, volt in rails.values())
    assert values(parsed)["board.power_w"] == pytest.approx(1.1451 * total + 0.5879)
    assert parsed.notes == []


chips = st.tuples(st.integers(0, 9999) | st.none(), st.integers(-40, 150), st.integers(0, 100), st.integers(1, 65536))


@given(st.dictionaries(st.tuples(st.integers(0, 64), st.integers(0, 1)), chips, min_size=1, max_size=6))
def test_a_table_of_any_npus_comes_back(table):
    lines = []
    for (npu, chip), (deciwatt, temp, load, total) in table.items():
        power = "NA" if deciwatt is None else f"{deciwatt / 10:.1f}"
        lines.append(f"| {npu:<7} 310P3                 | OK              | {power:<12} {temp:<17} 0     / 0 |")
        lines.append(f"| {chip:<7} {chip}                     | 0000:82:00.0    | {load:<12} 7 / {total} |")
        lines.append("+" + "=" * 60 + "+")
    parsed = npu_smi.parse("\n".join(lines))
    for (npu, chip), (deciwatt, temp, load, total) in table.items():
        name = f"npu{npu}_{chip}"
        assert values(parsed)[f"{name}.temp_c"] == temp
        assert values(parsed)[f"{name}.busy_frac"] == load / 100
        assert values(parsed)[f"{name}.memory.total_byte"] == total * MIB
        if deciwatt is None:
            assert f"{name}.power_w" in parsed.missing
        else:
            assert values(parsed)[f"{name}.power_w"] == pytest.approx(deciwatt / 10)


cells = st.lists(st.sampled_from(["[N/A]", "Not Supported", "12.5 W", "300 MHz", "7 %"]), min_size=2, max_size=2)


@given(st.permutations(["index", "power.draw.instant [W]", "utilization.gpu [%]"]), st.integers(0, 7), cells)
def test_nvidia_columns_in_any_order(header, index, given_cells):
    table = nvidia.Table()
    table.parse(", ".join(header))
    cell_of = dict(zip(("power.draw.instant [W]", "utilization.gpu [%]"), given_cells, strict=True))
    parsed = table.parse(", ".join(str(index) if name == "index" else cell_of[name] for name in header))
    for name, key in (("power.draw.instant [W]", "power_w"), ("utilization.gpu [%]", "busy_frac")):
        known = {**parsed.values, **parsed.missing}
        reading = known[f"gpu{index}.{key}"]
        assert reading.raw == cell_of[name]
        rightly = {"power_w": {"12.5 W": 12.5}, "busy_frac": {"7 %": 0.07}}[key].get(cell_of[name], math.nan)
        assert reading.value == pytest.approx(rightly, nan_ok=True)  # a clock is no power


# ---- tables


def test_nvidia_smi_by_its_header_with_units_and_leading_blanks():
    table = nvidia.Table()
    header, first, second, jetson, broken = (SENSORS / "nvidia.txt").read_text().splitlines()
    assert table.parse(header).values == {}
    found = values(table.parse(first))
    assert found["gpu0.power_w"] == 71.31
    assert found["gpu0.mean.power_w"] == found["gpu0.smoothed.power_w"] == 70.02
    assert found["gpu0.clock_hz"] == 1410e6
    assert found["gpu0.memory.used_byte"] == 4301 * MIB
    assert found["gpu0.temp_c"] == 41
    assert found["gpu0.busy_frac"] == 0.37
    old = table.parse(second)
    assert old.missing["gpu1.power_w"].raw == "[N/A]"
    assert values(old)["gpu1.smoothed.power_w"] == 12.9
    assert values(table.parse(jetson)) == {"gpu0.clock_hz": 306e6}
    assert not table.parse(jetson).notes
    assert table.parse(broken).notes == [broken]


def test_nvidia_smi_before_its_header_and_with_missing_columns_says_nothing():
    assert nvidia.Table().parse("0, 71.31 W").values == {}
    table = nvidia.Table()
    table.parse("index, power.draw [W]")
    assert table.parse("0, 71.31 W, 5").values == {}
    assert table.parse("0, 71,31 W").values == {}  # a comma decimal makes another column
    assert table.parse("x, 71.31 W").values == {}


def test_npu_smi_two_lines_a_chip():
    parsed = npu_smi.parse((SENSORS / "npu_smi.txt").read_text())
    found = values(parsed)
    assert found["npu0_0.power_w"] == 7.4
    assert found["npu0_0.busy_frac"] == 0.83
    assert found["npu0_0.memory.total_byte"] == 7545 * MIB
    assert unknown(parsed, "npu1_0.power_w")  # 0.0 with an alarm is no power
    assert {"npu32_0.power_w", "npu32_1.power_w"} <= set(parsed.missing)  # NA
    assert found["npu32_0.memory.used_byte"] == 19012 * MIB  # no blank before the stroke
    assert found["npu32_1.temp_c"] == 39  # the second chip of a card
    assert "npu5_0.memory.used_byte" in parsed.missing  # 0 / 0: it has none of that kind
    assert found["npu5_0.hbm.used_byte"] == 34110 * MIB
    assert parsed.notes == ["1 310B4 Alarm"]


NPU_26 = """
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                        |
| NPU   Name                | Health        | Power(W)             Temp(C)       Hugepages-Usage(page)   |
| Chip                      | Bus-Id        | AICore(%)            Memory-Usage(MB)  HBM-Usage(MB)       |
+===========================+===============+==========================================================+
| 0     Ascend910           | OK            | 161.0                33            0    / 0                |
| 0     0                   | 0000:9D:00.0  | 3                    0    / 0      3319 / 65536            |
| 0     Ascend910           | OK            | -                    31            0    / 0                |
| 1     1                   | 0000:9F:00.0  | 0                    0    / 0      2174 / 65536            |
+===========================+===============+==========================================================+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)  | Process id in co |
| 0       0                 | 4711          | python3            | 12417               | NA               |
"""


def test_npu_smi_26_with_two_chips_on_a_card_and_its_processes():
    parsed = npu_smi.parse(NPU_26)
    assert values(parsed)["npu0_0.power_w"] == 161
    assert "npu0_1.power_w" in parsed.missing  # the card's power is that of its first chip
    assert values(parsed)["npu0_1.hbm.used_byte"] == 2174 * MIB
    assert parsed.notes == []


def test_nvidia_smi_580_without_memory_of_its_own_or_rights():
    table = nvidia.Table()
    table.parse("index, power.draw.instant [W], clocks.current.sm [MHz], utilization.gpu [%], memory.used [MiB]")
    parsed = table.parse("0, 11.20 W, 2411 MHz, 96 %, [N/A]")
    assert values(parsed) == {"gpu0.power_w": 11.2, "gpu0.clock_hz": 2411e6, "gpu0.busy_frac": 0.96}
    parsed = table.parse(
        "1, 70.00 W, 1410 MHz, Requested functionality has been deprecated, [Insufficient Permissions]"
    )
    assert set(parsed.missing) == {"gpu1.busy_frac", "gpu1.memory.used_byte"}
    assert parsed.notes == []


def test_tegrastats_of_jetpack_7():
    line = "GR3D_FREQ 7%@[1300,1290] NVENC0 off gpu@62.9C/98C VDD_GPU 3100mW/3100mW/3300mW VIN 31000mW/30900mW/31500mW"
    parsed = tegrastats.parse(line)
    found = values(parsed)
    assert (found["gpu.busy_frac"], found["gpu_gpc1.clock_hz"], found["gpu.temp_c"]) == (0.07, 1290e6, 62.9)
    assert (found["vdd_gpu.power_w"], found["vin.power_w"]) == (3.1, 31)
    assert parsed.notes == []


def test_powermetrics_of_macos_26():
    parsed = powermetrics.parse(
        "M0-Cluster Online: 66%\nM0-Cluster down residency:   0.00%\nS-Cluster idle residency: .5%\n"
    )
    assert values(parsed) == {
        "m0_cluster_online.frac": 0.66,
        "m0_cluster_down_residency.frac": 0,
        "s_cluster_idle_residency.frac": 0.005,
    }


def test_cnmon_of_both_versions():
    parsed = cnmon.parse((SENSORS / "cnmon.txt").read_text())
    found = values(parsed)
    assert found["mlu0.power_w"] == 143
    assert found["mlu0.busy_frac"] == 0.64
    assert found["mlu0.memory.used_byte"] == 9120 * MIB
    assert (found["mlu1.power_w"], found["mlu1.cap_w"]) == (29, 150)
    assert unknown(parsed, "mlu1.memory.total_byte", "mlu1.fan_frac")  # masked, N/A
    assert parsed.notes == []


def test_half_a_table_gives_the_whole_chips_only():
    text = (SENSORS / "npu_smi.txt").read_text()
    cut = npu_smi.parse(text[: text.index("| 0       0  ") + 20])
    assert cut.values == {}
    text = (SENSORS / "cnmon.txt").read_text()
    assert set(values(cnmon.parse(text[: text.index("| 1     /")]))) == {
        key for key in values(cnmon.parse(text)) if key.startswith("mlu0")
    }


def test_horizon_in_megahertz_with_the_broken_echo_and_in_kilohertz():
    parsed = horizon.parse((SENSORS / "horizon.txt").read_text())
    found = values(parsed)
    assert found["bpu.temp_c"] == 50.7
    assert found["vdd_cpu.voltage_v"] == pytest.approx(0.781)
    assert found["cpu0.clock_hz"] == 1200e6
    assert found["bpu0.busy_frac"] == 0.63
    assert found["ddr.clock_hz"] == 4266e6
    assert found["policy0.clock_hz"] == 1500e6  # kHz on this board
    assert found["bpu1.busy_frac"] == 0.17
    assert parsed.notes == ["FAKE     : 100.0 (mV)"]


def test_powermetrics_keeps_both_gpu_values_apart():
    parsed = powermetrics.parse((SENSORS / "powermetrics.txt").read_text())
    found = values(parsed)
    assert found["gpu.power_w"] == pytest.approx(0.034)
    assert found["gpu_own.power_w"] == pytest.approx(0.031)
    assert found["combined.power_w"] == pytest.approx(0.945)
    assert found["intel_energy_model_derived_package.power_w"] == 2.65
    assert found["cpu_0.clock_hz"] == 1201e6
    assert parsed.notes == ["Current pressure level: Nominal"]
    assert "combined.power_w" not in powermetrics.parse("CPU Power: 12 mW\n").values  # older releases


# ---- Raspberry Pi, Rockchip, devfreq, Adreno


def test_the_pis_power_is_the_sum_over_its_rails_by_the_published_formula():
    parsed = pi.parse_pmic((SENSORS / "pmic.txt").read_text())
    found = values(parsed)
    rails_w = 0.081 * 3.7 + 0.05 * 3.3 + 1.25 * 0.72
    assert found["vdd_core.power_w"] == pytest.approx(0.9)
    assert found["board.power_w"] == pytest.approx(1.1451 * rails_w + 0.5879)
    assert "ext5v.power_w" not in found  # a voltage alone; its name holds a number and a V
    assert found["ext5v.voltage_v"] == 5.1


def test_the_pis_power_with_a_rail_missing_is_nan_not_less():
    text = (SENSORS / "pmic.txt").read_text().replace("VDD_CORE_V", "VDD_CORE_X")
    assert unknown(pi.parse_pmic(text), "board.power_w", "vdd_core.power_w")


def test_throttle_bits_now_and_latched():
    calm, both, temp, bare = (
        values(pi.parse_throttled(line)) for line in (SENSORS / "throttled.txt").read_text().splitlines()
    )
    assert not any(calm.values())
    assert both["throttle.under_voltage"] == both["throttle.under_voltage_latched"] == 1
    assert both["throttle.throttled"] == both["throttle.throttled_latched"] == 1
    assert both["throttle.clock_capped"] == 0
    assert temp["throttle.soft_temp_limit"] == temp["throttle.soft_temp_limit_latched"] == 1
    assert bare["throttle.clock_capped_latched"] == 1  # the kernel's file has no prefix
    assert pi.parse_throttled("throttled=0x100").notes == ["throttle bits 0x100"]
    assert pi.parse_throttled("VCHI initialization failed").values == {}


def test_rknpu_in_three_forms_with_clamped_loads():
    three, one, other, over, two = (rknpu.parse(line) for line in (SENSORS / "rknpu.txt").read_text().splitlines())
    assert values(three) == {"rknpu.core0.busy_frac": 0.41, "rknpu.core1.busy_frac": 0.07, "rknpu.core2.busy_frac": 0.0}
    assert values(one) == {"rknpu.busy_frac": 0.52}
    assert values(other)["rknpu.core2.busy_frac"] == 1.0
    assert values(over) == {"rknpu.busy_frac": 1.0}
    assert "above 100 %" in over.notes[0]
    assert set(values(two)) == {"rknpu.core0.busy_frac", "rknpu.core1.busy_frac"}
    assert [found.notes for found in (three, one, other, two)] == [[], [], [], []]


@pytest.mark.parametrize(
    ("raw", "per_mille", "load", "clock"),
    [
        ("33@528000000Hz\n", False, 0.33, 528e6),
        ("0@0Hz", False, 0.0, 0.0),
        ("345\n", True, 0.345, None),
        ("100%", False, 1.0, None),
        ("130@1Hz", False, math.nan, 1.0),
    ],
)
def test_devfreq_loads(raw, per_mille, load, clock):
    found = values(devfreq.parse_load(raw, per_mille))
    assert found["busy_frac"] == pytest.approx(load, nan_ok=True)
    assert found.get("clock_hz") == clock


@pytest.mark.parametrize("raw", ["", "\0", "12,5", "-3", "33@x", "33 @528Hz", "Operation not permitted"])
def test_devfreq_loads_that_are_none(raw):
    assert values(devfreq.parse_load(raw)) == {}


def test_devfreq_devices_are_known_without_their_address():
    subjects = {name: devfreq.subject(name) for name in ("fdab0000.npu", "17000000.ga10b", "dmc", "gpu-gpc-0", "bwmgr")}
    assert subjects == {
        "fdab0000.npu": "npu",
        "17000000.ga10b": "gpu",
        "dmc": "dram",
        "gpu-gpc-0": "gpu_gpc_0",
        "bwmgr": "dram",
    }


def test_adreno_files():
    assert parse_busy(b"  12000   48000\n") == 0.25
    assert math.isnan(parse_busy(b"0 0\n"))  # it watched for no time
    assert math.isnan(parse_busy(b"5 3"))
    assert parse_percent(b"12 %\n") == 0.12
    assert math.isnan(parse_percent(b"300"))


# ---- all of them


def nvidia_lines(text):
    return nvidia.Table().parse(text)


PARSERS = {
    "tegrastats": tegrastats.parse,
    "nvidia": nvidia_lines,
    "npu_smi": npu_smi.parse,
    "cnmon": cnmon.parse,
    "horizon": horizon.parse,
    "powermetrics": powermetrics.parse,
    "pmic": pi.parse_pmic,
    "throttled": pi.parse_throttled,
    "rknpu": rknpu.parse,
    "devfreq": devfreq.parse_load,
}


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=400))
def test_any_text_is_survived(name, text):
    parsed = PARSERS[name](text)
    assert all(reading.raw for reading in parsed.values.values())
    assert len(parsed.notes) <= MAX_NOTES


JUNK = [
    "a b ",
    "x",
    "[1,",
    "0%@1,",
    "a@1C/",
    "RAM 1/",
    " ",
    "VDD_IN 1/2 ",
    "1 | ",
    "\n",
    "| 0 ",
    "A Power: 1 mW\n",
    ": ",
]


@pytest.mark.parametrize("name", PARSERS)
def test_64_kib_take_at_most_5_ms(name):
    sound = (SENSORS / f"{name}.txt").read_text()
    for junk in [*JUNK, sound, sound.replace("\n", " ")]:
        text = (junk * (1 + 65536 // len(junk)))[:65536]
        took = []
        for _ in range(7):
            began_s = time.thread_time()
            PARSERS[name](text)
            took.append(time.thread_time() - began_s)
        assert min(took) <= 5e-3, (name, junk[:20])


def test_damaged_outputs_raise_nothing_and_invent_nothing():
    argv = [sys.executable, str(ROOT / "tests" / "app" / "mutate_parsers.py"), "--n", "20000"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(PARSERS)
    assert all(result["n_fields"] > 500 for result in found.values())  # the damage leaves something to find


def test_a_text_is_cut_not_lost():
    parsed = Parsed()
    for i in range(3 * MAX_FIELDS):
        parsed.add(f"a{i}", 1.0, "1", str(i))
        parsed.note(f"note {i}")
    assert len(parsed.values) == MAX_FIELDS
    assert len(parsed.notes) == MAX_NOTES
    assert all(len(note) <= MAX_NOTE_CHAR for note in parsed.notes)


def test_a_second_value_of_a_field_is_a_note():
    parsed = tegrastats.parse("GPU@40C GPU@41C")
    assert values(parsed) == {"gpu.temp_c": 40.0}
    assert parsed.notes == ["GPU@41C"]


@pytest.mark.parametrize("raw", ["", "1,5", "0x10", "1e3", "nan", "inf", "٣", "1_0", " 1", "[N/A]", "9" * 16])
def test_only_plain_decimals_are_numbers(raw):
    assert math.isnan(number(raw))
    assert number("-0.5") == -0.5
