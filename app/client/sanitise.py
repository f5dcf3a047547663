"""Messages of a board, checked and typed for the rest of the program.

The agent may be of another version, or hostile. Known fields have their type or are left out; unknown fields stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

LEVELS = ("info", "warning", "error")
_NUMBER = (int, float)
_FACTS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("name", "cpu", "os", "release", "soc", "kernel", "machine", "python", "id", "key"), str),
    **dict.fromkeys(
        ("n_threads", "n_cores", "n_big_cores", "memory_byte", "available_byte", "gpu_limit_byte"), _NUMBER
    ),
    "cache_byte": dict,
    "isa": list,
    "compatible": list,
}
_NAMELESS = "unknown board"


def sound_hello(message: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a ``hello`` without what has another shape than expected, and the names of that."""
    wrong: list[str] = []
    sound = dict(message)
    board = _kept(message["board"], "board", wrong, lambda name, value: _fits(value, _FACTS.get(name, object)))
    sound["board"] = {**board, "name": board.get("name") or _NAMELESS}
    sound["can"] = _kept(message["can"], "can", wrong, _is_ability)
    sound["models"] = _items(message["models"], "models", wrong, {"file": str, "byte": _NUMBER})
    if "state" in message:
        sound["state"], more = sound_state(message["state"])
        wrong += more
    sound["runtimes"] = _items(message.get("runtimes", []), "runtimes", wrong, {"runtime": str, "model": str})
    for name in ("recording", "simulated"):
        if name in message and not isinstance(message[name], dict if name == "recording" else bool):
            del sound[name]
            wrong.append(name)
    return sound, wrong


def sound_state(state: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the state of a board without what has another shape than expected, and the names of that."""
    if not isinstance(state, dict):
        return {}, ["state"]
    wrong: list[str] = []
    return _kept(state, "state", wrong, _is_entry), wrong


def _is_entry(_name: str, value: Any) -> bool:
    """Return True for ``{value}`` or ``{absent}``, with an optional ``{warning}``."""
    if not isinstance(value, dict) or not isinstance(value.get("warning", ""), str):
        return False
    return "value" in value or isinstance(value.get("absent"), str)


def _is_ability(name: str, value: Any) -> bool:
    """Return True for an ability of an agent: a yes, a reason against it, a version, or a list of these."""
    if isinstance(value, dict):
        return isinstance(value.get("absent"), str)
    if name in ("measure", "bandwidth"):
        return value is True
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _fits(value: Any, kind: type | tuple[type, ...]) -> bool:
    if isinstance(value, float) and not isfinite(value):
        return kind is object
    return isinstance(value, kind) and (kind is object or not isinstance(value, bool))


def _kept(
    members: Mapping[str, Any], where: str, wrong: list[str], right: Callable[[str, Any], bool]
) -> dict[str, Any]:
    kept = {name: value for name, value in members.items() if right(name, value)}
    wrong += [f"{where}.{name}" for name in members if name not in kept]
    return kept


def _items(
    values: Any, where: str, wrong: list[str], members: Mapping[str, type | tuple[type, ...]]
) -> list[dict[str, Any]]:
    """Return those of a list that are objects with these members."""
    given = values if isinstance(values, list) else [values]
    kept = [item for item in given if isinstance(item, dict) and all(_fits(item.get(n), k) for n, k in members.items())]
    wrong += [where] * (len(kept) < len(given))
    return kept
