"""Sensors over made-up trees: each file in SI, or absent and why. Each trap here broke a popular tool."""

import errno
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent import files
from app.agent.board import describe, n_big_cores
from app.agent.channel import Channel
from app.agent.files import KernelFile, parse_int, text
from app.agent.power import total_power
from app.agent.sensor_columns import ChangeCounter
from app.agent.sensors import discover
from app.agent.sensors.proc import CpuTimes, Load, MemoryAvailable
from app.agent.sensors.rapl import EnergyCounter

SECOND = 10**9
RAPL_RANGE_UJ = 262143328850
STAT = "cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"


def tree(root, contents):
    """Write a made-up file system."""
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return root


def rapl(number, name, energy_uj, range_uj=RAPL_RANGE_UJ):
    folder = f"sys/class/powercap/intel-rapl:{number}"
    return {f"{folder}/name": f"{name}\n", f"{folder}/energy_uj": energy_uj, f"{folder}/max_energy_range_uj": range_uj}


def zone(number, kind, temp):
    folder = f"sys/class/thermal/thermal_zone{number}"
    return {f"{folder}/type": kind, f"{folder}/temp": temp}


PC = {
    "proc/stat": STAT.format(user=100, idle=900, steal=0),
    "proc/meminfo": "MemTotal:       16000000 kB\nMemFree:         1000 kB\nMemAvailable:    8000000 kB\n",
    "proc/loadavg": "0.42 0.50 0.60 2/345 6789\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "2400000\n",
    "sys/devices/system/cpu/cpufreq/policy0/related_cpus": "0 1 2 3\n",
    "sys/devices/system/cpu/cpufreq/policy4/scaling_cur_freq": "1800000\n",
    "sys/devices/system/cpu/cpufreq/policy4/related_cpus": "4 5\n",
    **zone(0, "acpitz\n", "27800\n"),
    **zone(7, "x86_pkg_temp\n", "61000\n"),
    "sys/class/hwmon/hwmon3/name": "k10temp\n",
    "sys/class/hwmon/hwmon3/temp1_input": "64500\n",
    "sys/class/hwmon/hwmon3/temp1_label": "Tctl\n",
    "sys/class/hwmon/hwmon5/name": "amdgpu\n",
    "sys/class/hwmon/hwmon5/power1_input": "7500000\n",
    "sys/class/hwmon/hwmon5/power1_label": "PPT\n",
    **rapl("0", "package-0", 1_000_000),
    **rapl("0:0", "core", 500_000),
}


def read_all(root, t_ns=0):
    sensors, _ = discover(root)
    return {
        channel.key: value
        for sensor in sensors
        for channel, value in zip(sensor.channels, sensor.read(t_ns), strict=True)
    }


def absent(root):
    return {channel.key: channel.absent for channel in discover(root)[1]}


def test_a_whole_pc_in_si(tmp_path):
    values = read_all(tree(tmp_path, PC))
    assert values["cpu0.clock_hz"] == 2.4e9
    assert values["cpu4.clock_hz"] == 1.8e9
    assert values["memory.available_byte"] == 8_000_000 * 1024
    assert values["cpu.load_1min"] == 0.42
    assert values["acpitz.temp_c"] == pytest.approx(27.8)
    assert values["package.temp_c"] == 61
    assert values["k10temp.tctl.temp_c"] == 64.5
    assert values["amdgpu.ppt.power_w"] == 7.5
    assert set(values) == {
        *("cpu0.clock_hz", "cpu4.clock_hz", "memory.available_byte", "cpu.load_1min", "cpu.busy_frac"),
        *("cpu.steal_frac", "acpitz.temp_c", "package.temp_c", "k10temp.tctl.temp_c", "amdgpu.ppt.power_w"),
        *("package.power_w", "core.power_w"),
    }
    assert absent(tmp_path) == {}


def test_every_channel_has_unit_and_source_and_a_key_of_its_own(tmp_path):
    sensors, missing = discover(tree(tmp_path, PC))
    channels = [channel for sensor in sensors for channel in sensor.channels]
    assert len({channel.key for channel in channels}) == len(channels)
    assert all(channel.unit and str(tmp_path) in channel.source and not channel.absent for channel in channels)
    assert not missing


def test_an_empty_machine_says_why_for_each_family_and_senses_nothing(tmp_path):
    sensors, missing = discover(tmp_path)
    assert sensors == []
    reasons = {channel.key: channel.absent for channel in missing}
    assert set(reasons) == {
        *("cpu.clock_hz", "cpu.busy_frac", "memory.available_byte", "cpu.load_1min", "package.temp_c", "board.power_w")
    }
    assert reasons["board.power_w"].startswith("no power sensor on this machine")
    assert "No such file" in reasons["cpu.busy_frac"]


def test_a_virtual_machine_is_told_why_it_has_no_power(tmp_path):
    tree(tmp_path, {"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor avx2\n"})
    assert "its host keeps the energy counters" in absent(tmp_path)["board.power_w"]


def test_root_only_files_are_absent_with_the_rule_that_opens_them(tmp_path, monkeypatch):
    real_open = os.open

    def refuse(path, *args):
        if str(path).endswith("energy_uj"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_open(path, *args)

    monkeypatch.setattr(files.os, "open", refuse)
    tree(tmp_path, {key: value for key, value in PC.items() if "hwmon5" not in key})
    reasons = absent(tmp_path)
    for key in ("package.power_w", "core.power_w", "board.power_w"):
        assert reasons[key].startswith("needs root: ")
        assert "energy_uj" in reasons[key]
        assert 'SUBSYSTEM=="powercap"' in reasons[key]
    assert not any(key.endswith("power_w") for key in read_all(tmp_path))


def counter(tmp_path, energy_uj, range_uj=RAPL_RANGE_UJ):
    path = tmp_path / "energy_uj"
    path.write_text(str(energy_uj))
    return path, EnergyCounter(Channel("package.power_w", "W", str(path)), KernelFile(path), range_uj)


def put(path, value):
    """Write in place: the sensor keeps its descriptor."""
    with path.open("r+") as file:
        file.truncate()
        file.write(str(value))


def test_power_is_the_slope_of_the_counter(tmp_path):
    path, sensor = counter(tmp_path, 1_000_000)
    assert math.isnan(sensor.read(0)[0])  # one reading has no slope
    put(path, 1_000_000 + 1_500_000)
    assert sensor.read(SECOND // 10)[0] == pytest.approx(15)


def test_a_counter_that_wraps_gives_the_true_power(tmp_path):
    path, sensor = counter(tmp_path, RAPL_RANGE_UJ - 400_000)
    sensor.read(0)
    put(path, 600_000)
    assert sensor.read(SECOND // 10)[0] == pytest.approx(10)


def test_each_domain_wraps_by_itself(tmp_path):
    tree(tmp_path, {**rapl("0", "package-0", RAPL_RANGE_UJ - 1), **rapl("0:2", "dram", 17515587911, 65712999613)})
    sensors, _ = discover(tmp_path)
    power = {sensor.channels[0].key: sensor for sensor in sensors}
    for sensor in power.values():
        sensor.read(0)
    put(tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj", 999_999)
    put(tmp_path / "sys/class/powercap/intel-rapl:0:2/energy_uj", 17515587911 + 200_000)
    assert power["package.power_w"].read(SECOND // 10)[0] == pytest.approx(10)
    assert power["dram.power_w"].read(SECOND // 10)[0] == pytest.approx(2)


def test_a_counter_reset_is_not_a_spike(tmp_path):
    path, sensor = counter(tmp_path, 17_515_587_911)
    sensor.read(0)
    put(path, 5_000)  # after suspend
    assert math.isnan(sensor.read(SECOND // 10)[0])
    put(path, 1_005_000)
    assert sensor.read(SECOND // 5)[0] == pytest.approx(10)


def test_a_wrap_without_a_known_range_is_not_guessed(tmp_path):
    path, sensor = counter(tmp_path, 1_000_000, range_uj=0)
    sensor.read(0)
    put(path, 100)
    assert math.isnan(sensor.read(SECOND // 10)[0])


def test_a_counter_that_stands_still_is_not_zero_watts(tmp_path):
    _, sensor = counter(tmp_path, 0)
    values = [sensor.read(i * SECOND // 10)[0] for i in range(30)]
    assert all(math.isnan(value) for value in values)


def test_reads_between_updates_repeat_the_last_power(tmp_path):
    path, sensor = counter(tmp_path, 0)
    sensor.read(0)
    put(path, 1_000_000)
    assert sensor.read(SECOND // 10)[0] == pytest.approx(10)
    assert sensor.read(SECOND // 10 + SECOND // 1000)[0] == pytest.approx(10)


@pytest.mark.parametrize("content", ["", "No data available", "-5", "1,5", "1.5", "0x10", "\0"])
def test_a_counter_that_is_no_number_is_nan(tmp_path, content):
    path, sensor = counter(tmp_path, 1_000)
    sensor.read(0)
    put(path, content)
    assert math.isnan(sensor.read(SECOND // 10)[0])


def test_memory_mapped_rapl_is_not_counted_twice(tmp_path):
    twin = {
        "sys/class/powercap/intel-rapl-mmio:0/name": "package-0\n",
        "sys/class/powercap/intel-rapl-mmio:0/energy_uj": "1",
    }
    tree(tmp_path, {**rapl("0", "package-0", 1), **twin})
    sensors, _ = discover(tmp_path)
    assert [sensor.channels[0].key for sensor in sensors] == ["package.power_w"]


def test_two_packages_have_two_keys(tmp_path):
    tree(tmp_path, {**rapl("0", "package-0", 1), **rapl("1", "package-1", 1)})
    sensors, _ = discover(tmp_path)
    channels = [sensor.channels[0] for sensor in sensors]
    assert [channel.key for channel in channels] == ["package.power_w", "package2.power_w"]
    assert total_power(channels)[0] == [0, 1]


TOTAL_OF = {"board": "input", "package": "disjoint", "dram": "disjoint", "battery": "flow"}


def power_channel(key, covers="x", why=""):
    return Channel(key, "W", "file", covers, why, total=TOTAL_OF.get(key.split(".")[0], ""))


def test_the_total_never_adds_a_rail_to_its_own_sum():
    package, core, dram = (power_channel(f"{name}.power_w", name) for name in ("package", "core", "dram"))
    board, battery = power_channel("board.power_w", "psys"), power_channel("battery.power_w", "flow")
    assert total_power([package, core, dram]) == ([0, 2], "package + dram")
    assert total_power([package, core, dram, board])[0] == [3]
    assert total_power([battery, package])[0] == [1]
    assert total_power([battery])[0] == [0]
    assert total_power([dram]) == ([], "the power sensors of this machine cover parts of the board only: dram")
    assert total_power([power_channel("board.power_w", why="needs root: x")]) == ([], "needs root: x")


@pytest.mark.parametrize(
    ("temp", "expected"),
    [("61000\n", 61.0), ("-256000\n", None), ("-5000\n", -5.0), ("300000\n", None), ("\0\0", None), ("61,5", None)],
)
def test_temperature_of_a_powered_off_block_is_absent_not_minus_256(tmp_path, temp, expected):
    value = read_all(tree(tmp_path, zone(0, "GPU-therm", temp)))["gpu_therm.temp_c"]
    assert math.isnan(value) if expected is None else value == expected


def test_the_constant_of_the_pmic_is_no_sensor(tmp_path):
    tree(tmp_path, {**zone(0, "PMIC-Die", "100000"), **zone(1, "CPU-therm", "45000")})
    assert "pmic_die.temp_c" not in read_all(tmp_path)
    assert "constant" in absent(tmp_path)["pmic_die.temp_c"]


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EINVAL, errno.ENODATA, errno.ENODEV, errno.EIO])
def test_a_driver_that_refuses_is_nan_for_that_read_only(tmp_path, monkeypatch, code):
    tree(tmp_path, zone(0, "gpu-thermal", "50000"))
    (sensor,) = discover(tmp_path)[0]
    real_pread = os.pread

    def refuse(*args):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "pread", refuse)
    assert math.isnan(sensor.read(0)[0])
    monkeypatch.setattr(files.os, "pread", real_pread)
    assert sensor.read(1)[0] == 50


def test_hwmon_is_known_by_name_whatever_its_number(tmp_path):
    before = tree(tmp_path / "a", PC)
    after = tree(
        tmp_path / "b", {key.replace("hwmon3", "hwmon9").replace("hwmon5", "hwmon3"): v for key, v in PC.items()}
    )
    assert read_all(before).keys() == read_all(after).keys()
    assert read_all(after)["k10temp.tctl.temp_c"] == 64.5


def test_hwmon_without_label_and_with_number_zero(tmp_path):
    tree(tmp_path, {"sys/class/hwmon/hwmon0/name": "nvme", "sys/class/hwmon/hwmon0/temp0_input": "33850"})
    assert read_all(tmp_path) == pytest.approx({"nvme.temp0.temp_c": 33.85})


def test_a_thermal_zone_is_not_shown_again_as_hwmon_and_cores_are_left_asleep(tmp_path):
    tree(
        tmp_path,
        {
            **zone(0, "acpitz", "30000"),
            "sys/class/hwmon/hwmon0/name": "acpitz",
            "sys/class/hwmon/hwmon0/temp1_input": "30000",
            "sys/class/hwmon/hwmon1/name": "coretemp",
            "sys/class/hwmon/hwmon1/temp1_input": "50000",
            "sys/class/hwmon/hwmon1/temp1_label": "Package id 0",
            "sys/class/hwmon/hwmon1/temp2_input": "49000",
            "sys/class/hwmon/hwmon1/temp2_label": "Core 0",
        },
    )
    assert read_all(tmp_path) == {"acpitz.temp_c": 30, "coretemp.package_id_0.temp_c": 50}


def test_an_average_is_read_where_there_is_no_input(tmp_path):
    base = "sys/class/hwmon/hwmon0"
    tree(tmp_path, {f"{base}/name": "amdgpu", f"{base}/power1_average": "9000000", f"{base}/power2_input": "-392000"})
    tree(tmp_path, {f"{base}/power2_average": "1"})
    values = read_all(tmp_path)
    assert values == pytest.approx({"amdgpu.power1.power_w": 9, "amdgpu.power2.power_w": -0.392})  # negative stays so


def battery(status="Discharging\n", **values):
    base = "sys/class/power_supply/BAT0"
    return {f"{base}/type": "Battery\n", f"{base}/status": status, **{f"{base}/{key}": v for key, v in values.items()}}


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (battery(power_now="12500000"), 12.5),
        (battery(power_now="-12500000"), 12.5),  # some drivers sign, some do not
        (battery("Charging", power_now="20000000"), -20.0),
        (battery(current_now="1500000", voltage_now="12000000"), 18.0),
        (battery("Full", power_now="0"), 0.0),
        (battery("Unknown", power_now="5000000"), None),
        (battery(power_now=""), None),
        (battery(current_now="1500000", voltage_now="x"), None),
    ],
)
def test_battery_power_is_signed_by_its_status(tmp_path, contents, expected):
    value = read_all(tree(tmp_path, contents))["battery.power_w"]
    assert math.isnan(value) if expected is None else value == pytest.approx(expected)


def test_the_battery_of_a_mouse_and_the_mains_are_not_the_machine(tmp_path):
    tree(
        tmp_path,
        {
            "sys/class/power_supply/AC/type": "Mains",
            "sys/class/power_supply/hid/type": "Battery",
            "sys/class/power_supply/hid/scope": "Device",
            "sys/class/power_supply/hid/status": "Discharging",
            "sys/class/power_supply/hid/power_now": "1",
        },
    )
    assert read_all(tmp_path) == {}


def test_a_battery_is_not_the_board(tmp_path):
    reasons = absent(tree(tmp_path, battery(power_now="1")))
    assert "battery shows its own flow only" in reasons["board.power_w"]


def test_busy_share_is_over_the_interval_and_steal_apart(tmp_path):
    path = tmp_path / "stat"
    path.write_text(STAT.format(user=100, idle=900, steal=50))
    sensor = CpuTimes(KernelFile(path))
    assert all(math.isnan(value) for value in sensor.read(0))
    put(path, STAT.format(user=130, idle=960, steal=60))
    assert sensor.read(1) == pytest.approx((0.3, 0.1))
    put(path, STAT.format(user=132, idle=960, steal=60))  # two ticks say nothing yet
    assert sensor.read(2) == pytest.approx((0.3, 0.1))
    put(path, STAT.format(user=1, idle=2, steal=0))  # counters of an unplugged processor
    assert all(math.isnan(value) for value in sensor.read(3))
    put(path, STAT.format(user=1, idle=12, steal=0))
    assert sensor.read(4) == pytest.approx((0, 0))


@pytest.mark.parametrize("make", [CpuTimes, MemoryAvailable, Load])
@given(data=st.binary(max_size=300))
def test_no_content_makes_a_sensor_raise(make, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"fuzzed_{make.__name__}"
    path.write_bytes(data)
    file = KernelFile(path)
    try:
        sensor = make(file)
        for t_ns in (0, 1, 2):
            values = sensor.read(t_ns)
            assert len(values) == len(sensor.channels)
    finally:
        file.close()


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_parse_int_takes_integers_and_nothing_else(data):
    value = parse_int(data)
    if value is not None:
        shown = data.decode() if isinstance(data, bytes) else data
        assert int(shown.strip(" \t\r\n\0")) == value


def test_text_ends_at_nul_and_survives_what_is_missing(tmp_path):
    (tmp_path / "model").write_bytes(b"Raspberry Pi 5 Model B Rev 1.0\0")
    assert text(tmp_path / "model") == "Raspberry Pi 5 Model B Rev 1.0"
    assert text(tmp_path / "none") == ""
    (tmp_path / "odd").write_bytes(b"\xff\xfe board\n")
    assert "board" in text(tmp_path / "odd")


def test_native_period_is_found_by_counting_changes():
    counted = ChangeCounter()
    for i in range(1000):  # read each millisecond, a new value each 100 ms
        counted.see(i * SECOND // 1000, i // 100)
    assert counted.period_s() == pytest.approx(0.1)
    still = ChangeCounter()
    for i in range(1000):
        still.see(i * SECOND // 1000, 42)
    assert still.period_s() is None


BOARD = {
    "proc/cpuinfo": "processor : 0\nmodel name : AMD Ryzen 7\nflags : fpu avx2 avx512f hypervisor\nprocessor : 1\n",
    "proc/meminfo": "MemTotal: 2000 kB\n",
    "etc/os-release": 'NAME="x"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "sys/devices/system/cpu/cpu0/cache/index0/level": "1",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Data",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "32K",
    "sys/devices/system/cpu/cpu0/cache/index1/level": "1",
    "sys/devices/system/cpu/cpu0/cache/index1/type": "Instruction",
    "sys/devices/system/cpu/cpu0/cache/index1/size": "64K",
    "sys/devices/system/cpu/cpu0/cache/index3/level": "3",
    "sys/devices/system/cpu/cpu0/cache/index3/type": "Unified",
    "sys/devices/system/cpu/cpu0/cache/index3/size": "16M",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
}


def test_board_is_described_without_naming_it(tmp_path):
    board = describe(tree(tmp_path, BOARD))
    assert board["cpu"] == board["name"] == "AMD Ryzen 7"
    assert board["n_threads"] == 2
    assert board["memory_byte"] == 2000 * 1024
    assert board["cache_byte"] == {"L1d": 32768, "L3": 16 << 20}
    assert board["isa"] == ["avx2", "avx512f"]
    assert board["governor"] == "powersave"
    assert board["os"] == "Debian GNU/Linux 12 (bookworm)"
    assert board["virtual"] is True
    assert os.uname().nodename not in str(board).split()


def test_device_tree_names_the_board(tmp_path):
    tree(
        tmp_path,
        {
            "proc/device-tree/model": b"NVIDIA Jetson Orin Nano\0",
            "proc/cpuinfo": "processor : 0\nFeatures : asimd asimddp\nCPU implementer : 0x41\nCPU part : 0xd42\n",
        },
    )
    board = describe(tmp_path)
    assert board["name"] == "NVIDIA Jetson Orin Nano"
    assert board["cpu"] == "ARM implementer 0x41 part 0xd42"
    assert board["isa"] == ["asimd", "asimddp"]


def test_release_and_chip_are_named_where_the_board_tells_them(tmp_path):
    line = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
    tree(tmp_path, {"etc/nv_tegra_release": line, "sys/devices/soc0/soc_id": "QCS8550\n"})
    board = describe(tmp_path)
    assert board["release"] == "L4T 36.4.3"
    assert board["soc"] == "QCS8550"
    assert "release" not in describe(tmp_path / "nothing")


def cores(capacities, siblings=lambda n: str(n)):
    return {
        name: value
        for n, capacity in enumerate(capacities)
        for name, value in (
            (f"sys/devices/system/cpu/cpu{n}/cpu_capacity", capacity),
            (f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list", siblings(n)),
        )
    }


def test_threads_are_one_for_each_big_core(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert n_big_cores(tree(tmp_path / "rk3588", cores([400] * 4 + [1024] * 4))) == 4
    pairs = cores([1024] * 8, lambda n: f"{n // 2 * 2}-{n // 2 * 2 + 1}")
    assert n_big_cores(tree(tmp_path / "smt", pairs)) == 4
    tree(tmp_path / "smt", {"sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert n_big_cores(tmp_path / "smt") == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert n_big_cores(tmp_path / "rk3588") == 2
    assert n_big_cores(tmp_path / "nothing known") == 2
