"""Which power channel is the whole board's, which is a part of which, so that nothing is ever added twice."""

from __future__ import annotations

from typing import Dict, List, Sequence

from app.agent.channel import Channel

INPUT_RAILS = ("vdd_in", "pom_5v_in", "vin")
"""Rails that feed the whole board: Jetson TX2, Xavier NX, Orin NX and Nano; Nano; Thor."""

MODULES = (
    ("vdd_gpu_soc", "vdd_cpu_cv", "vin_sys_5v0"),
    ("gpu", "cpu", "soc", "cv", "vddrq", "sys5v"),
)
"""Rails that together feed the module where none feeds it all: AGX Orin, AGX Xavier. The carrier is not counted."""

_SHUNTS = ("ina238", "ina226", "ina230", "ina237")


def mark(channels: Sequence[Channel], model: str) -> None:
    """Set `total` and `part_of` of the rails of a board, in the order in which their sources are trusted.

    Parameters
    ----------
    channels
        All channels with samples, those that are read in the kernel before those of tools.
    model
        The board's name, "" when not known: on Thor the one shunt chip feeds the whole board.
    """
    sources: Dict[str, List[Channel]] = {}
    for channel in channels:
        if channel.unit == "W" and channel.key.count(".") == 2 and not channel.absent:
            sources.setdefault(channel.key.split(".")[0], []).append(channel)
    first: Dict[str, str] = {}  # key of the channel that counts a rail
    whole = next((channel.key for channel in channels if channel.total == "input"), "")
    for source, rails in sources.items():
        named = {channel.key.split(".")[1]: channel for channel in rails}
        if "thor" in model.lower() and source in _SHUNTS and "power1" in named:
            named["vin"] = named.pop("power1")
            named["vin"].covers = "the whole board (VIN)"
        whole = _mark_source(named, first, whole)


def _mark_source(named: Dict[str, Channel], first: Dict[str, str], whole: str) -> str:
    again = {rail for rail in named if rail in first}
    for rail in again:
        named[rail].part_of = first[rail]
        named[rail].note = f"the same rail as {first[rail]}, through a tool"
    rails = {rail: channel for rail, channel in named.items() if rail not in again}
    fed = next((rails[rail] for rail in INPUT_RAILS if rail in rails), None)
    if fed is not None and not whole:
        fed.total, fed.covers = "input", f"the whole board ({fed.covers or fed.key})"
        whole = fed.key
    elif not whole:
        for module in MODULES:
            if set(module) <= set(rails):
                for rail in module:
                    rails[rail].total = "sum"
                whole = rails[module[-1]].key
                break
    for rail, channel in rails.items():
        first.setdefault(rail, channel.key)
        if whole and not channel.total:
            channel.part_of = whole
    return whole
