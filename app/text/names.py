"""Short words for what files and the agent call by a key; the full name or the key stands in a tool tip. Free of Qt."""

from __future__ import annotations

import re
from typing import Any

from app.text.format import quantity_text
from core.spec import Catalogue, OperatingPoint, WeightFormat

PARTS = {
    "weights": "weights",
    "kv": "the KV cache",
    "unpack": "unpacking weights",
    "compute": "arithmetic",
    "layers": "per-layer cost",
    "token": "cost per token",
    "reselection": "KV token re-selection",
    "power": "the power limit",
}
"""The terms of a decode time, as `core.physics.stages.binding_parts_s` names them."""

_CHANNELS = {
    "cpu.busy_frac": "CPU busy",
    "cpu.steal_frac": "CPU stolen by the host",
    "cpu.load_1min": "Load, 1 min",
    "memory.available_byte": "Memory available",
}
_QUANTITIES = {
    "power_w": "power",
    "temp_c": "temperature",
    "max_temp_c": "highest temperature",
    "clock_hz": "clock",
    "busy_frac": "busy",
    "voltage_v": "voltage",
    "current_a": "current",
    "used_byte": "used",
    "total_byte": "size",
}
_CAPITALS = {"cpu": "CPU", "gpu": "GPU", "npu": "NPU", "soc": "SoC", "ram": "RAM", "dram": "DRAM", "emc": "EMC"}


def nominal_bits(form: WeightFormat) -> float:
    """Return the bits of a weight format without its scales: 4 for formats that take 4.25, 4.5 or 5.0 with them."""
    from core.catalogue.names.formats import format_name  # its patterns are compiled at the first import

    return format_name(form.key, ()).bits or form.bits_per_weight


def accuracy_note(point: OperatingPoint, catalogue: Catalogue) -> str:
    """Return the reference of accuracy, where the model comes from a file; else ""."""
    form = catalogue.weight_formats.get(catalogue.models[point.model].reference_format)
    if form is None:
        return ""
    bits = nominal_bits(form)
    return (
        f"Relative to the model file ({bits:g}-bit {form.name.removeprefix('GGUF ')}): "
        "formats at or above it round only activations and cache."
    )


def short_name(path: str, key: str, name: str, catalogue: Catalogue) -> str:
    """Return the name of an option for a narrow field: ``int4 · 5.0 bit``, ``llama.cpp, GPU``."""
    if path in ("point.weights", "point.head") and key:
        return _format_name(key, name, catalogue.weight_formats[key].bits_per_weight)
    if path == "point.kv":
        return _format_name(key, name, catalogue.kv_formats[key].bits_per_value)
    if path == "point.runtime":
        return catalogue.runtimes[key].short_name or name
    head = name.partition(" (")[0]
    return f"sim: {head}" if "(simulated" in name else head


def _format_name(key: str, name: str, bits: float) -> str:
    shown = name.removeprefix("GGUF ") if name.startswith("GGUF ") else key.replace("_", " ")
    return f"{shown} · {bits:.1f} bit" if bits < 10 else f"{shown} · {bits:.0f} bit"


def channel_name(key: str) -> str:
    """Return a sensor's name in words: ``cpu0.clock_hz`` is "CPU 0 clock"; another kind of key stays as it is."""
    if key in _CHANNELS:
        return _CHANNELS[key]
    subject, _, quantity = key.rpartition(".")
    if quantity not in _QUANTITIES:
        return key
    subject = subject.removeprefix("tegrastats.").removeprefix("ina3221.")
    words = re.sub(r"(?<=[a-z])(?=\d)", " ", subject.replace(".", " ").replace("_", " ")).split()
    words = [_CAPITALS.get(word, word) for word in words]
    text = " ".join([*words, _QUANTITIES[quantity]])
    return text[0].upper() + text[1:]


def channel_text(channel: Any) -> str:
    """Return the facts of a channel, one a line: key, source, coverage, period and error, or its absence."""
    period = channel.native_period_s
    return "\n".join(
        part
        for part in (
            channel.key,
            channel.source,
            channel.covers,
            "" if period is None else f"a new value every {quantity_text(period, 's')}",
            "" if channel.error is None else f"in steps of {quantity_text(channel.error, channel.unit)}",
            f"counted in {channel.part_of} already" if channel.part_of else "",
            channel.note,
            channel.absent,
        )
        if part
    )
