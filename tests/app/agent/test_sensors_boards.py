"""Whole boards as made-up trees, with tools that are real processes: their catalogue, values, totals and state.

The expected catalogues are tests/data/boards/*.txt, one channel a line: key, unit, value, its part in the total, and
for an absent one the reason.
"""

import errno
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from app import LAUNCHER
from app.agent import processes
from app.agent.power import total_power
from app.agent.processes import Processes
from app.agent.sensors import arrange, discover, feed
from app.agent.sensors.tools import ToolSensor
from app.agent.state import BoardState, StateWatch, gist
from app.client.blocking_session import AttachedBoard
from app.client.transport import LocalTransport
from tests.places import DATA
from tests.processes import running

EXPECTED = DATA / "boards"
OUTPUTS = DATA / "sensors"
PATIENCE_S = 60.0
LINES = (OUTPUTS / "tegrastats.txt").read_text().splitlines()


class Denied(str):
    """The content of a file that only root can open."""


def hwmon(number, name, **values):
    folder = f"sys/class/hwmon/hwmon{number}"
    return {f"{folder}/name": f"{name}\n", **{f"{folder}/{key}": f"{value}\n" for key, value in values.items()}}


def ina3221(number, rails, shunt=5000):
    values = {
        "update_interval": 8,
        "samples": 1,
        "in7_label": "sum of shunt voltages",
        "in7_input": 3,
        "curr4_input": 9,
    }
    for n, (label, millivolt, milliampere) in rails.items():
        values.update({f"in{n}_label": label, f"in{n}_input": millivolt, f"curr{n}_input": milliampere})
        values[f"shunt{n}_resistor"] = shunt
    return hwmon(number, "ina3221", **values)


def zone(number, kind, temp):
    folder = f"sys/class/thermal/thermal_zone{number}"
    return {f"{folder}/type": f"{kind}\n", f"{folder}/temp": temp}


def policy(first, now, low, high, governor="schedutil", able=None, driver="cpufreq-dt", **more):
    folder = f"sys/devices/system/cpu/cpufreq/policy{first}"
    values = {
        "related_cpus": first,
        "scaling_cur_freq": now,
        "scaling_min_freq": low,
        "scaling_max_freq": high,
        "cpuinfo_max_freq": able or high,
        "scaling_governor": governor,
        "scaling_driver": driver,
        **more,
    }
    return {f"{folder}/{key}": f"{value}\n" for key, value in values.items()}


def devfreq(name, now, low, high, governor="simple_ondemand", **more):
    values = {"cur_freq": now, "min_freq": low, "max_freq": high, "governor": governor, **more}
    return {f"sys/class/devfreq/{name}/{key}": f"{value}\n" for key, value in values.items()}


def script(text, every_s=None):
    """Return a tool that prints a text, again and again when `every_s` is given."""
    body = f"cat <<'END'\n{text}\nEND"
    return f"#!/bin/sh\nwhile :; do\n{body}\nsleep {every_s}\ndone\n" if every_s else f"#!/bin/sh\n{body}\n"


PROC = {
    "proc/stat": "cpu  100 0 0 900 0 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nSwapTotal: 4000000 kB\nSwapFree: 4000000 kB\n",
    "proc/loadavg": "0.10 0.20 0.30 1/200 999\n",
}
MODES = "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=3 NAME=25W >\n"
ORIN_NX = {
    **PROC,
    "proc/device-tree/model": b"NVIDIA Jetson Orin NX Engineering Reference Developer Kit\0",
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3\n",
    "var/lib/nvpmodel/status": "pmode:0003",
    "etc/nvpmodel.conf": MODES,
    **policy(0, 1984000, 729600, 1984000),
    **policy(4, 729600, 729600, 1190400, able=1984000),
    **zone(0, "cpu-thermal", "58031\n"),
    **zone(1, "gpu-thermal", "-256000\n"),
    **zone(2, "tj-thermal", "58031\n"),
    **ina3221(1, {1: ("VDD_IN", 5008, 2840), 2: ("VDD_CPU_GPU_CV", 5008, 1376), 3: ("VDD_SOC", 5000, 544)}),
    **devfreq("17000000.gpu", 917000000, 306000000, 918000000, "nvhost_podgov", **{"device/load": 882}),
    "sys/kernel/debug/cactmon/mc_all": Denied("2550000"),
    "usr/bin/tegrastats": script(LINES[3], 0.1),
}
AGX_ORIN = {
    **PROC,
    "proc/device-tree/model": b"NVIDIA Jetson AGX Orin Developer Kit\0",
    "etc/nv_tegra_release": "# R35 (release), REVISION: 4.1\n",
    **policy(0, 1113600, 729600, 2201600, governor="performance"),
    **ina3221(3, {1: ("VDD_GPU_SOC", 19400, 160), 2: ("VDD_CPU_CV", 19400, 40), 3: ("VIN_SYS_5V0", 5000, 800)}, 2000),
    **ina3221(4, {1: ("NC", 0, 0), 2: ("VDDQ_VDD2_1V8AO", 1096, 368), 3: ("NC", 0, 0)}, 2000),
    **devfreq("17000000.ga10b", 306000000, 306000000, 1300500000, **{"device/load": 345}),
    "sys/kernel/debug/cactmon/mc_all": "10665000\n",
    "sys/kernel/debug/bpmp/debug/clk/emc/rate": "2133000000\n",
    "usr/bin/tegrastats": script(LINES[4], 0.1),
}
THOR = {
    **PROC,
    "proc/device-tree/model": b"NVIDIA Jetson AGX Thor Developer Kit\0",
    "etc/nv_tegra_release": "# R38 (release), REVISION: 2.0\n",
    "var/lib/nvpmodel/status": "pmode:0000",
    "etc/nvpmodel.conf": MODES,
    **policy(0, 2601000, 972000, 2601000),
    **hwmon(2, "ina238", power1_input=16250000, curr1_input=850, in1_input=19120),
    **devfreq("gpu-gpc-0", 1575000000, 315000000, 1575000000),
    **devfreq("bwmgr", 4266000000, 665600000, 4266000000, governor="userspace"),
    **zone(0, "gpu-thermal", ""),
    **zone(1, "tj-thermal", "43000\n"),
    "usr/bin/tegrastats": script(LINES[5], 0.1),
}
RK3588 = {
    **PROC,
    "proc/device-tree/model": b"Orange Pi 5 Plus\0",
    **policy(0, 1800000, 408000, 1800000, governor="ondemand"),
    **policy(4, 408000, 408000, 2256000, governor="powersave"),
    **policy(6, 408000, 408000, 2256000, governor="powersave"),
    **zone(0, "soc-thermal", "46230\n"),
    **zone(6, "npu-thermal", "45307\n"),
    **devfreq("dmc", 528000000, 528000000, 2112000000, "dmc_ondemand", load="33@528000000Hz"),
    **devfreq("fb000000.gpu", 300000000, 300000000, 1000000000, load="7@300000000Hz"),
    **devfreq("fdab0000.npu", 1000000000, 300000000, 1000000000, "rknpu_ondemand", load="0@1000000000Hz"),
    "sys/kernel/debug/rknpu/load": Denied("NPU load:  Core0: 63%, Core1: 65%, Core2: 64%,\n"),
    "sys/class/power_supply/tcpm-source-psy-4-0022/type": "USB\n",
    "sys/class/power_supply/tcpm-source-psy-4-0022/online": "1\n",
}
PI5 = {
    **PROC,
    "proc/device-tree/model": b"Raspberry Pi 5 Model B Rev 1.0\0",
    **policy(0, 2400000, 1500000, 2400000, governor="ondemand"),
    **zone(0, "cpu-thermal", "61500\n"),
    **hwmon(0, "cpu_thermal", temp1_input=61500),
    **hwmon(1, "rpi_volt", in0_lcrit_alarm=0),
    **hwmon(2, "pwmfan", fan1_input=3200),
    "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled": "50005\n",
    "sys/class/thermal/cooling_device0/type": "pwm-fan\n",
    "sys/class/thermal/cooling_device0/cur_state": "3\n",
    "sys/class/thermal/cooling_device0/max_state": "4\n",
    "usr/bin/vcgencmd": script((OUTPUTS / "pmic.txt").read_text().rstrip("\n")),
}
LAPTOP = {
    **PROC,
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 900000 kB\nSwapTotal: 8000000 kB\nSwapFree: 6000000 kB\n",
    "proc/cpuinfo": "processor : 0\nmodel name : 12th Gen Intel(R) Core(TM) i7-1260P\nflags : fpu avx2\n",
    "sys/firmware/acpi/platform_profile": "low-power\n",
    **policy(0, 800000, 400000, 4700000, "powersave", driver="intel_pstate", energy_performance_preference="power"),
    **policy(4, 900000, 400000, 2000000, "powersave", able=3400000, driver="intel_pstate"),
    **zone(3, "x86_pkg_temp", "71000\n"),
    **hwmon(5, "coretemp", temp1_input=71000, temp1_label="Package id 0", temp2_input=70000, temp2_label="Core 0"),
    **hwmon(6, "nvme", temp1_input=40850, temp1_label="Composite"),
    **{
        f"sys/class/powercap/{name}/{key}": value
        for name, domain, energy in (
            ("intel-rapl:0", "package-0", Denied("17515587911")),
            ("intel-rapl:0:0", "core", Denied("5515587911")),
            ("intel-rapl:1", "psys", Denied("99515587911")),
        )
        for key, value in (("name", domain), ("energy_uj", energy), ("max_energy_range_uj", "262143328850"))
    },
    "sys/class/power_supply/AC/type": "Mains\n",
    "sys/class/power_supply/AC/online": "0\n",
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": "Discharging\n",
    "sys/class/power_supply/BAT0/capacity": "63\n",
    "sys/class/power_supply/BAT0/current_now": "1500000\n",
    "sys/class/power_supply/BAT0/voltage_now": "12000000\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "12\n",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n",
    "sys/bus/pci/devices/0000:01:00.0/current_link_width": "4\n",
    "sys/bus/pci/devices/0000:01:00.0/max_link_width": "8\n",
    "sys/bus/pci/devices/0000:01:00.0/current_link_speed": "8.0 GT/s PCIe\n",
    "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: NVIDIA\n",
}
JETSON_NANO = {
    **PROC,
    "proc/device-tree/model": b"NVIDIA Jetson Nano Developer Kit\0",
    "etc/nv_tegra_release": "# R32 (release), REVISION: 7.1\n",
    **policy(0, 1428000, 102000, 1479000),
    **{
        f"sys/bus/i2c/devices/6-0040/iio:device0/{key}": f"{value}\n"
        for n, (rail, millivolt, milliampere, milliwatt) in enumerate(
            (("POM_5V_IN", 5032, 836, 4206), ("POM_5V_GPU", 5024, 296, 1487), ("POM_5V_CPU", 5024, 120, 602))
        )
        for key, value in (
            (f"rail_name_{n}", rail),
            (f"in_voltage{n}_input", millivolt),
            (f"in_current{n}_input", milliampere),
            (f"in_power{n}_input", milliwatt),
        )
    },
    **zone(0, "AO-therm", "38500\n"),
    **zone(1, "PMIC-Die", "100000\n"),
}
ANDROID = {
    **PROC,
    "proc/device-tree/model": b"Qualcomm Technologies, Inc. QCS8550\0",
    **policy(0, 2016000, 307200, 2016000),
    "sys/class/kgsl/kgsl-3d0/gpu_busy_percentage": "12 %\n",
    "sys/class/kgsl/kgsl-3d0/gpubusy": Denied("0 0"),
    "sys/class/kgsl/kgsl-3d0/devfreq/cur_freq": "587000000\n",
    "sys/class/kgsl/kgsl-3d0/temp": "52000\n",
}
HORIZON = {
    **PROC,
    "proc/device-tree/model": b"D-Robotics RDK X5 V1.0\0",
    **policy(0, 1500000, 300000, 1500000, governor="performance"),
    "sys/devices/system/bpu/bpu0/ratio": "63\n",
    "usr/bin/hrut_somstatus": script((OUTPUTS / "horizon.txt").read_text().rstrip("\n")),
}
ASCEND = {
    **PROC,
    "proc/device-tree/model": b"Orange Pi AIpro\0",
    "dev/davinci0": "",
    "usr/local/bin/npu-smi": script((OUTPUTS / "npu_smi.txt").read_text().rstrip("\n")),
}
BOARDS = {
    "orin_nx": ORIN_NX,
    "agx_orin": AGX_ORIN,
    "thor": THOR,
    "rk3588": RK3588,
    "pi5": PI5,
    "laptop": LAPTOP,
    "nano": JETSON_NANO,
    "android": ANDROID,
    "horizon": HORIZON,
    "ascend": ASCEND,
}


def build(root, contents):
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
        if path.parent.name == "bin":
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return root


def deny(contents, root, patch):
    """Refuse to open what is marked so: the tests may run as root, who may read everything."""
    denied = {str(root / name) for name, content in contents.items() if isinstance(content, Denied)}
    real_open = os.open

    def refuse(path, *args, **more):
        if str(path) in denied:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_open(path, *args, **more)

    patch.setattr(os, "open", refuse)
    patch.setattr(os, "geteuid", lambda: 1000)


class Sensed:
    """A board's sensors after its tools have answered; ends the tools."""

    def __init__(self, root):
        self.root = root
        self.sensors, self.absent = discover(root)
        self.tools = [sensor for sensor in self.sensors if isinstance(sensor, ToolSensor)]
        for tool in self.tools:
            assert tool.feed.answered.wait(PATIENCE_S)
            tool.refresh()
        arrange(root, self.sensors, self.absent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for tool in self.tools:
            tool.close()

    @property
    def channels(self):
        return [channel for sensor in self.sensors for channel in sensor.channels]

    def read(self, t_ns=None):
        """Return all values, at a time or now."""
        return [v for sensor in self.sensors for v in sensor.read(time.monotonic_ns() if t_ns is None else t_ns)]

    def catalogue(self):
        """Return the whole catalogue as text, without the path of the tree."""
        lines = [
            f"{c.key} | {c.unit} | {value:.6g} | {c.total or (c.part_of and 'part of ' + c.part_of)} | "
            f"{'' if c.error is None else f'{c.error:.3g}'} | {c.note}".rstrip(" |")
            for c, value in zip(self.channels, self.read(), strict=True)
        ]
        missing = [*self.absent, *(channel for tool in self.tools for channel in tool.absent)]
        lines += [f"{channel.key} | {channel.unit} | absent: {channel.absent}" for channel in missing]
        columns, words = total_power([*self.channels, *self.absent])
        total = " + ".join(self.channels[i].key for i in columns) if columns else "none"
        return "\n".join([*lines, f"total: {total} | {words}", ""]).replace(str(self.root), "")


@pytest.fixture
def board(tmp_path, monkeypatch):
    opened = []

    def make(name):
        contents = BOARDS[name] if isinstance(name, str) else name
        build(tmp_path, contents)
        deny(contents, tmp_path, monkeypatch)
        opened.append(Sensed(tmp_path))
        return opened[-1]

    make.root = tmp_path
    yield make
    for sensed in opened:
        sensed.__exit__()


@pytest.mark.parametrize("name", BOARDS)
def test_the_catalogue_of_a_whole_board(name, board):
    assert board(name).catalogue() == (EXPECTED / f"{name}.txt").read_text()


# ---- traps


def power_of(sensed):
    """Return the total power now, and what it covers."""
    columns, words = total_power([*sensed.channels, *sensed.absent])
    values = sensed.read()
    return sum(values[i] for i in columns) if columns else math.nan, words


def test_no_watt_is_counted_twice_on_any_board(board):
    inner = {"orin_nx": 14.22272, "agx_orin": 7.88, "thor": 16.25, "nano": 4.206, "laptop": 18.0}
    for name, expected_w in inner.items():
        with Sensed(build_in(board, name)) as sensed:
            assert power_of(sensed)[0] == pytest.approx(expected_w), name


def build_in(board, name):
    root = Path(tempfile.mkdtemp(dir=board.root))
    return build(root, {key: value for key, value in BOARDS[name].items() if not isinstance(value, Denied)})


def test_each_part_names_a_channel_that_is_there(board):
    for name in ("orin_nx", "agx_orin", "thor", "pi5", "nano"):
        with Sensed(build_in(board, name)) as sensed:
            keys = {channel.key for channel in sensed.channels}
            assert all(not channel.part_of or channel.part_of in keys for channel in sensed.channels)
            assert not any(channel.part_of and channel.total for channel in sensed.channels)


def test_hwmon_chips_that_change_their_numbers_are_the_same_channels(board):
    moved = {key.replace("hwmon1/", "hwmon7/"): value for key, value in ORIN_NX.items() if "mc_all" not in key}
    sensed = board("orin_nx")
    with Sensed(build(board.root / "moved", moved)) as again:
        assert [channel.key for channel in again.channels] == [channel.key for channel in sensed.channels]


def test_root_sees_what_others_are_told_how_to_open(board):
    opened = {key: str(value) if isinstance(value, Denied) else value for key, value in RK3588.items()}
    sensed = board(opened)
    values = {channel.key: value for channel, value in zip(sensed.channels, sensed.read(), strict=True)}
    assert values["rknpu.core1.busy_frac"] == 0.65
    assert not any(channel.absent.startswith("needs root") for channel in sensed.absent)


def test_a_load_above_100_percent_is_clamped_and_the_channel_says_so(board):
    sensed = board({**RK3588, "sys/kernel/debug/rknpu/load": "NPU load:  20000%\n"})
    (load,) = [channel for channel in sensed.channels if channel.key == "rknpu.busy_frac"]
    values = dict(zip([channel.key for channel in sensed.channels], sensed.read(), strict=True))
    assert values["rknpu.busy_frac"] == 1.0
    assert "above 100 %" in load.note
    assert "above 100 %" in load.message()["note"]


def test_a_tool_for_root_runs_for_root(board, monkeypatch):
    sensed = board({**HORIZON, "dev/null": ""})
    assert not sensed.tools
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with Sensed(sensed.root) as again:
        assert "horizon.bpu.temp_c" in [channel.key for channel in again.channels]


def test_intel_and_graphics_card_are_disjoint_parts(board):
    card = script((OUTPUTS / "nvidia.txt").read_text().split("\n1, ")[0], 0.1)
    contents = {key: str(value) if isinstance(value, Denied) else value for key, value in LAPTOP.items()}
    contents = {key: value for key, value in contents.items() if "intel-rapl:1/" not in key}
    sensed = board({**contents, "usr/bin/nvidia-smi": card})
    columns, words = total_power([*sensed.channels, *sensed.absent])
    assert [sensed.channels[i].key for i in columns] == ["package.power_w", "nvidia.gpu0.power_w"]
    assert "card gpu0" in words


NVML = r"""
#define CARD(i) ((void *)(long)((i) + 1))
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(unsigned code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **card) { *card = CARD(i); return i > 1 ? 2 : 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *card, unsigned long long *mj) {
    static unsigned long long counted = 1ull << 40;
    if (card != CARD(0)) return 3;
    *mj = counted += 25000;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *card, unsigned *mw) { *mw = card == CARD(0) ? 249000 : 55500; return 0; }
int nvmlDeviceGetClockInfo(void *card, unsigned kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1980 : 3201;
    return kind == 0;
}
int nvmlDeviceGetUtilizationRates(void *card, unsigned *share) { share[0] = 97; share[1] = 101; return 0; }
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long *m) {
    m[0] = 80ull << 30, m[1] = 0, m[2] = 1ull << 30;
    return 0;
}
"""
"""Two cards: one that has used 25 J more each time it is asked, an older one; this library has no temperature."""


def test_cards_are_read_through_nvml_with_their_energy_counter_and_no_tool_is_started(board, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: the stand-in of the library is compiled")
    source, library = tmp_path / "nvml.c", tmp_path / "usr/lib/libnvidia-ml.so.1"
    source.write_text(NVML)
    library.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    sensed = board({**PROC, "dev/nvidiactl": "", "usr/bin/nvidia-smi": script("index, power.draw [W]\n0, 1.00 W", 0.1)})
    assert not sensed.tools
    sensed.read(0)
    found = dict(zip([channel.key for channel in sensed.channels], sensed.read(10**8), strict=True))
    assert found["nvidia.gpu0.power_w"] == pytest.approx(250)
    assert found["nvidia.gpu0.smoothed.power_w"] == pytest.approx(249)
    assert found["nvidia.gpu1.smoothed.power_w"] == pytest.approx(55.5)
    assert (found["nvidia.gpu1.clock_hz"], found["nvidia.gpu1.memory.clock_hz"]) == (1980e6, 3201e6)
    assert found["nvidia.gpu0.busy_frac"] == pytest.approx(0.97)
    assert math.isnan(found["nvidia.gpu0.memory.busy_frac"])  # 101 % is none
    assert found["nvidia.gpu0.memory.used_byte"] == 2**30
    channels = {channel.key: channel for channel in [*sensed.channels, *sensed.absent]}
    assert channels["nvidia.gpu1.power_w"].absent == "NVML says of this card: Not Supported"
    assert "has no nvmlDeviceGetTemperature" in channels["nvidia.gpu0.temp_c"].absent
    assert channels["nvidia.gpu0.power_w"].total == channels["nvidia.gpu1.smoothed.power_w"].total == "disjoint"
    assert channels["nvidia.gpu0.smoothed.power_w"].part_of == "nvidia.gpu0.power_w"


@pytest.mark.parametrize("content", ["", "no library", "init fails"])
def test_a_library_that_does_not_work_leaves_the_cards_to_the_tool(board, tmp_path, content):
    library = tmp_path / "usr/lib/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    if content == "init fails":
        if shutil.which("gcc") is None:
            pytest.skip("no C compiler: the stand-in of the library is compiled")
        (tmp_path / "nvml.c").write_text("int nvmlInit_v2(void) { return 18; }")  # driver and library differ
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    elif content:
        library.write_text(content)
    smi = script("index, power.draw [W]\n0, 1.00 W", 0.1)
    sensed = board({**PROC, "dev/nvidiactl": "", "usr/bin/nvidia-smi": smi})
    assert [tool.channels[0].key for tool in sensed.tools] == ["nvidia.gpu0.smoothed.power_w"]


def test_an_old_card_counts_by_its_smoothed_power_and_jetsons_by_their_rails(board):
    header, _, old, *_ = (OUTPUTS / "nvidia.txt").read_text().split("\n")
    sensed = board({**PROC, "usr/bin/nvidia-smi": script(f"{header}\n{old}", 0.1)})
    channels = {channel.key: channel for channel in sensed.channels}
    assert channels["nvidia.gpu1.smoothed.power_w"].total == "disjoint"
    assert "nvidia.gpu1.power_w" not in channels
    (missing,) = [c for tool in sensed.tools for c in tool.absent if c.key == "nvidia.gpu1.power_w"]
    assert missing.absent == "nvidia-smi says that this board has none: [N/A]"


def test_the_query_falls_back_to_what_an_old_driver_knows(board):
    smi = """#!/bin/sh
    case "$1" in *instant*) echo 'Field "power.draw.instant" is not a valid field to query.'; exit 2;; esac
    while :; do echo 'index, power.draw [W], clocks.current.sm [MHz]'; echo '0, 55.5 W, 1200 MHz'; sleep 0.1; done
    """
    sensed = board({**PROC, "usr/bin/nvidia-smi": smi})
    channels = dict(zip([channel.key for channel in sensed.channels], sensed.read(), strict=True))
    assert channels["nvidia.gpu0.smoothed.power_w"] == 55.5


def test_a_french_board_is_read_in_english(board):
    french = """#!/bin/sh
    if [ "$LC_ALL" = C ]; then t=41.5; else t=41,5; fi
    while :; do echo "CPU@${t}C"; sleep 0.1; done
    """
    sensed = board({**PROC, "usr/bin/tegrastats": french})
    assert dict(zip([c.key for c in sensed.channels], sensed.read(), strict=True))["tegrastats.cpu.temp_c"] == 41.5


# ---- tools that misbehave


def wait_until(condition):
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(0.005)


def tegrastats_of(board, text):
    (tool,) = board({**PROC, "usr/bin/tegrastats": text}).tools
    return tool


def reasons(tool):
    tool.refresh()
    return {channel.key: channel.absent for channel in tool.absent}


def test_a_tool_that_hangs_is_given_up(board, monkeypatch):
    monkeypatch.setattr(feed, "HANG_S", 0.2)
    tool = tegrastats_of(board, "#!/bin/sh\nexec sleep 600\n")
    assert "printed nothing for 0.2 s" in reasons(tool)["tegrastats"]
    assert tool.channels == ()


def test_a_tool_that_goes_silent_is_nan_not_its_last_value(board, monkeypatch, tmp_path):
    monkeypatch.setattr(feed, "HANG_S", PATIENCE_S)
    last = "#!/bin/sh\necho GR3D_FREQ 5%\nwhile [ ! -e {go} ]; do sleep 0.05; done\necho GR3D_FREQ 5%\nexec sleep 600\n"
    tool = tegrastats_of(board, last.format(go=tmp_path / "go"))
    assert tool.read(time.monotonic_ns())[0] == 0.05
    assert math.isnan(tool.read(time.monotonic_ns() + 2 * int(PATIENCE_S) * 10**9)[0])
    monkeypatch.setattr(feed, "HANG_S", 0.05)
    (tmp_path / "go").touch()
    wait_until(lambda: "printed nothing" in reasons(tool).get("tegrastats", ""))
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac"]  # the column stays


def test_half_a_line_is_no_sample(board):
    tool = tegrastats_of(board, "#!/bin/sh\necho GR3D_FREQ 5%\nprintf 'VDD_IN 1200mW/13'\n")
    wait_until(lambda: "ended with status 0" in reasons(tool).get("tegrastats", ""))
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac"]


def test_a_tool_that_dies_says_so_and_is_started_again(board, monkeypatch, tmp_path):
    monkeypatch.setattr(feed, "RETRY_S", (0.05, 0.05, 0.05))
    tool = tegrastats_of(board, f"#!/bin/sh\necho GR3D_FREQ 5%\necho x >> {tmp_path}/starts\nexit 3\n")
    wait_until(lambda: "ended with status 3" in reasons(tool).get("tegrastats", ""))
    wait_until(lambda: (tmp_path / "starts").read_text().count("x") >= 2)


def test_a_tool_that_cannot_work_says_its_own_words_and_is_left_alone(board, monkeypatch):
    monkeypatch.setattr(feed, "RETRY_S", (0.01, 0.01, 0.01))
    tool = tegrastats_of(board, "#!/bin/sh\necho 'cannot open /dev/nvhost: denied'\nexit 1\n")
    wait_until(lambda: not tool.feed._thread.is_alive())
    assert "(cannot)" in reasons(tool)["tegrastats"] or "cannot" in reasons(tool)["tegrastats.other"]


def test_a_line_without_end_costs_no_memory(board, monkeypatch):
    monkeypatch.setattr(feed, "HANG_S", PATIENCE_S)
    tool = tegrastats_of(board, "#!/bin/sh\necho GR3D_FREQ 5%\nexec yes xxxxxxxx | tr -d '\\n'\n")
    time.sleep(0.3)
    assert tool.read(time.monotonic_ns())[0] == 0.05
    assert len(tool.feed.unknown) < 16


def test_channels_that_come_later_are_added_behind(board, tmp_path):
    later = f"[ -e {tmp_path}/go ] && more='VDD_IN 5000/5000'"
    tool = tegrastats_of(board, f"#!/bin/sh\nwhile :; do {later}; echo GR3D_FREQ 6% $more; sleep 0.05; done\n")
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac"]
    (tmp_path / "go").touch()
    wait_until(lambda: tool.outdated)
    assert len(tool.read(time.monotonic_ns())) == 1  # not before it is asked to
    tool.refresh()
    assert [channel.key for channel in tool.channels] == ["tegrastats.gpu.busy_frac", "tegrastats.vdd_in.power_w"]
    assert not tool.outdated
    assert tool.read(time.monotonic_ns()) == [0.06, 5.0]


def test_tools_end_with_their_sensor(board):
    tool = tegrastats_of(board, "#!/bin/sh\necho GR3D_FREQ 5%\nsleep 600 &\nwait\n")
    process = tool.feed._process
    tool.close()
    wait_until(lambda: process.poll() is not None and group_is_gone(process.pid))


def test_one_tool_serves_all_who_read_it_and_ends_with_the_last(board):
    first = tegrastats_of(board, "#!/bin/sh\nwhile :; do echo GR3D_FREQ 5%; sleep 0.05; done\n")
    with Sensed(board.root) as again:
        (second,) = again.tools
        assert second.feed is first.feed
        assert second.channels[0] is not first.channels[0]  # each client's catalogue is its own
    second.close()  # once more does no harm
    process = first.feed._process
    assert process.poll() is None
    first.close()
    wait_until(lambda: process.poll() is not None)
    with Sensed(board.root) as after:
        assert after.tools[0].feed is not first.feed


def test_a_clock_set_back_an_hour_changes_nothing(board):
    text = "#!/bin/sh\nh=12\nwhile :; do echo 05-17-2026 $h:00:00 GR3D_FREQ 5%; h=11; sleep 0.05; done\n"
    tool = tegrastats_of(board, text)
    seen_ns = tool.feed.seen_ns
    wait_until(lambda: tool.feed.seen_ns > seen_ns)
    assert tool.read(time.monotonic_ns()) == [0.05]
    assert not tool.absent


def group_is_gone(pid):
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == pid and fields[0] not in "ZX":
            return False
    return True


def test_a_tool_is_started_from_a_list_without_a_shell(board, tmp_path):
    seen = tmp_path / "seen"
    tool = tegrastats_of(board, f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {seen}\necho GR3D_FREQ 5%\n")
    assert tool.channels
    assert seen.read_text().split() == ["--interval", "100"]


# ---- state


def state_of(board, name):
    return BoardState(board(name).root)


def test_the_state_of_a_jetson(board):
    state = state_of(board, "orin_nx").read()
    assert state["power_mode"] == {"value": "nvpmodel 25W"}
    assert state["governor"]["value"] == {"policy0": "schedutil", "policy4": "schedutil"}
    assert "policy4 is capped at 1.19 GHz of 1.98 GHz" in state["cpu_clock"]["warning"]
    assert state["gpu_clock"]["value"]["max_hz"] == 918000000
    assert "absent" in state["memory_clock"]
    assert all(set(entry) <= {"value", "absent", "warning"} for entry in state.values())
    assert all(("value" in entry) != ("absent" in entry) for entry in state.values())


def test_a_slow_governor_and_a_scaling_memory_clock_are_warned_about(board):
    state = state_of(board, "rk3588").read()
    assert state["governor"]["warning"] == (
        "governor is powersave on policy4, governor is powersave on policy6: decode will be slower than the board can; "
        "set performance to compare"
    )
    assert "memory runs at 528 MHz of 2112 MHz" in state["memory_clock"]["warning"]
    assert state["supply"] == {"value": "mains"}
    assert state["power_mode"]["absent"]


def test_throttling_now_and_earlier_is_told_in_words(board):
    state = state_of(board, "pi5").read()
    assert state["throttle"]["warning"] == "slowed down now: under-voltage, throttled"
    calm = build(board.root, {"sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled": "50000\n"})
    assert BoardState(calm).read()["throttle"] == {
        "value": "under-voltage (earlier), throttled (earlier)",
        "warning": "has happened since the start: under-voltage, throttled",
    }


def test_a_laptop_on_battery_with_swapped_memory(board):
    watched = state_of(board, "laptop")
    state = watched.read()
    assert "platform profile is low-power" in state["power_mode"]["warning"]
    assert "energy preference is power on policy0" in state["governor"]["warning"]
    assert "policy4 is capped at 2.00 GHz of 3.40 GHz" in state["cpu_clock"]["warning"]
    assert state["supply"]["value"] == "battery, 63 %"
    assert "warning" in state["supply"]
    assert "only 0.9 GB of memory are left" in state["memory"]["warning"]
    assert "2.0 GB are swapped out" in state["memory"]["warning"]
    assert state["bus"]["value"] == "PCIe 8.0 GT/s PCIe x4"
    assert "4 of its 8 lanes" in state["bus"]["warning"]
    assert state["throttle"] == {"value": "none"}  # 12 times before we came
    build(board.root, {"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "15\n"})
    assert "throttled by heat 3 times since attached" in watched.read()["throttle"]["warning"]


def test_a_fan_is_no_throttle_and_a_cooled_processor_is(board):
    assert "pwm-fan" not in str(state_of(board, "pi5").read()["throttle"])
    cooled = {
        "sys/class/thermal/cooling_device1/type": "thermal-cpufreq-0\n",
        "sys/class/thermal/cooling_device1/cur_state": "2\n",
        "sys/class/thermal/cooling_device1/max_state": "5\n",
    }
    state = BoardState(build(board.root, cooled)).read()
    assert "thermal-cpufreq-0 at step 2 of 5" in state["throttle"]["warning"]


def test_nvpmodel_is_asked_where_it_keeps_no_file(board):
    asked = "#!/bin/sh\n[ \"$1\" = -q ] && printf 'NV Power Mode: MODE_15W\\n2\\n'\n"
    sensed = board({**PROC, "usr/sbin/nvpmodel": asked})
    (sensed.root / "usr/sbin/nvpmodel").chmod(0o755)
    assert BoardState(sensed.root).read()["power_mode"] == {"value": "nvpmodel MODE_15W"}


def test_an_empty_machine_has_a_reason_for_each_entry(tmp_path):
    state = BoardState(tmp_path).read()
    assert all(len(entry["absent"]) > 10 for entry in state.values())


def test_other_programs_are_found_and_ours_are_not():
    watched = Processes(Path("/"))
    watched.look()
    argv = [sys.executable, "-c", "while True: pass"]
    subprocess.run(["setsid", "--fork", *argv], stdin=subprocess.DEVNULL, check=True)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while watched.entry.get("value", {}).get("cores", 0.0) <= 0.05 and time.monotonic() < deadline_s:
            time.sleep(0.2)
            watched.look()
    finally:
        found = busy_python(argv)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
    assert found
    assert watched.entry["value"]["cores"] > 0.05
    with running(argv) as own:
        family = processes._family(os.getpid(), {own.pid: os.getpid(), 1: 0, 2: 1})
    assert family == {os.getpid(), own.pid}


def busy_python(argv):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[:-1] == [word.encode() for word in argv]:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_what_disturbs_is_warned_about_by_name():
    entry = processes._entry({"chrome": 1.2, "sshd": 0.01}, ["2.50"])
    assert entry["value"]["most"] == [{"name": "chrome", "cores": 1.2}, {"name": "sshd", "cores": 0.01}]
    assert entry["warning"] == "other programs take 1.2 cores (chrome 1.2): timings will be worse"
    assert "warning" not in processes._entry({"sshd": 0.01}, [])


def test_the_state_is_sent_when_words_change_not_at_each_step_of_a_clock(board):
    sensed = board("rk3588")
    sent = []
    watch = StateWatch(BoardState(sensed.root), sent.append)
    thread = threading.Thread(target=watch.run, args=(0.01, 60.0), daemon=True)
    thread.start()
    clock = "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq"
    governor = "sys/devices/system/cpu/cpufreq/policy4/scaling_governor"
    wait_until(lambda: any("others" in message["state"] for message in sent) or time.sleep(0.1) or True)
    before = len(sent)
    build(sensed.root, {clock: "408000\n"})
    time.sleep(0.1)
    assert len(sent) <= before + 1  # the first look at other programs at most
    before = len(sent)
    build(sensed.root, {governor: "performance\n"})
    wait_until(lambda: sent[before:] and governor_in(sent[-1]) == "performance")  # not while it is being written
    watch.stop()
    thread.join(PATIENCE_S)
    assert sent[-1]["op"] == "state"


def governor_in(message):
    return message["state"]["governor"].get("value", {}).get("policy4")


def test_numbers_alone_make_no_new_state():
    assert gist({"a": {"value": 1, "warning": "1.2 cores"}}) == gist({"a": {"value": 2, "warning": "3 cores"}})
    assert gist({"a": {"value": "x"}}) != gist({"a": {"value": "y"}})
    assert gist({"a": {"value": 1}}) != gist({"a": {"value": 1, "warning": "w"}})


# ---- the whole way


def test_a_client_sees_the_board_as_its_own_agent_tells_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    root = build(tmp_path / "board", {key: str(v) if isinstance(v, Denied) else v for key, v in ORIN_NX.items()})
    argv = [sys.executable, str(LAUNCHER), "agent", "--root", str(root)]
    with AttachedBoard(lambda: LocalTransport(argv)) as attached:
        hello = attached.hello
        channels = {channel.key: channel for channel in attached.channels}
        deadline_s = time.monotonic() + PATIENCE_S
        while "tegrastats.vdd_in.power_w" not in channels:  # a tool that was slow to start comes in a later catalogue
            assert time.monotonic() < deadline_s
            attached.wait_for_periods()
            channels = {channel.key: channel for channel in attached.channels}
    assert hello["board"]["release"] == "L4T 36.4.3"
    assert hello["state"]["power_mode"] == {"value": "nvpmodel 25W"}
    total = channels["ina3221.vdd_in.power_w"]
    assert (total.total, total.covers) == ("input", "the whole board (rail VDD_IN)")
    assert total.error == pytest.approx(5.008 * 0.008 + 2.84 * 0.008)
    assert channels["tegrastats.vdd_in.power_w"].part_of == total.key
    assert channels["ina3221.vdd_soc.power_w"].part_of == total.key
