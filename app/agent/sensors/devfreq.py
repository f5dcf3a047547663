"""Clock and load of what devfreq scales: GPU, NPU, memory controller.

Vendor kernels show a load next to the clock: ``33@528000000Hz`` (Rockchip), a plain number of per mille in the device's
own folder (Jetson: 345 is 34.5 %). The load of the memory controller (``dmc``) is a proxy for used bandwidth.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import List, Sequence, Tuple

from app.agent.channel import Channel, Gauge, Sensor, word
from app.agent.files import KernelFile, text, why_unreadable
from app.agent.sensors.reading import Parsed, number
from app.agent.sensors.rknpu import DEBUGFS_RULE

BANDWIDTH = "load of the memory controller: a proxy for used bandwidth"

_LOAD = re.compile(r"(?P<load>\d{1,5})%?(?:@(?P<clock>\d{1,12})Hz)?", re.ASCII)
_SUBJECTS = {
    "dmc": "dram",
    "bwmgr": "dram",
    "emc": "dram",
    "ga10b": "gpu",
    "gv11b": "gpu",
    "gp10b": "gpu",
    "gm20b": "gpu",
}
_INTERVAL_NS = 10_000_000


def parse_load(raw: str, per_mille: bool = False) -> Parsed:
    """Return ``busy_frac`` of one load file, and ``clock_hz`` where it names one; 0 Hz is a clock that stands still."""
    parsed = Parsed()
    shown = raw[:200].strip(" \t\r\n\0")
    match = _LOAD.fullmatch(shown)
    if match is None:
        parsed.note(shown)
        return parsed
    share = number(match["load"]) / (1000 if per_mille else 100)
    parsed.add("busy_frac", share if share <= 1 else math.nan, "frac", match["load"])
    if share > 1:
        parsed.note(shown)
    if match["clock"] is not None:
        parsed.add("clock_hz", number(match["clock"]), "Hz", match["clock"])
    return parsed


class Load:
    """The share in a load file."""

    interval_ns = _INTERVAL_NS

    def __init__(self, channel: Channel, file: KernelFile, per_mille: bool) -> None:
        self.channels = (channel,)
        self.file = file
        self._per_mille = per_mille

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the share."""
        values = parse_load((self.file.read() or b"").decode("ascii", "replace"), self._per_mille).values
        return (values["busy_frac"].value if values else math.nan,)


def subject(name: str) -> str:
    """Return the name of a devfreq device without its address: ``fdab0000.npu`` and ``17000000.ga10b`` are npu, gpu."""
    name = re.sub(r"^[0-9a-f]{5,16}\.|^soc:", "", name)
    return _SUBJECTS.get(name, word(name))


def find(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return clock and load of each devfreq device."""
    sensors: List[Sensor] = []
    absent: List[Channel] = []
    for folder in sorted((root / "sys/class/devfreq").glob("*")):
        name = subject(folder.name)
        if "kgsl" in folder.name:  # shown by app.agent.sensors.adreno
            continue
        channel = Channel(f"{name}.clock_hz", "Hz", str(folder / "cur_freq"))
        try:
            sensors.append(Gauge(channel, KernelFile(folder / "cur_freq"), 1.0, (0.0, math.inf), _INTERVAL_NS))
        except OSError as error:
            channel.absent = why_unreadable(error, folder / "cur_freq")
            absent.append(channel)
        for path, per_mille in ((folder / "load", False), (folder / "device/load", True)):
            if not path.exists():
                continue
            covers = BANDWIDTH if name == "dram" else f"share of the time that {name} was busy"
            channel = Channel(f"{name}.busy_frac", "frac", str(path), covers, error=0.001 if per_mille else 0.01)
            try:
                sensors.append(Load(channel, KernelFile(path), per_mille))
            except OSError as error:
                channel.absent = why_unreadable(error, path)
                absent.append(channel)
            break
    return sensors, absent


class EmcLoad:
    """The load of a Jetson's memory controller: its mean activity over its clock, both in kHz, in percent."""

    interval_ns = 50_000_000

    def __init__(self, channel: Channel, activity: KernelFile, rate: KernelFile) -> None:
        self.channels = (channel,)
        self.file = activity
        self._rate = rate

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the share."""
        activity, rate_khz = self.file.number(), self._rate.number() * 1e-3
        share = activity / rate_khz / 100 if rate_khz > 0 else math.nan
        return (share if 0 <= share <= 1 else math.nan,)


def emc(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return the load of the memory controller of a Jetson; its files belong to root."""
    if "nvidia" not in text(root / "proc/device-tree/compatible") and "NVIDIA" not in text(
        root / "proc/device-tree/model"
    ):
        return [], []
    debug = root / "sys/kernel/debug"
    places = (debug / "cactmon/mc_all", root / "sys/kernel/actmon_avg_activity/mc_all")
    path = places[1] if places[1].exists() else places[0]
    channel = Channel("emc.busy_frac", "frac", str(path), BANDWIDTH, error=0.01)
    try:
        sensor = EmcLoad(channel, KernelFile(path), KernelFile(debug / "bpmp/debug/clk/emc/rate"))
    except OSError as error:
        channel.absent = why_unreadable(error, Path(str(error.filename)), DEBUGFS_RULE)
        return [], [channel]
    return [sensor], []
