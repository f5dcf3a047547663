"""In what state the board is: what decides how fast it runs and what would spoil a measurement, in words.

Each entry is ``{"value": ...}`` or ``{"absent": reason}``, with a ``"warning"`` where a measurement made now would not
show what the board can.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from app.agent.files import parse_int, text
from app.agent.load import Pressure
from app.agent.processes import Processes
from app.agent.sensors.devfreq import subject
from app.agent.sensors.feed import lower_priority
from app.agent.sensors.pi import parse_throttled, throttle_file
from app.agent.sensors.tools import find_tool

Entry = Dict[str, Any]

EVERY_S = 5.0
FIRST_S = 1.0  # between the two looks that it takes to see what else runs, and between glances at the pressure
PROCESSES_EVERY_S = 10.0
_KIB = 1024
_DYNAMIC_DRIVERS = ("intel_pstate", "amd-pstate-epp", "amd_pstate_epp")  # their "powersave" raises the clock with load
_LITTLE_MEMORY_FRAC = 0.1
_MUCH_SWAP_FRAC = 0.05
_COOLED = re.compile(r"cpu|processor|gpu|devfreq|powerclamp|throttl|tcc", re.I)
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")
_NV_MODE = re.compile(r"^<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+?)\s*>", re.M)


def absent(reason: str) -> Entry:
    """Return the entry of what is not known."""
    return {"absent": reason}


def present(value: Any, *warnings: str) -> Entry:
    """Return the entry of a value, with what is wrong about it."""
    said = "; ".join(warning for warning in warnings if warning)
    return {"value": value, "warning": said} if said else {"value": value}


class BoardState:
    """Reads the state of the board whose file system starts at `root`; remembers what counts up."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._n_throttled: Optional[int] = None  # at the first read
        self._nv_asked: Optional[Entry] = None
        self._processes = Processes(root)
        self._pressure = Pressure(root)

    def read(self) -> Dict[str, Entry]:
        """Return all entries; the processes are those found last, see `look_at_processes`."""
        return {
            "power_mode": self.power_mode(),
            "governor": self.governor(),
            "cpu_clock": self.cpu_clock(),
            "gpu_clock": self.devfreq_clock(("gpu",), "no GPU whose clock the kernel shows"),
            "npu_clock": self.devfreq_clock(("npu",), "no NPU whose clock the kernel shows"),
            "memory_clock": self.memory_clock(),
            "bus": self.bus(),
            "throttle": self.throttle(),
            "memory": self.memory(),
            "supply": self.supply(),
            "others": self._processes.entry,
        }

    def look_at_processes(self) -> None:
        """Find what else runs, over the time since the last look."""
        self._processes.look()

    def load_changed(self) -> bool:
        """Return True if other programs seem to have begun or ended since the last call: another look is worth it."""
        return self._pressure.changed(self._processes.busy)

    # ---- one entry each

    def power_mode(self) -> Entry:
        """Return the mode of NVIDIA's nvpmodel or the platform profile."""
        root = self._root
        status = re.search(r"pmode:(\d+)", text(root / "var/lib/nvpmodel/status"))
        if status:
            number = int(status.group(1))
            names = dict(_NV_MODE.findall(text(root / "etc/nvpmodel.conf")))
            return present(f"nvpmodel {names.get(str(number), number)}")
        tool = find_tool("nvpmodel", root)
        if tool is not None:
            if self._nv_asked is None:
                self._nv_asked = _ask_nvpmodel(tool)
            return self._nv_asked
        profile = text(root / "sys/firmware/acpi/platform_profile")
        if not profile:
            return absent("this board has no power modes that the kernel shows")
        slow = profile in ("low-power", "quiet", "cool")
        return present(
            f"platform profile {profile}", f"platform profile is {profile}: clocks are held down" if slow else ""
        )

    def governor(self) -> Entry:
        """Return the cpufreq governor of each policy."""
        governors, warnings = {}, []
        for policy in self._policies():
            governor = text(policy / "scaling_governor")
            if not governor:
                continue
            driver, preference = text(policy / "scaling_driver"), text(policy / "energy_performance_preference")
            governors[policy.name] = f"{governor} ({preference})" if preference else governor
            if driver in _DYNAMIC_DRIVERS and governor == "powersave":
                if preference == "power":
                    warnings.append(f"energy preference is power on {policy.name}")
            elif governor in ("powersave", "conservative"):
                warnings.append(f"governor is {governor} on {policy.name}")
        if not governors:
            return absent("no frequency driver")
        why = ": decode will be slower than the board can; set performance to compare" if warnings else ""
        return present(governors, ", ".join(warnings) + why)

    def cpu_clock(self) -> Entry:
        """Return the lowest, the highest and the present clock of each policy."""
        clocks, warnings = {}, []
        for policy in self._policies():
            names = ("scaling_min_freq", "scaling_max_freq", "scaling_cur_freq", "cpuinfo_max_freq")
            low, high, now, able = (_khz(policy / name) for name in names)
            if high is None:
                continue
            clocks[policy.name] = {"min_hz": low, "max_hz": high, "now_hz": now}
            if able and high < 0.98 * able:
                warnings.append(f"{policy.name} is capped at {high / 1e9:.2f} GHz of {able / 1e9:.2f} GHz")
        return present(clocks, *warnings) if clocks else absent("no frequency driver")

    def _policies(self) -> List[Path]:
        base = self._root / "sys/devices/system/cpu/cpufreq"
        return sorted(base.glob("policy*"), key=lambda path: (len(path.name), path.name))

    def devfreq_clock(self, subjects: Tuple[str, ...], why_not: str) -> Entry:
        """Return governor and clocks of the first devfreq device that is one of `subjects`."""
        for folder in sorted((self._root / "sys/class/devfreq").glob("*")):
            if subject(folder.name).split("_")[0] not in subjects:
                continue
            low, high, now = (parse_int(text(folder / name)) for name in ("min_freq", "max_freq", "cur_freq"))
            governor = text(folder / "governor")
            if high is None:
                continue
            slow = governor == "powersave"
            return present(
                {"governor": governor, "min_hz": low, "max_hz": high, "now_hz": now},
                f"governor of {folder.name} is powersave: set performance to compare" if slow else "",
            )
        return absent(why_not)

    def memory_clock(self) -> Entry:
        """Return the clock of the memory, which decides the speed of decode."""
        found = self.devfreq_clock(("dram",), "")
        value = found.get("value")
        if value:
            now, high = value["now_hz"], value["max_hz"]
            low = now is not None and now < 0.9 * high
            steady = value["min_hz"] == high
            warning = f"memory runs at {(now or 0) / 1e6:.0f} MHz of {high / 1e6:.0f} MHz and scales with load"
            return present(value, found.get("warning", ""), warning if low and not steady else "")
        rate = parse_int(text(self._root / "sys/kernel/debug/bpmp/debug/clk/emc/rate"))
        if rate:
            return present({"now_hz": rate})
        return absent("the kernel shows no clock of the memory to users")

    def bus(self) -> Entry:
        """Return the bus of a graphics card."""
        for folder in sorted((self._root / "sys/bus/pci/devices").glob("*")):
            if not text(folder / "class").startswith(("0x0300", "0x0302", "0x1200")):
                continue
            width, most = (parse_int(text(folder / f"{which}_link_width")) for which in ("current", "max"))
            if not width or not most:
                continue
            speed = text(folder / "current_link_speed")
            return present(
                f"PCIe {speed} x{width}",
                f"the card has {width} of its {most} lanes: loading a model is slower" if width < most else "",
            )
        return absent("no card on a PCIe link")

    def throttle(self) -> Entry:
        """Return causes of throttling, now and since the start."""
        now: List[str] = []
        before: List[str] = []
        bits = parse_throttled(text(throttle_file(self._root))).values
        for key, reading in bits.items():
            if reading.value:
                name = key.split(".")[1].replace("_", " ").replace("under voltage", "under-voltage")
                (before if name.endswith(" latched") else now).append(name.replace(" latched", ""))
        watched = bool(bits)
        for folder in sorted((self._root / "sys/class/thermal").glob("cooling_device*")):
            kind, state = text(folder / "type"), parse_int(text(folder / "cur_state"))
            if _COOLED.search(kind) and state is not None:
                watched = True
                if state > 0:
                    now.append(f"{kind} at step {state} of {text(folder / 'max_state')}")
        counts = [
            parse_int(text(path)) or 0
            for path in (self._root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/*_throttle_count")
        ]
        if counts:
            watched = True
            n = sum(counts)
            if self._n_throttled is not None and n > self._n_throttled:
                now.append(f"throttled by heat {n - self._n_throttled} times since attached")
            self._n_throttled = n if self._n_throttled is None else self._n_throttled
        if not watched:
            return absent("nothing on this board tells whether heat slows it down")
        since = [name for name in before if name not in now]
        return present(
            ", ".join([*now, *(f"{name} (earlier)" for name in since)]) or "none",
            f"slowed down now: {', '.join(now)}" if now else "",
            f"has happened since the start: {', '.join(since)}" if since else "",
        )

    def memory(self) -> Entry:
        """Return free memory and swap."""
        info = text(self._root / "proc/meminfo")
        found = {name: int(n) * _KIB for name, n in re.findall(r"^(\w+):\s+(\d{1,15}) kB$", info, re.M)}
        total, free = found.get("MemTotal"), found.get("MemAvailable")
        if not total or free is None:
            return absent("/proc/meminfo cannot be read")
        swapped = found.get("SwapTotal", 0) - found.get("SwapFree", 0)
        return present(
            {"available_byte": free, "total_byte": total, "swapped_byte": swapped},
            f"only {free / 1e9:.1f} GB of memory are left" if free < _LITTLE_MEMORY_FRAC * total else "",
            f"{swapped / 1e9:.1f} GB are swapped out: a model may be read from disk"
            if swapped > _MUCH_SWAP_FRAC * total
            else "",
        )

    def supply(self) -> Entry:
        """Return the supply: mains or battery."""
        folders = sorted((self._root / "sys/class/power_supply").glob("*"))
        kinds = {folder: text(folder / "type") for folder in folders if text(folder / "scope") != "Device"}
        online = [text(folder / "online") for folder, kind in kinds.items() if kind in ("Mains", "USB")]
        levels = [text(folder / "capacity") for folder, kind in kinds.items() if kind == "Battery"]
        if not levels:
            return present("mains") if "1" in online else absent("no battery, and no supply that tells of itself")
        states = [text(folder / "status") for folder, kind in kinds.items() if kind == "Battery"]
        level = f", {levels[0]} %" if levels[0] else ""
        if "1" in online or ("Discharging" not in states and not online):
            return present(f"mains, with a battery{level}")
        return present(f"battery{level}", "on battery: the machine may limit its power")


def _khz(path: Path) -> Optional[float]:
    value = parse_int(text(path))
    return None if value is None else value * 1e3


def _ask_nvpmodel(tool: Path) -> Entry:
    try:
        done = subprocess.run(
            [str(tool), "-q"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            timeout=5.0,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return absent(f"{tool} did not answer")
    found = re.search(r"^NV Power Mode:\s*(\S+)", done.stdout.decode("utf-8", "replace"), re.M)
    return present(f"nvpmodel {found.group(1)}") if found else absent(f"{tool} named no power mode")


class StateWatch:
    """Reads the state again and again in a thread of its own, and sends it when it has changed.

    Parameters
    ----------
    state
        What to read.
    send
        Takes the messages.
    """

    def __init__(self, state: BoardState, send: Callable[[Dict[str, Any]], None]) -> None:
        self._state = state
        self._send = send
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()

    def run(self, every_s: float = EVERY_S, processes_every_s: float = PROCESSES_EVERY_S) -> None:
        """Watch until stopped."""
        lower_priority()
        shown = gist(self._state.read())
        look_s = time.monotonic()
        self._state.look_at_processes()
        read_s = look_s
        while not self._stopped.wait(min(FIRST_S, every_s)):
            changed = self._state.load_changed()
            if time.monotonic() >= look_s or changed:
                self._state.look_at_processes()
                look_s = time.monotonic() + processes_every_s
            elif time.monotonic() < read_s:
                continue
            read_s = time.monotonic() + every_s
            state = self._state.read()
            new = gist(state)
            if new != shown:
                shown = new
                self._send({"op": "state", "state": state})


def gist(state: Dict[str, Entry]) -> Dict[str, Any]:
    """Return the part of a state whose change is worth a message: words and warnings, not clocks or free memory."""
    found: Dict[str, Any] = {}
    for name, entry in state.items():
        value = entry.get("value")
        words = value if isinstance(value, str) else {}
        if isinstance(value, dict):
            words = {key: item for key, item in value.items() if isinstance(item, str)}
        found[name] = (words, entry.get("absent"), _NUMBERS.sub("#", entry.get("warning", "")))
    return found
