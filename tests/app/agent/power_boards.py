"""Boards whose power is in question: a Mac by its cores, and what a sensed board shows."""

import os

from app.agent.power import total_power
from app.agent.sensors import powermetrics
from tests.app.agent.board_trees import PROC, build
from tests.app.agent.sensed import Sensed

PI5 = {**PROC, "proc/device-tree/model": b"Raspberry Pi 5 Model B Rev 1.0\0"}
JETSON = {**PROC, "proc/device-tree/model": b"NVIDIA Jetson Orin NX\0", "etc/nv_tegra_release": "# R36\n"}
MAC_POWERS = (
    "CPU Power: 15200 mW\nGPU Power: 61000 mW\nANE Power: 0 mW\nCombined Power (CPU + GPU + ANE): 76200 mW\n\n"
    "**** GPU usage ****\n\nGPU HW active frequency: 1338 MHz\nGPU idle residency:   7.10%\nGPU Power: 60990 mW\n"
)


def mac(n_cores, powers=MAC_POWERS, more=()):
    """Return one sample of powermetrics: clusters of four cores, each core with its clock and its residencies."""
    lines = [f"{powermetrics.BLOCK} (Sun May 10 10:00:00 2026 +0200) (201.33ms elapsed) ***", ""]
    for core in range(n_cores):
        if core % 4 == 0:
            cluster = f"P{core // 4}-Cluster"
            lines += [f"{cluster} Online: 100%", f"{cluster} HW active frequency: 1912 MHz"]
            lines += [f"{cluster} {kind} residency:  25.00%" for kind in ("HW active", "idle", "down")]
        lines.append(f"CPU {core} frequency: {1900 + core} MHz")
        lines.append(f"CPU {core} active residency:  17.03% (1344 MHz: 6.0% 1500 MHz: .3%)")
        lines += [f"CPU {core} idle residency:  82.97%", f"CPU {core} down residency:   0.00%"]
        lines += [f"CPU {core} {name}" for name in more]
    return "\n".join([*lines, "", powers, ""])


def as_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def mac_of(tmp_path, monkeypatch, sample):
    as_root(monkeypatch)
    tool = f"#!/bin/sh\nwhile :; do cat <<'END'\n{sample}END\nsleep 0.05; done\n"
    return Sensed(build(tmp_path, {**PROC, "usr/bin/powermetrics": tool}))


def values_of(sensed):
    return dict(zip([channel.key for channel in sensed.channels], sensed.read(), strict=True))


def absent_of(sensed):
    return {
        channel.key: channel.absent
        for channel in [*sensed.absent, *(channel for tool in sensed.tools for channel in tool.absent)]
    }


def total_of(sensed):
    columns, words = total_power([*sensed.channels, *sensed.absent])
    return [sensed.channels[i].key for i in columns], words
