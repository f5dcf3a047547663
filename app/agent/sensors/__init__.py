"""Sensors of a board: its channels, and absent ones with the reason. One file a source.

Paths and traps follow the kernel's documentation and the tools' own output. Prefixes end here: every channel is SI.
`root` is "/" on a machine and a made-up tree in tests.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

from app.agent.channel import Channel, Sensor
from app.agent.files import is_virtual, text
from app.agent.sensors import (
    adreno,
    battery,
    cnmon,
    devfreq,
    horizon,
    ina,
    npu_smi,
    nvidia,
    pi,
    powermetrics,
    proc,
    rapl,
    rknpu,
    sysfs,
    tegrastats,
)
from app.agent.sensors.feed import Tool
from app.agent.sensors.tools import ToolSensor, find_tool
from app.agent.sensors.totals import mark

TOOL_PATIENCE_S = 0.4
"""How long the first catalogue waits for tools; a tool that is slower appears in a later one."""

_FILES: Tuple[Callable[[Path], Tuple[List[Sensor], List[Channel]]], ...] = (
    *(sysfs.cpu_clocks, proc.cpu_times, proc.memory, proc.load, sysfs.temperatures, rapl.find, ina.find),
    *(sysfs.hwmon_power, devfreq.find, devfreq.emc, rknpu.find, horizon.bpu, adreno.find, pi.throttle, battery.find),
)


class _Use(NamedTuple):
    """A tool, the check for its hardware, and whether it needs root."""

    tool: Tool
    has_hardware: Callable[[Path], bool]
    needs_root: bool = False


def _exists(*names: str) -> Callable[[Path], bool]:
    return lambda root: any((root / name).exists() for name in names)


def _has_power_chip(root: Path) -> bool:
    return re.search(r"Raspberry Pi (5|500|Compute Module 5)", text(root / "proc/device-tree/model")) is not None


_NVIDIA = Tool(
    "nvidia", [nvidia.argv(nvidia.FIELDS), nvidia.argv(nvidia.BASIC_FIELDS)], lambda: nvidia.Table().parse, rows=True
)
_POWERMETRICS = Tool("powermetrics", [powermetrics.ARGV], lambda: powermetrics.parse, block=powermetrics.BLOCK)
_PMIC = Tool("pi", [pi.ARGV], lambda: pi.parse_pmic, every_s=0.5)
_USES = (
    _Use(Tool("tegrastats", [tegrastats.ARGV], lambda: tegrastats.parse), _exists("etc/nv_tegra_release")),
    _Use(_NVIDIA, _exists("proc/driver/nvidia/gpus")),
    _Use(
        Tool("npu_smi", [npu_smi.ARGV], lambda: npu_smi.parse, every_s=2.0),
        _exists("dev/davinci0", "dev/davinci_manager"),
    ),
    _Use(
        Tool("cnmon", [cnmon.ARGV], lambda: cnmon.parse, every_s=2.0),
        _exists("dev/cambricon_dev0", "dev/cambricon_ctl"),
    ),
    _Use(Tool("horizon", [horizon.ARGV], lambda: horizon.parse, every_s=1.0), _exists("sys/devices/system/bpu"), True),
    _Use(_PMIC, _has_power_chip),
    _Use(_POWERMETRICS, _exists("usr/bin/powermetrics"), True),
)


def discover(root: Path) -> "tuple[list[Sensor], list[Channel]]":
    """Find what this machine can sense, and start the tools that it has.

    Returns
    -------
    sensors
        Those that can be read; their channels, in order, are the columns of a record.
    absent
        Channels that this machine could or should have, each with the reason it has not.
    """
    cards, absent = _cards(root)
    tools, missing = _start_tools(root, instead=[_NVIDIA.name] if cards else [])
    absent += missing
    sensors: List[Sensor] = []
    for find in _FILES:
        found, missing = find(root)
        sensors += found
        absent += missing
    deadline_s = time.monotonic() + TOOL_PATIENCE_S
    for tool in tools:
        tool.feed.answered.wait(max(0.0, deadline_s - time.monotonic()))
        tool.refresh()
    sensors += [*cards, *tools]
    arrange(root, sensors, absent)
    return sensors, absent


def arrange(root: Path, sensors: Sequence[Sensor], absent: List[Channel]) -> None:
    """Give every channel a key of its own and its part in the total, and say why there is no power if there is none."""
    channels = [channel for sensor in sensors for channel in sensor.channels]
    absent[:] = [channel for channel in absent if channel.key != "board.power_w" or channel.source]
    if not any(c.unit == "W" and c.total != "flow" for c in channels) and not _has(absent, "board.power_w"):
        absent.append(Channel("board.power_w", "W", "", absent=_why_no_power(root, channels, absent)))
    _make_unique([*channels, *absent])
    mark(channels, text(root / "proc/device-tree/model"))


def _cards(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return the NVML channels, where there may be a card."""
    if not _exists("proc/driver/nvidia/gpus", "dev/nvidiactl", "dev/dxg")(root):
        return [], []
    try:
        from app.agent.sensors import nvml
    except ImportError:  # a Python that was built without ctypes
        return [], []
    return nvml.find(root)


def _start_tools(root: Path, instead: Sequence[str]) -> Tuple[List[ToolSensor], List[Channel]]:
    """Start the tools but those whose values come from elsewhere."""
    tools: List[ToolSensor] = []
    absent: List[Channel] = []
    if os.name != "posix":  # they are read through pipes that can be waited for
        return tools, absent
    for tool, has_hardware, needs_root in (use for use in _USES if use.tool.name not in instead):
        name = tool.argvs[0][0]
        path = find_tool(name, root)
        here = has_hardware(root) or (path is not None and tool is not _PMIC)  # each Raspberry Pi has that tool
        reason = ""
        if path is None and here:
            reason = f"{name} is not installed, or not in PATH: the values of this hardware come from it"
        elif path is not None and here and needs_root and not is_root():
            reason = f"needs root: {path} answers root only"
        elif path is not None and here:
            tools.append(ToolSensor(tool, path))
        if reason:
            absent.append(Channel(tool.name, "1", " ".join(tool.argvs[0]), absent=reason))
    return tools, absent


def is_root() -> bool:
    """Return True if this process may read files of root."""
    get: Any = getattr(os, "geteuid", None)
    return get is not None and get() == 0


def _has(channels: Sequence[Channel], key: str) -> bool:
    return any(channel.key == key for channel in channels)


def _why_no_power(root: Path, channels: Sequence[Channel], absent: Sequence[Channel]) -> str:
    locked = [channel for channel in absent if channel.unit == "W"]
    if locked:
        return locked[0].absent
    reason = "no power sensor on this machine: no RAPL domain in /sys/class/powercap and no hwmon power input"
    if is_virtual(root):
        return reason + "; it is a virtual machine, and its host keeps the energy counters"
    if _has(channels, "battery.power_w"):
        return reason + "; the battery shows its own flow only, which is the machine's power while it discharges"
    return reason


def _make_unique(channels: Sequence[Channel]) -> None:
    """Number the subjects of keys that come twice: a machine with two processors has package and package2."""
    taken = set()
    for channel in channels:
        subject, _, quantity = channel.key.rpartition(".")
        number = 2
        while channel.key in taken:
            channel.key = f"{subject}{number}.{quantity}" if subject else f"{quantity}{number}"
            number += 1
        taken.add(channel.key)
