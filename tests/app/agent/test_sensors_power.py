"""The power of a board: never crowded out by other channels, absent with what to type, and believed only if it can be.

The outputs are written in the tools' formats.
"""

import json
import math
import os

import pytest

from app.agent.channel import Channel
from app.agent.doubt import FROZEN_S, PowerCheck
from app.agent.energy import EnergyMeter
from app.agent.power import total_power
from app.agent.sampler import Sampler
from app.agent.sensors import MAX_CHANNELS, discover, npu_smi, nvidia, powermetrics, reading
from app.agent.sensors.reading import MAX_FIELDS, Parsed, importance
from app.agent.serving.metrics import SCRAPE_HOLD_S, Meters
from app.cli import main
from app.protocol import CONTROL, MAX_BODY_BYTE
from tests.app.agent.test_sensors import absent, rapl, tree, zone
from tests.app.agent.test_sensors_boards import (
    PROC,
    Denied,
    Sensed,
    build,
    deny,
    hwmon,
    ina3221,
    script,
    wait_until,
)

PI5 = {**PROC, "proc/device-tree/model": b"Raspberry Pi 5 Model B Rev 1.0\0"}
JETSON = {**PROC, "proc/device-tree/model": b"NVIDIA Jetson Orin NX\0", "etc/nv_tegra_release": "# R36\n"}
MAC_POWERS = (
    "CPU Power: 15200 mW\nGPU Power: 61000 mW\nANE Power: 0 mW\nCombined Power (CPU + GPU + ANE): 76200 mW\n\n"
    "**** GPU usage ****\n\nGPU HW active frequency: 1338 MHz\nGPU idle residency:   7.10%\nGPU Power: 60990 mW\n"
)


def mac(n_cores, powers=MAC_POWERS, more=()):
    """Return one sample of powermetrics: clusters of four cores, each core with its clock and its residencies."""
    lines = [f"{powermetrics.BLOCK} (Sun May 10 10:00:00 2026 +0200) (201.33ms elapsed) ***", ""]
    for core in range(n_cores):
        if core % 4 == 0:
            cluster = f"P{core // 4}-Cluster"
            lines += [f"{cluster} Online: 100%", f"{cluster} HW active frequency: 1912 MHz"]
            lines += [f"{cluster} {kind} residency:  25.00%" for kind in ("HW active", "idle", "down")]
        lines.append(f"CPU {core} frequency: {1900 + core} MHz")
        lines.append(f"CPU {core} active residency:  17.03% (1344 MHz: 6.0% 1500 MHz: .3%)")
        lines += [f"CPU {core} idle residency:  82.97%", f"CPU {core} down residency:   0.00%"]
        lines += [f"CPU {core} {name}" for name in more]
    return "\n".join([*lines, "", powers, ""])


@pytest.fixture
def board(tmp_path, monkeypatch):
    opened = []

    def make(contents):
        build(tmp_path, contents)
        deny(contents, tmp_path, monkeypatch)
        opened.append(Sensed(tmp_path))
        return opened[-1]

    make.root = tmp_path
    yield make
    for sensed in opened:
        sensed.__exit__()


def as_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def mac_of(tmp_path, monkeypatch, sample):
    as_root(monkeypatch)
    tool = f"#!/bin/sh\nwhile :; do cat <<'END'\n{sample}END\nsleep 0.05; done\n"
    return Sensed(build(tmp_path, {**PROC, "usr/bin/powermetrics": tool}))


def values_of(sensed):
    return dict(zip([channel.key for channel in sensed.channels], sensed.read(), strict=True))


def absent_of(sensed):
    return {
        channel.key: channel.absent
        for channel in [*sensed.absent, *(channel for tool in sensed.tools for channel in tool.absent)]
    }


def total_of(sensed):
    columns, words = total_power([*sensed.channels, *sensed.absent])
    return [sensed.channels[i].key for i in columns], words


# ---- crowding


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


# ---- reasons

PI_REFUSED = (
    "#!/bin/sh\necho \"Can't open device file: {}\"\necho 'Try creating it with: sudo mknod it c 100 0'\nexit 255\n"
)


@pytest.mark.parametrize("device", ["/dev/vcio", "/dev/vcio_gencmd"])
def test_a_pi_whose_user_is_not_in_the_group_is_told_which(board, device):
    reasons = absent_of(sensed := board({**PI5, "usr/bin/vcgencmd": PI_REFUSED.format(device)}))
    for key in ("pi", "board.power_w"):
        assert "sudo usermod -aG video USER" in reasons[key]
        assert "log in again" in reasons[key]
        assert device in reasons[key]
    assert "mknod" not in str(reasons)
    assert "RAPL" not in str(reasons)
    assert total_of(sensed) == ([], reasons["board.power_w"])


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("VCHI initialization failed", "sudo usermod -aG video USER"),
        ('error=1 error_msg="Command not registered"', "sudo rpi-eeprom-update -a"),
        ("segmentation fault", "ended with status 255 (segmentation fault)"),
    ],
)
def test_other_words_of_vcgencmd(board, printed, words):
    tool = f"#!/bin/sh\necho '{printed}'\nexit 255\n"
    assert words in absent_of(board({**PI5, "usr/bin/vcgencmd": tool}))["board.power_w"]


def test_a_refusal_is_forgotten_once_the_tool_works(board, tmp_path):
    works = (
        f"#!/bin/sh\nif [ -e {tmp_path}/group ]; then\n"
        "echo 'VDD_CORE_A current(7)=1.0A'; echo 'VDD_CORE_V volt(15)=0.8V'\n"
        "else echo 'VCHI initialization failed'; exit 255; fi\n"
    )
    (tool,) = board({**PI5, "usr/bin/vcgencmd": works}).tools
    assert "usermod" in tool.feed.failure
    (tmp_path / "group").touch()
    wait_until(lambda: not tool.feed.failure)
    tool.refresh()
    assert [channel.key for channel in tool.channels][-1] == "pi.board.power_w"
    assert tool.absent == []


def test_powermetrics_without_root_says_so_and_what_to_type(board):
    reasons = absent_of(board({**PROC, "usr/bin/powermetrics": script("x", 0.1)}))
    assert reasons["board.power_w"] == reasons["powermetrics"]
    assert "needs root" in reasons["board.power_w"]
    assert "sudo" in reasons["board.power_w"]
    assert "RAPL" not in reasons["board.power_w"]


def test_powermetrics_that_refuses_says_its_own_words(tmp_path, monkeypatch):
    as_root(monkeypatch)
    refused = "#!/bin/sh\necho 'powermetrics must be invoked as the superuser' >&2\nexit 1\n"
    with Sensed(build(tmp_path, {**PROC, "usr/bin/powermetrics": refused})) as sensed:
        assert absent_of(sensed)["board.power_w"].startswith("needs root: powermetrics answers root only")


def test_powermetrics_without_a_gpu_sampler_is_asked_for_the_processor(tmp_path, monkeypatch):
    as_root(monkeypatch)
    sample = mac(4, "Intel energy model derived package power (CPUs+GT+SA): 2.65W\n")
    tool = (
        "#!/bin/sh\ncase \"$2\" in *gpu*) echo 'powermetrics: unrecognized sampler: gpu_power'; exit 64;; esac\n"
        f"while :; do cat <<'END'\n{sample}END\nsleep 0.05; done\n"
    )
    with Sensed(build(tmp_path, {**PROC, "usr/bin/powermetrics": tool})) as sensed:
        wait_until(lambda: sensed.tools[0].feed.columns)
        sensed.tools[0].refresh()
        assert values_of(sensed)["powermetrics.intel_energy_model_derived_package.power_w"] == 2.65


def test_an_ascend_board_without_npu_smi_or_its_group_is_told_so(board, tmp_path):
    reasons = absent(build(tmp_path / "a", {**PI5, "proc/device-tree/model": b"Orange Pi AIpro\0", "dev/davinci0": ""}))
    assert reasons["board.power_w"].startswith("npu-smi is not installed, or not in PATH")
    refused = script("dcmi module initialize failed. ret is -8005").replace("exit 0", "exit 1")
    sensed = board({**PROC, "dev/davinci0": "", "usr/local/bin/npu-smi": refused})
    assert "(dcmi module initialize failed. ret is -8005)" in absent_of(sensed)["board.power_w"]
    assert "sudo usermod -aG HwHiAiUser USER" in absent_of(sensed)["board.power_w"]


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "sudo modprobe nvidia"),
        ("Failed to initialize NVML: Driver/library version mismatch", "restart the board"),
        ("No devices were found", "finds no card"),
    ],
)
def test_nvidia_smi_that_does_not_work_says_why(board, printed, words):
    tool = f"#!/bin/sh\necho \"{printed}\"\necho 'Make sure that the latest driver is installed.'\nexit 9\n"
    reasons = absent_of(board({**PROC, "usr/bin/nvidia-smi": tool}))
    assert words in reasons["nvidia"]
    assert "nvidia.other" not in reasons


def test_rapl_that_only_root_reads_says_what_opens_it(board):
    contents = {
        **PROC,
        "proc/cpuinfo": "vendor_id\t: AuthenticAMD\nflags : avx2\n",
        **{
            name: Denied(value) if name.endswith("energy_uj") else value
            for name, value in rapl("0", "package-0", 1).items()
        },
    }
    reason = absent_of(board(contents))["board.power_w"]
    assert reason.startswith("needs root: ")
    assert "sudo chmod a+r /sys/class/powercap/*/energy_uj" in reason
    assert 'SUBSYSTEM=="powercap"' in reason


def test_a_card_alone_names_what_locks_the_processor_s_power(board):
    locked = {name: Denied(v) if name.endswith("energy_uj") else v for name, v in rapl("0", "package-0", 1).items()}
    card = script("index, power.draw [W]\n0, 100.00 W", 0.05)
    _, words = total_of(board({**PROC, **locked, "usr/bin/nvidia-smi": card}))
    assert words.startswith("the power sensors of this machine cover parts of the board only: card gpu0; needs root: ")
    assert "sudo chmod a+r /sys/class/powercap/*/energy_uj" in words


@pytest.mark.parametrize(
    ("contents", "rapl_named", "words"),
    [
        ({"proc/device-tree/model": b"Orange Pi 5\0"}, False, "no hwmon power input"),
        ({"proc/cpuinfo": "processor : 0\nCPU architecture: 8\n"}, False, "no hwmon power input"),
        ({"proc/cpuinfo": "processor : 0\nisa : rv64gc\n"}, False, "no hwmon power input"),
        ({"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : avx2\n"}, True, "sudo modprobe intel_rapl_msr"),
        (
            {"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : hypervisor\n"},
            True,
            "its host keeps the energy counters",
        ),
    ],
)
def test_rapl_is_named_only_where_there_may_be_one(tmp_path, contents, rapl_named, words):
    reason = absent(tree(tmp_path, contents))["board.power_w"]
    assert ("RAPL" in reason) == rapl_named
    assert words in reason


# ---- belief


def looks(check, channels, rows, step_s=1.0):
    for n, row in enumerate(rows):
        check.see(n * step_s, channels, row)
    return channels[0].doubt


def board_channels():
    return [
        Channel("ina3221.vdd_in.power_w", "W", "file", "the whole board", total="input"),
        Channel("ina3221.vdd_cpu.power_w", "W", "file", "rail", part_of="ina3221.vdd_in.power_w"),
        Channel("cpu.busy_frac", "frac", "file"),
    ]


def test_a_whole_that_is_smaller_than_its_part_is_no_power_of_the_board():
    check, channels = PowerCheck(), board_channels()
    looks(check, channels, [[3.0, 7.0, 0.5]] * 6)
    columns, words = total_power(channels)
    assert columns == []
    assert words == (
        "ina3221.vdd_in.power_w reads 3 W and its part ina3221.vdd_cpu.power_w 7 W: "
        "a whole is not smaller than its part"
    )
    message = channels[0].message()
    assert "total" not in message or message["total"] == ""
    assert message["note"] == words
    for n in range(6, 12):
        check.see(float(n), channels, [9.0, 7.0, 0.5])
    assert total_power(channels)[0] == [0]
    assert "doubt" not in channels[0].message()


@pytest.mark.parametrize(
    "rows",
    [
        [[3.0, 7.0, 0.5], [9.0, 7.0, 0.5]] * 10,  # read at different moments
        [[7.0, 7.1, 0.5]] * 20,  # steps of the sensors
        [[math.nan, 7.0, 0.5]] * 20,
        [[9.0, 7.0, 0.1]] * 100,  # nothing changes
        [[9.0, 7.0, 0.9]] * 100,
        [[9.0 + n % 2 / 100, 7.0, n % 20 / 20] for n in range(100)],
    ],
)
def test_what_is_in_order_is_believed(rows):
    assert looks(PowerCheck(), board_channels(), rows) == ""


def test_a_power_that_stands_still_through_rest_and_load_is_none():
    check, channels = PowerCheck(), board_channels()
    n = int(FROZEN_S)
    rows = [[5.0, 2.0, 0.05]] * n + [[5.0, 4.0, 0.95]] * n
    assert looks(check, channels, rows).startswith("ina3221.vdd_in.power_w stands still at 5 W while the load changes")
    for i in range(2 * n, 2 * n + 6):
        check.see(float(i), channels, [5.0 + i / 100, 4.0, 0.95])
    assert channels[0].doubt == ""


def test_the_next_whole_counts_where_the_first_is_doubted():
    channels = [
        Channel("board.power_w", "W", "psys", "the whole platform (RAPL psys)", total="input"),
        Channel("package.power_w", "W", "rapl", "the processor package", total="disjoint"),
        Channel("dram.power_w", "W", "rapl", "the memory", total="disjoint"),
    ]
    looks(PowerCheck(), channels, [[0.0, 15.0, 2.0]] * 6)
    assert total_power(channels) == ([1, 2], "the processor package + the memory")


def test_a_battery_s_slow_flow_is_not_doubted():
    channels = [
        Channel("battery.power_w", "W", "file", "flow", total="flow"),
        Channel("core.power_w", "W", "file", "core", part_of="battery.power_w"),
    ]
    assert looks(PowerCheck(), channels, [[5.0, 9.0]] * 20) == ""


WRONG = {
    **JETSON,
    **ina3221(1, {1: ("VDD_IN", 5000, 600), 2: ("VDD_CPU_GPU_CV", 5000, 1400), 3: ("VDD_SOC", 5000, 100)}),
}


def test_one_scrape_says_that_the_whole_is_wrong(tmp_path, capsys):
    build(tmp_path, WRONG)
    assert main(["agent", "--metrics", "--json", "--root", str(tmp_path)]) == 0
    families = {family["name"]: family["samples"] for family in json.loads(capsys.readouterr().out)}
    assert "trilemma_board_power_watts" not in families
    reasons = {s["labels"]["channel"]: s["labels"]["reason"] for s in families["trilemma_channel_absent"]}
    assert (
        "ina3221.vdd_in.power_w reads 3 W and its part ina3221.vdd_cpu_gpu_cv.power_w 7 W" in reasons["board.power_w"]
    )


def test_the_sampler_tells_the_client_and_the_meter(tmp_path):
    sensors, missing = discover(build(tmp_path, WRONG))
    told, sent = [], []
    outbox = type("Sent", (), {"send_layout": sent.append, "set_max_records": lambda self, n: None})()
    sampler = Sampler(sensors, missing, outbox, EnergyMeter())
    sampler.on_power = lambda reason, covers: told.append(reason)
    assert sampler.power[0] == ""
    sampler._columns.read(0)
    for n in range(6):
        sampler._look(float(n))
    assert len(told) == 1
    assert "a whole is not smaller than its part" in told[0]
    (channel,) = [c for c in sent[-1]["channels"] if c["key"] == "ina3221.vdd_in.power_w"]
    assert channel["note"] == told[0]
    assert channel.get("total", "") == ""


def test_meters_show_no_energy_of_a_power_in_doubt(tmp_path):
    meters = Meters(build(tmp_path, WRONG), SCRAPE_HOLD_S)
    try:
        meters.settle()
        assert "trilemma_board_power_watts" not in meters.text()
    finally:
        meters.close()
