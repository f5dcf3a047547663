"""Adreno GPUs (kgsl): busy share in one of three files, clock, temperature. Often unreadable for users."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import List, Sequence, Tuple

from app.agent.channel import Channel, Gauge, Sensor
from app.agent.files import KernelFile, why_unreadable

_RULE = 'SUBSYSTEM=="kgsl", RUN+="/bin/chmod -R a+rX /sys%p"'
_BUSY = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})\s*\0?", re.ASCII)
_PERCENT = re.compile(rb"\s*(\d{1,3}) ?%?\s*\0?", re.ASCII)
_INTERVAL_NS = 50_000_000


def parse_busy(data: bytes) -> float:
    """Return the share of ``gpubusy``, microseconds busy and microseconds watched; NaN when it watched for none."""
    match = _BUSY.fullmatch(data)
    if match is None:
        return math.nan
    busy, watched = int(match.group(1)), int(match.group(2))
    return busy / watched if watched > 0 and busy <= watched else math.nan


def parse_percent(data: bytes) -> float:
    """Return the share of a file like ``12 %`` or ``12``."""
    match = _PERCENT.fullmatch(data)
    share = int(match.group(1)) / 100 if match else math.nan
    return share if share <= 1 else math.nan


class GpuBusy:
    """The busy share of the GPU."""

    interval_ns = _INTERVAL_NS

    def __init__(self, file: KernelFile) -> None:
        self.file = file
        self._parse = parse_busy if file.path.name == "gpubusy" else parse_percent
        self.channels = (Channel("gpu.busy_frac", "frac", str(file.path)),)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the share."""
        return (self._parse(self.file.read() or b""),)


def find(root: Path) -> Tuple[List[Sensor], List[Channel]]:
    """Return load, clock and temperature of the Adreno GPU."""
    base = root / "sys/class/kgsl/kgsl-3d0"
    if not base.exists():
        return [], []
    sensors: List[Sensor] = []
    absent: List[Channel] = []
    reasons = []
    for name in ("gpubusy", "gpu_busy_percentage", "devfreq/gpu_load"):
        try:
            sensors.append(GpuBusy(KernelFile(base / name)))
            break
        except OSError as error:
            reasons.append(why_unreadable(error, base / name, _RULE))
    if not sensors:
        locked = [reason for reason in reasons if reason.startswith("needs root")]
        absent.append(Channel("gpu.busy_frac", "frac", str(base), absent=(locked or reasons)[0]))
    gauges = (
        (Channel("gpu.clock_hz", "Hz", str(base / "devfreq/cur_freq")), 1.0, (1.0, math.inf)),
        (Channel("gpu.temp_c", "degC", str(base / "temp")), 1e-3, (-55.0, 200.0)),
    )
    for channel, scale, valid in gauges:
        path = Path(channel.source)
        try:
            sensors.append(Gauge(channel, KernelFile(path), scale, valid, _INTERVAL_NS))
        except OSError as error:
            channel.absent = why_unreadable(error, path, _RULE)
            absent.append(channel)
    return sensors, absent
