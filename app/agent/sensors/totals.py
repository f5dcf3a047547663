"""Board totals: the channel of the whole board, and parts that must not be added twice."""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence

from app.agent.channel import Channel
from app.agent.sensors.pi import ESTIMATE

INPUT_RAILS = ("vdd_in", "pom_5v_in", "vin")
"""Rails that feed the whole board: Jetson TX2, Xavier NX, Orin NX and Nano; Nano; Thor."""

MODULES = (
    ("vdd_gpu_soc", "vdd_cpu_cv", "vin_sys_5v0"),
    ("gpu", "cpu", "soc", "cv", "vddrq", "sys5v"),
)
"""Rails that together feed the module where none feeds it all: AGX Orin, AGX Xavier. The carrier is not counted."""

_SHUNTS = ("ina238", "ina226", "ina230", "ina237")
_RAIL_SOURCES = ("ina3221", "tegrastats", *_SHUNTS)


def mark(channels: Sequence[Channel], model: str) -> None:
    """Set `total` and `part_of` of power channels, in the order in which their sources are trusted.

    Parameters
    ----------
    channels
        All channels with samples, those that are read in the kernel before those of tools.
    model
        The board's name, "" when not known: on Thor the one shunt chip feeds the whole board.
    """
    sources: Dict[str, Dict[str, Channel]] = {}
    for channel in channels:
        source, _, rest = channel.key.partition(".")
        if channel.unit == "W" and not channel.absent and rest.endswith(".power_w"):
            sources.setdefault(source, {})[rest[: -len(".power_w")]] = channel
    first: Dict[str, str] = {}  # key of the channel that counts a rail
    whole = next((channel.key for channel in channels if channel.total == "input"), "")
    for source, named in sources.items():
        if "thor" in model.lower() and source in _SHUNTS and "power1" in named:
            named["vin"] = named.pop("power1")
            if not named["vin"].total:
                named["vin"].covers = "rail VIN"
        if source in _RAIL_SOURCES:
            whole = _mark_rails(named, first, whole)
        elif source in _OTHERS and not whole:
            _OTHERS[source](named)


def _mark_rails(named: Dict[str, Channel], first: Dict[str, str], whole: str) -> str:
    """Mark the rails of one source; return the key of the channel that holds them all, "" when none does."""
    for rail in [rail for rail in named if first.get(rail, named[rail].key) != named[rail].key]:
        channel = named.pop(rail)
        channel.part_of = first[rail]
        channel.note = f"the same rail as {first[rail]}, through a tool"
    fed = next((named[rail] for rail in INPUT_RAILS if rail in named), None)
    if fed is not None and not whole:
        fed.total, fed.covers = "input", f"the whole board ({fed.covers or fed.key})"
        whole = fed.key
    elif not whole:
        for module in MODULES:
            if set(module) <= set(named):
                for rail in module:
                    named[rail].total = "sum"
                whole = named[module[-1]].key
                break
    for rail, channel in named.items():
        first.setdefault(rail, channel.key)
        if whole and not channel.total:
            channel.part_of = whole
    return whole


def _mark_pi(named: Dict[str, Channel]) -> None:
    board = named.get("board")
    if board is None:
        return
    slope, offset_w = ESTIMATE
    board.total = "estimate"
    board.covers = f"the board, estimated: {slope:g} x the sum of its rails + {offset_w:g} W, without USB and HAT loads"
    _parts(named, board)


_MAC_WHOLES = (
    ("combined", "processor, GPU and neural engine"),
    ("package", "processor, GPU, neural engine and memory controllers"),  # macOS 12 and older
    ("intel_energy_model_derived_package", "processor, GPU and neural engine"),
)
_MAC_PARTS = ("cpu", "gpu", "ane")


def _mark_powermetrics(named: Dict[str, Channel]) -> None:
    """The line that sums the chip counts; its parts where a release prints none."""
    whole = next(((named[name], covers) for name, covers in _MAC_WHOLES if name in named), None)
    if whole is not None:
        whole[0].total, whole[0].covers = "sum", whole[1]
        _parts(named, whole[0])
    elif {"cpu", "gpu"} <= set(named):
        for name in _MAC_PARTS:
            if name in named:
                named[name].total = "sum"


def _mark_nvidia(named: Dict[str, Channel]) -> None:
    """Of the three powers of a card the one of this moment counts, where the driver has it."""
    for gpu in sorted({name.partition(".")[0] for name in named}):
        powers: List[Channel] = [named[k] for k in (gpu, f"{gpu}.smoothed", f"{gpu}.mean") if k in named]
        powers[0].total, powers[0].covers = "disjoint", f"card {gpu}"
        for other in powers[1:]:
            other.part_of = powers[0].key


def _parts(named: Dict[str, Channel], whole: Channel) -> None:
    for channel in named.values():
        if channel is not whole:
            channel.part_of = whole.key


_OTHERS: Dict[str, Callable[[Dict[str, Channel]], None]] = {
    "pi": _mark_pi,
    "powermetrics": _mark_powermetrics,
    "nvidia": _mark_nvidia,
}
