"""Power among many channels: never crowded out; what is dropped is counted."""

import json

import pytest

from app.agent.energy import EnergyMeter
from app.agent.power import total_power
from app.agent.sampler import Sampler
from app.agent.sensors import MAX_CHANNELS, discover, npu_smi, nvidia, reading
from app.agent.sensors.reading import MAX_FIELDS, Parsed, importance
from app.protocol import CONTROL, MAX_BODY_BYTE
from tests.app.agent.board_trees import PROC, build, hwmon, script
from tests.app.agent.power_boards import JETSON, absent_of, mac, mac_of, total_of, values_of
from tests.app.agent.sensors.machine_tree import rapl, zone
from tests.waiting import wait_until


@pytest.mark.parametrize("n_cores", [8, 24, 28, 32, 64, 128])
def test_a_mac_with_many_cores_has_its_power(tmp_path, monkeypatch, n_cores):
    with mac_of(tmp_path, monkeypatch, mac(n_cores)) as sensed:
        found = values_of(sensed)
        assert total_of(sensed)[0] == ["powermetrics.combined.power_w"]
        assert found["powermetrics.combined.power_w"] == pytest.approx(76.2)
        assert found["powermetrics.cpu.power_w"] == pytest.approx(15.2)
        assert found["powermetrics.gpu_own.power_w"] == pytest.approx(60.99)
        if n_cores <= 64:
            assert found[f"powermetrics.cpu_{n_cores - 1}.clock_hz"] == (1899 + n_cores) * 1e6
        left = absent_of(sensed).get("powermetrics.left_out", "")
        assert ("values are left out" in left) == (n_cores >= 32)
        cores = [channel.key for channel in sensed.channels if "residency" in channel.key and ".cpu_" in channel.key]
        assert len(cores) % n_cores == 0  # of each quantity all cores or none


def test_what_is_left_out_is_counted(tmp_path, monkeypatch):
    with mac_of(tmp_path, monkeypatch, mac(64)) as sensed:
        n_left = 64 * 4 + 16 * 5 + 7 - len(sensed.tools[0].channels)
        words = absent_of(sensed)["powermetrics.left_out"]
        assert words.startswith(f"{n_left} values are left out")
        assert "64 of cpu_N_down_residency.frac" in words


def test_lines_that_nobody_understands_do_not_take_the_place_of_power(tmp_path, monkeypatch):
    sample = mac(32, more=("instructions retired: 5.66564e+07", "instructions per clock: 0.99 x", "unknown thing"))
    with mac_of(tmp_path, monkeypatch, sample) as sensed:
        assert total_of(sensed)[0] == ["powermetrics.combined.power_w"]


def test_macos_12_has_its_package_for_the_whole(tmp_path, monkeypatch):
    powers = "ANE Power: 0 mW\nDRAM Power: 340 mW\nCPU Power: 1520 mW\nGPU Power: 34 mW\nPackage Power: 2012 mW\n"
    with mac_of(tmp_path, monkeypatch, mac(8, powers)) as sensed:
        assert total_of(sensed)[0] == ["powermetrics.package.power_w"]
        assert values_of(sensed)["powermetrics.package.power_w"] == pytest.approx(2.012)
        parts = {channel.key: channel.part_of for channel in sensed.channels}
        assert parts["powermetrics.dram.power_w"] == "powermetrics.package.power_w"


def test_a_mac_that_prints_no_sum_has_that_of_its_parts(tmp_path, monkeypatch):
    with mac_of(tmp_path, monkeypatch, mac(8, "CPU Power: 1520 mW\nGPU Power: 34 mW\nANE Power: 6 mW\n")) as sensed:
        keys, words = total_of(sensed)
        assert keys == [f"powermetrics.{name}.power_w" for name in ("cpu", "gpu", "ane")]
        assert sum(values_of(sensed)[key] for key in keys) == pytest.approx(1.56)
        assert words.startswith("cpu + gpu + ane")


def test_tegrastats_with_many_cores_and_rails_has_them_all(board):
    cores = ",".join(f"{i % 100}%@{1000 + i}" for i in range(120))
    rails = " ".join(f"VDD_R{i} {100 + i}mW/{100 + i}mW" for i in range(60))
    line = f"RAM 1/2MB (lfb 5x4MB) CPU [{cores}] cpu@50C gpu@51.5C VDD_IN 9000mW/9000mW {rails}"
    found = values_of(sensed := board({**JETSON, "usr/bin/tegrastats": script(line, 0.05)}))
    assert found["tegrastats.vdd_in.power_w"] == 9
    assert [found[f"tegrastats.vdd_r{i}.power_w"] for i in range(60)] == pytest.approx(
        [0.1 + i / 1e3 for i in range(60)]
    )
    assert found["tegrastats.gpu.temp_c"] == 51.5
    assert "120 of cpuN.busy_frac" in absent_of(sensed)["tegrastats.left_out"]


def test_32_graphics_cards_have_their_power_and_temperature(board):
    header = ", ".join(f"{name} [x]" if name != "index" else name for name in nvidia.FIELDS)
    card = "{}, {}.5 W, 70 W, 71 W, 1200 MHz, 800 MHz, 50 %, 20 %, 100 MiB, 200 MiB, {}"
    rows = "\n".join(card.format(i, 100 + i, 30 + i) for i in range(32))
    sensed = board({**PROC, "usr/bin/nvidia-smi": script(f"{header}\n{rows}", 0.05)})
    wait_until(lambda: "31.temp_c" in str(sensed.tools[0].feed.columns))
    sensed.tools[0].refresh()
    found = values_of(sensed)
    assert [found[f"nvidia.gpu{i}.power_w"] for i in range(32)] == [100.5 + i for i in range(32)]
    assert [found[f"nvidia.gpu{i}.temp_c"] for i in range(32)] == [30 + i for i in range(32)]
    assert "left out" in absent_of(sensed)["nvidia.left_out"]


def test_64_npus_have_their_power(board):
    chip = (
        "| {0:<5} 910B4 | OK | {1:<6} 33  0 / 0 |\n| 0 | 0000:C1:00.0 | 12 0 / 0 3197 / 65536 |\n"
        "+===========================+\n"
    )
    table = "| npu-smi 25.2.0 Version: 25.2.0 |\n" + "".join(chip.format(i, 90.5 + i) for i in range(64))
    parsed = npu_smi.parse(table)
    assert all(parsed.values[f"npu{i}_0.power_w"].value == 90.5 + i for i in range(64))
    sensed = board({**PROC, "dev/davinci0": "", "usr/local/bin/npu-smi": script(table)})
    found = values_of(sensed)
    assert [found[f"npu_smi.npu{i}_0.power_w"] for i in range(64)] == [90.5 + i for i in range(64)]
    assert [found[f"npu_smi.npu{i}_0.temp_c"] for i in range(64)] == [33] * 64


def test_hundreds_of_clocks_and_zones_leave_the_power_and_fit_into_one_message(tmp_path):
    contents = dict(PROC)
    for i in range(512):
        folder = f"sys/devices/system/cpu/cpufreq/policy{i}"
        contents |= {f"{folder}/related_cpus": f"{i}\n", f"{folder}/scaling_cur_freq": "2400000\n"}
    for i in range(200):
        contents |= zone(i, f"zone-{i}", "45000\n")
    for i in range(8):
        contents |= rapl(f"{i}", f"package-{i}", 1) | rapl(f"{i}:0", "dram", 1)
    sensors, missing = discover(build(tmp_path, contents))
    channels = [channel for sensor in sensors for channel in sensor.channels]
    assert len(channels) <= MAX_CHANNELS
    assert sum(channel.unit == "W" for channel in channels) == 16
    assert sum(channel.unit == "degC" for channel in channels) == 200
    assert len(total_power(channels)[0]) == 16
    (left,) = [channel.absent for channel in missing if channel.key == "left_out"]
    n_left = 512 + 200 + 16 + 4 - len(channels)
    assert left.startswith(f"{n_left} values are left out")
    sent = []
    outbox = type("Sent", (), {"send_layout": sent.append, "set_max_records": lambda self, n: None})()
    Sampler(sensors, missing, outbox, EnergyMeter()).publish_catalogue()
    assert len(json.dumps(sent[0])) < MAX_BODY_BYTE[CONTROL]


@pytest.mark.parametrize(
    ("key", "unit", "rank"),
    [
        ("combined.power_w", "W", reading.POWER),
        ("mlu0.cap_w", "W", reading.OTHER),  # a limit, no power
        ("gpu.temp_c", "degC", reading.HEAT_AND_CLOCK),
        ("cpu31.clock_hz", "Hz", reading.CORE_CLOCK),
        ("cpu_31_idle_residency.frac", "frac", reading.CORE),
        ("coretemp.core_3.temp_c", "degC", reading.CORE),
        ("cpu.clock_hz", "Hz", reading.HEAT_AND_CLOCK),
        ("rknpu.core0.busy_frac", "frac", reading.OTHER),
        ("memory.available_byte", "byte", reading.HEAT_AND_CLOCK),
    ],
)
def test_what_matters_most(key, unit, rank):
    assert importance(key, unit) == rank


def test_power_that_comes_after_more_fields_than_are_kept_is_read():
    parsed = Parsed()
    for i in range(2 * MAX_FIELDS):
        parsed.add(f"cpu{i}.busy_frac", 0.5, "frac", "50%")
    parsed.add("vdd_in.power_w", 5.0, "W", "5000")
    assert parsed.values["vdd_in.power_w"].value == 5
    assert len(parsed.left_out) == 2 * MAX_FIELDS - int(0.875 * MAX_FIELDS)
    assert parsed.notes == []


def test_hundreds_of_zones_leave_the_load_and_the_memory_of_the_machine(tmp_path):
    zones = {name: value for i in range(500) for name, value in zone(i, f"zone-{i}", "45000\n").items()}
    power = hwmon(9, "ina226", power1_input=5000000, curr1_input=1, in1_input=5000)
    sensors, _ = discover(build(tmp_path, {**PROC, **zones, **power}))
    keys = {channel.key for sensor in sensors for channel in sensor.channels}
    assert {"cpu.busy_frac", "memory.available_byte", "ina226.power1.power_w"} <= keys
