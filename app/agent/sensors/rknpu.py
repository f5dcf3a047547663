"""The load of Rockchip NPUs: a debugfs file with a share for each core, in three forms.

``NPU load:  Core0: 63%, Core1: 65%,``, ``NPU load:  37%`` and ``NPU0: 100%, NPU1: 98%``. A load of 20000 % has been
seen (rockchip-linux/rknn-toolkit2 #293): more than 100 % is shown as 100 %, and the channel says so.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import List, Sequence, Tuple

from app.agent.channel import Channel, Sensor
from app.agent.files import KernelFile, why_unreadable
from app.agent.sensors.reading import Parsed, number

DEBUGFS_RULE = "mount -o remount,mode=755 /sys/kernel/debug"
OVER = "a load above 100 % was read: shown as 100 %"

_CORE = re.compile(r"(?:Core|NPU)(?P<core>\d{1,2}): *(?P<load>\d{1,9})%", re.ASCII)
_WHOLE = re.compile(r"NPU load: *(?P<load>\d{1,9})%", re.ASCII)
_PREFIX = re.compile(r"NPU load:\s*(?=Core)", re.ASCII)


def parse(text: str) -> Parsed:
    """Return ``rknpu.core0.busy_frac`` ... of the cores, or ``rknpu.busy_frac`` where the file has one number."""
    parsed = Parsed()
    for item in _PREFIX.sub("", text[:4096]).strip(" \t\r\n\0").split(","):
        core, whole = _CORE.fullmatch(item.strip()), _WHOLE.fullmatch(item.strip())
        match = core or whole
        if match is None:
            parsed.note(item)
            continue
        load = number(match["load"]) / 100
        key = f"rknpu.core{core['core']}.busy_frac" if core else "rknpu.busy_frac"
        parsed.add(key, min(load, 1.0), "frac", match["load"])
        if load > 1:
            parsed.note(f"{OVER} ({match.group()})")
    return parsed


class NpuLoad:
    """The shares of one load file; its columns are those that the first read showed."""

    interval_ns = 20_000_000

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        first = parse((file.read() or b"").decode("ascii", "replace"))
        self.channels = tuple(
            Channel(key, "frac", str(file.path), "share of the time the core was busy", error=0.01)
            for key in first.values
        )

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the shares, NaN for a core that is not listed now."""
        parsed = parse((self.file.read() or b"").decode("ascii", "replace"))
        if any(note.startswith(OVER) for note in parsed.notes):
            for channel in self.channels:
                channel.note = OVER
        values = parsed.values
        return [values[c.key].value if c.key in values else math.nan for c in self.channels]


def find(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return the load of the NPU of a Rockchip board; its clock is among the devfreq devices."""
    path = root / "sys/kernel/debug/rknpu/load"
    has_npu = any((root / "sys/class/devfreq").glob("*npu*")) or (root / "sys/module/rknpu").exists()
    try:
        load = NpuLoad(KernelFile(path))
    except OSError as error:
        if not has_npu:
            return [], []
        reason = why_unreadable(error, path, DEBUGFS_RULE)
        return [], [Channel("rknpu.busy_frac", "frac", str(path), absent=reason)]
    if load.channels:
        return [load], []
    return [], [Channel("rknpu.busy_frac", "frac", str(path), absent=f"{path} holds no load that is understood")]
