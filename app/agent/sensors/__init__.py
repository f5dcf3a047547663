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
from app.agent.files import AS_ROOT, text
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
from app.agent.sensors.reading import importance
from app.agent.sensors.reasons import why_no_power
from app.agent.sensors.tools import ToolSensor, find_tool, left_out_words
from app.agent.sensors.totals import mark

TOOL_PATIENCE_S = 0.4
"""How long the first catalogue waits for tools; a tool that is slower appears in a later one."""

MAX_CHANNELS = 320
"""Of files and cards: with those of the tools they fit into the message that lists them."""

_FILES: Tuple[Callable[[Path], Tuple[List[Sensor], List[Channel]]], ...] = (
    *(sysfs.cpu_clocks, proc.cpu_times, proc.memory, proc.load, sysfs.temperatures, rapl.find, ina.find),
    *(sysfs.hwmon_power, devfreq.find, devfreq.emc, rknpu.find, horizon.bpu, adreno.find, pi.throttle, battery.find),
)


class _Use(NamedTuple):
    """A tool, the check for its hardware, and whether it needs root."""

    tool: Tool
    has_hardware: Callable[[Path], bool]
    needs_root: bool = False
    why_not: Callable[[Path], str] = lambda root: ""  # why it cannot work, before it is started


def _exists(*names: str) -> Callable[[Path], bool]:
    return lambda root: any((root / name).exists() for name in names)


def _has_power_chip(root: Path) -> bool:
    return re.search(r"Raspberry Pi (5|500|Compute Module 5)", text(root / "proc/device-tree/model")) is not None


def _no_firmware_device(root: Path) -> str:
    """Return why vcgencmd cannot work on this machine itself: a kernel or container without the device."""
    if root != Path("/") or _exists(*pi.DEVICES)(root):
        return ""
    return "there is no /dev/vcio: the kernel is not that of Raspberry Pi OS, or the container lacks --device /dev/vcio"


_NVIDIA = Tool(
    "nvidia",
    [nvidia.argv(nvidia.FIELDS), nvidia.argv(nvidia.BASIC_FIELDS)],
    lambda: nvidia.Table().parse,
    rows=True,
    refusals=nvidia.REFUSALS,
)
_POWERMETRICS = Tool(
    "powermetrics",
    [powermetrics.ARGV, powermetrics.ARGV_CPU],
    lambda: powermetrics.parse,
    block=powermetrics.BLOCK,
    refusals=powermetrics.REFUSALS,
)
_PMIC = Tool("pi", [pi.ARGV], lambda: pi.parse_pmic, every_s=0.5, refusals=pi.REFUSALS)
_USES = (
    _Use(Tool("tegrastats", [tegrastats.ARGV], lambda: tegrastats.parse), _exists("etc/nv_tegra_release")),
    _Use(_NVIDIA, _exists("proc/driver/nvidia/gpus")),
    _Use(
        Tool("npu_smi", [npu_smi.ARGV], lambda: npu_smi.parse, every_s=2.0, refusals=npu_smi.REFUSALS),
        _exists("dev/davinci0", "dev/davinci_manager"),
    ),
    _Use(
        Tool("cnmon", [cnmon.ARGV], lambda: cnmon.parse, every_s=2.0),
        _exists("dev/cambricon_dev0", "dev/cambricon_ctl"),
    ),
    _Use(Tool("horizon", [horizon.ARGV], lambda: horizon.parse, every_s=1.0), _exists("sys/devices/system/bpu"), True),
    _Use(_PMIC, _has_power_chip, why_not=_no_firmware_device),
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
    absent += _trim(sensors, cards)
    deadline_s = time.monotonic() + TOOL_PATIENCE_S
    for tool in tools:
        tool.feed.answered.wait(max(0.0, deadline_s - time.monotonic()))
        tool.refresh()
    sensors += [*cards, *tools]
    arrange(root, sensors, absent)
    return sensors, absent


def _trim(files: List[Sensor], cards: List[Sensor]) -> List[Channel]:
    """Leave out the sensors that matter least where there are more than a catalogue holds; return how many in words."""
    sensors = [*files, *cards]
    ranked = sorted(sensors, key=lambda sensor: min(importance(c.key, c.unit) for c in sensor.channels))
    n, gone = 0, []
    for sensor in ranked:
        n += len(sensor.channels)
        if n > MAX_CHANNELS:
            gone.append(sensor)
    if not gone:
        return []
    for kept in (files, cards):
        kept[:] = [sensor for sensor in kept if sensor not in gone]
    keys = [channel.key for sensor in gone for channel in sensor.channels]
    return [Channel("left_out", "1", "", absent=left_out_words(keys))]


def arrange(root: Path, sensors: Sequence[Sensor], absent: List[Channel]) -> None:
    """Give every channel a key of its own and its part in the total, and say why there is no power if there is none."""
    channels = [channel for sensor in sensors for channel in sensor.channels]
    absent[:] = [channel for channel in absent if channel.key != "board.power_w" or channel.source]
    if not any(c.unit == "W" and c.total != "flow" for c in channels) and not _has(absent, "board.power_w"):
        known = [*absent, *(channel for tool in sensors if isinstance(tool, ToolSensor) for channel in tool.absent)]
        absent.append(Channel("board.power_w", "W", "", absent=why_no_power(root, channels, known)))
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
    for tool, has_hardware, needs_root, why_not in (use for use in _USES if use.tool.name not in instead):
        name = tool.argvs[0][0]
        path = find_tool(name, root)
        here = has_hardware(root) or (path is not None and tool is not _PMIC)  # each Raspberry Pi has that tool
        reason = ""
        if path is None and here:
            reason = f"{name} is not installed, or not in PATH: the values of this hardware come from it"
        elif path is not None and here and needs_root and not is_root():
            reason = f"needs root: {path} answers root only; {AS_ROOT}"
        elif path is not None and here and why_not(root):
            reason = why_not(root)
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
