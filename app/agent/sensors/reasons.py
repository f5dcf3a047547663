"""Why a board has no power: the one thing that stands in its way, and what to type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Sequence

from app.agent.channel import Channel
from app.agent.files import is_virtual, text

_TOOLS = ("pi", "powermetrics", "tegrastats", "npu_smi", "cnmon")
"""Tools that measure a board, or most of it."""

_NONE = "no power sensor on this machine: "


def why_no_power(root: Path, channels: Sequence[Channel], absent: Sequence[Channel]) -> str:
    """Return why this machine has no power.

    Parameters
    ----------
    channels
        Those with samples, none of which is a power.
    absent
        Those without, of tools too, each with its reason.
    """
    powers = [channel for channel in absent if channel.unit == "W" and not channel.key.startswith("battery")]
    locked = [channel.absent for channel in powers if channel.absent.startswith("needs ")]
    tools = [channel.absent for name in _TOOLS for channel in absent if channel.key == name]
    for reasons in (locked, tools, [channel.absent for channel in powers]):
        if reasons:
            return reasons[0]
    reason = _NONE + _missing(root)
    if is_virtual(root):
        return reason + "; it is a virtual machine, and its host keeps the energy counters"
    if any(channel.key == "battery.power_w" for channel in channels):
        return reason + "; the battery shows its own flow only, which is the machine's power while it discharges"
    return reason


def _missing(root: Path) -> str:
    """Return what was looked for, which is not the same for each kind of processor."""
    processor = text(root / "proc/cpuinfo")
    if (root / "proc/device-tree").exists() or re.search(r"^(CPU architecture|isa|mmu)\s*:", processor, re.M):
        return "no hwmon power input, and no tool of its maker that measures it"
    missing = "no RAPL domain in /sys/class/powercap and no hwmon power input"
    if re.search(r"^vendor_id\s*:", processor, re.M) and not is_virtual(root):
        return f"{missing}; where its processor has RAPL this shows it: sudo modprobe intel_rapl_msr"
    return missing
