"""The state of a board in words, for the screen and the terminal. Free of Qt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from app.text.format import brief, quantity_text

NAMES = {
    "power_mode": "Power mode",
    "governor": "Governor",
    "cpu_clock": "CPU clock",
    "gpu_clock": "GPU clock",
    "npu_clock": "NPU clock",
    "memory_clock": "Memory clock",
    "bus": "Bus",
    "throttle": "Slowed down by",
    "memory": "Memory",
    "supply": "Supply",
    "others": "Other programs",
}
"""What the entries of the state are called, in the order in which they are shown."""


class StateRow(NamedTuple):
    """One entry in words: its name, its value, and what is wrong about it ("" when nothing is)."""

    name: str
    text: str
    warning: str


def state_rows(state: Mapping[str, Any]) -> list[StateRow]:
    """Return the entries that have a value, those with a warning first; entries that are new to us come last."""
    rows = [
        StateRow(_name(key), entry_text(key, state[key]), str(state[key].get("warning", "")))
        for key in _ordered(state)
        if "value" in state[key]
    ]
    return sorted(rows, key=lambda row: not row.warning)


def unknown_text(state: Mapping[str, Any]) -> tuple[str, str]:
    """Return the entries without a value, and the reasons, a line each; both "" when all have one."""
    missing = {_name(key): str(state[key]["absent"]) for key in _ordered(state) if "absent" in state[key]}
    if not missing:
        return "", ""
    return f"Not known: {', '.join(_uncapped(missing))}", "\n".join(
        f"{name}: {reason}" for name, reason in missing.items()
    )


def entry_text(key: str, entry: Mapping[str, Any]) -> str:
    """Return one entry's value in words, or why it has none."""
    if "absent" in entry:
        return f"absent: {brief(str(entry['absent']))}"
    value = entry.get("value")
    try:
        if isinstance(value, dict):
            return _WORDS.get(key, _clock)(value)
    except (AttributeError, KeyError, TypeError, ValueError):  # an agent of another version
        pass
    return str(value)


def _ordered(state: Mapping[str, Any]) -> list[str]:
    return [key for key in NAMES if key in state] + [key for key in state if key not in NAMES]


def _name(key: str) -> str:
    return NAMES.get(key, key.replace("_", " ").capitalize())


def _uncapped(names: Mapping[str, str]) -> list[str]:
    """Return the names as they stand inside a sentence: CPU, GPU and NPU keep their capitals."""
    return [name if name[1:2].isupper() else name[:1].lower() + name[1:] for name in names]


def _governors(value: Mapping[str, str]) -> str:
    return _grouped({name: str(governor) for name, governor in value.items()})


def _policies(value: Mapping[str, Mapping[str, Any]]) -> str:
    return _grouped({name: _clock(clock) for name, clock in value.items()})


def _grouped(texts: Mapping[str, str]) -> str:
    """Return each text with the policies that have it; one that all have stands alone."""
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(name)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in groups.items())


def _clock(value: Mapping[str, Any]) -> str:
    now, low, high = (value.get(key) for key in ("now_hz", "min_hz", "max_hz"))
    parts = [] if now is None else [quantity_text(float(now), "Hz")]
    if low is not None and high is not None:
        parts.append(f"{quantity_text(float(low), 'Hz')} to {quantity_text(float(high), 'Hz')}")
    if value.get("governor"):
        parts.append(str(value["governor"]))
    return " · ".join(parts) or "not known"


def _memory(value: Mapping[str, Any]) -> str:
    free, total = (quantity_text(float(value[key]), "byte") for key in ("available_byte", "total_byte"))
    swapped = float(value.get("swapped_byte", 0))
    return f"{free} free of {total}" + (f", {quantity_text(swapped, 'byte')} swapped out" if swapped else "")


def _others(value: Mapping[str, Any]) -> str:
    most = ", ".join(f"{item['name']} {item['cores']:.2g}" for item in value["most"][:3])
    return f"{value['cores']:.2g} cores" + (f": {most}" if most else "")


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "governor": _governors,
    "cpu_clock": _policies,
    "memory": _memory,
    "others": _others,
}
"""What writes the value of an entry that has parts; a clock is the rest."""
