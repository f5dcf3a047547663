"""A machine's files, made up, and what its sensors read there."""

from app.agent.sensors import discover

RAPL_RANGE_UJ = 262143328850


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


def read_all(root, t_ns=0):
    sensors, _ = discover(root)
    return {
        channel.key: value
        for sensor in sensors
        for channel, value in zip(sensor.channels, sensor.read(t_ns), strict=True)
    }


def absent(root):
    return {channel.key: channel.absent for channel in discover(root)[1]}


def put(path, value):
    """Write in place: the sensor keeps its descriptor."""
    with path.open("r+") as file:
        file.truncate()
        file.write(str(value))


STAT = "cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
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
