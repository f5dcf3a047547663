"""Whole boards as made-up trees, with tools that are real processes."""

import stat

from tests.places import DATA

OUTPUTS = DATA / "sensors"
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
