"""What each path of the operating point may hold: its range, its options, and how a value typed there is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.spec import (
    LAYOUTS,
    POLICIES,
    Board,
    Catalogue,
    KvFormat,
    ModelShape,
    OperatingPoint,
    Runtime,
    WeightFormat,
)
from core.spec.suggestions import instead

FIELDS = {
    "point.board": "board",
    "point.power_mode": "power_mode",
    "point.model": "model",
    "point.runtime": "runtime",
    "point.alpha": "alpha",
    "point.bandwidth": "bandwidth_byte_s",
    "point.beta": "beta",
    "point.context": "context_tokens",
    "point.weights": "weights",
    "point.kv": "kv",
    "point.policy": "policy",
    "point.layout": "layout",
    "point.reselect": "reselect_tokens",
}
"""Path -> field of `OperatingPoint`."""

NUMERIC = ("point.alpha", "point.bandwidth", "point.beta", "point.context")
"""The paths that hold a number; the others hold a key of the catalogue."""

BUILTIN_FORMATS = {
    "weights": ("fp32", "bf16", "fp16", "int8", "int4", "int4_g64", "int4_g128", "int3", "int2"),
    "kv": ("fp32", "bf16", "fp16", "int8", "int4"),
}
"""What Trilemma's own decoder runs, by field. The formats of other runtimes are many and change with each release."""

RESELECT_TOKENS = (0.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""How often choosing anew is offered; any other whole number may be typed into a command."""

POLICY_NAMES = {
    "sinks_recent": "sinks + recent",
    "key_norm": "key norm",
    "attention_mass": "attention mass",
    "snapkv": "SnapKV",
    "expected_attention": "expected attention",
    "page_bounds": "page bounds",
    "rope_sensitivity": "position sensitivity",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One path of the operating point as something to move along.

    `low` and `high` bound the slider and the plotted curve in SI units; a typed value may lie beyond them as long as it
    is valid. A categorical axis has `options` (key, name) and is plotted at 0, 1, 2...
    """

    path: str
    label: str
    unit: str  # "1", "byte/s", "tokens"; "" for named options
    low: float
    high: float
    step: float  # what sensitivities are stated per
    log: bool = False
    options: tuple[tuple[Any, str], ...] = ()  # value of the field, name

    @property
    def categorical(self) -> bool:
        """Whether the axis has named options instead of numbers."""
        return bool(self.options)

    def grid(self, n: int) -> np.ndarray:
        """Return `n` positions over the axis, evenly or geometrically; a categorical axis has one an option."""
        if self.options:
            return np.arange(len(self.options), dtype=float)
        return np.geomspace(self.low, self.high, n) if self.log else np.linspace(self.low, self.high, n)


def with_mode_of(point: OperatingPoint, board: Board) -> OperatingPoint:
    """Return the point in a power mode that a board has: its own if the board has it, else the default."""
    return point if point.power_mode in ("", *board.power_modes) else replace(point, power_mode="")


def own_bandwidth_byte_s(point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return the peak bandwidth of the point's board in its power mode, from the data sheet or measured."""
    return catalogue.resolve(point).mode.bandwidth_byte_s


def axis_of(path: str, point: OperatingPoint, catalogue: Catalogue) -> Axis:
    """Return the axis of a path for the board and model of `point`.

    Raises
    ------
    ValueError
        The path names no field of the operating point.
    """
    if path not in FIELDS:
        raise ValueError(f"path is {path!r}: expected one of {', '.join(FIELDS)}")
    if path == "point.alpha":
        return Axis(path, "KV prune rate α", "1", 0.0, 0.95, 0.1)
    if path == "point.bandwidth":
        own = own_bandwidth_byte_s(point, catalogue)
        step = 10.0 ** np.floor(np.log10(own / 10))
        return Axis(path, "Memory bandwidth", "byte/s", own / 4, own * 2, float(step), log=True)
    if path == "point.beta":
        return Axis(path, "Instruction set β", "1", 0.25, 4.0, 0.1, log=True)
    if path == "point.context":
        longest = float(catalogue.models[point.model].max_context_tokens)
        return Axis(path, "Context", "tokens", min(64.0, longest / 2), longest, 1024.0, log=True)
    label, options = _options(path, point, catalogue)
    return Axis(path, label, "", 0.0, max(len(options) - 1.0, 0.0), 1.0, options=options)


def _options(path: str, point: OperatingPoint, catalogue: Catalogue) -> tuple[str, tuple[tuple[Any, str], ...]]:
    if path == "point.policy":
        return "Pruning", tuple((key, POLICY_NAMES[key]) for key in POLICIES)
    if path == "point.layout":
        return "Layout of kept tokens", tuple((key, key) for key in LAYOUTS)
    if path == "point.reselect":
        offered_tokens = sorted({*RESELECT_TOKENS, float(point.reselect_tokens)})
        return "Tokens chosen", tuple((n, f"every {n:g} tokens" if n else "once") for n in offered_tokens)
    if path == "point.power_mode":
        modes = catalogue.boards[point.board].power_modes
        return "Power mode", tuple((key, key or "default") for key in modes)
    named: dict[str, tuple[str, Mapping[str, Board | ModelShape | Runtime | WeightFormat | KvFormat]]] = {
        "point.board": ("Board", catalogue.boards),
        "point.model": ("Model", catalogue.models),
        "point.runtime": ("Runtime", catalogue.runtimes),
        "point.weights": ("Weights", catalogue.weight_formats),
        "point.kv": ("KV cache", catalogue.kv_formats),
    }
    label, mapping = named[path]
    offered = BUILTIN_FORMATS.get(FIELDS[path]) if point.runtime == "builtin" else None
    keys = [key for key in mapping if offered is None or key in offered or key == getattr(point, FIELDS[path])]
    return label, tuple((key, mapping[key].name) for key in keys)


def position(path: str, point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return where `point` lies on the axis of `path`: its value, or the index of its option."""
    value = getattr(point, FIELDS[path])
    if path == "point.bandwidth":
        return float(own_bandwidth_byte_s(point, catalogue) if value is None else value)
    if path in NUMERIC:
        return float(value)
    keys = [key for key, _ in axis_of(path, point, catalogue).options]
    return float(keys.index(value or keys[0]))


def moved(point: OperatingPoint, path: str, value: Any) -> OperatingPoint:
    """Return `point` with the field of `path` replaced, unchecked: a number, an array of numbers, or a key."""
    return replace(point, **{FIELDS[path]: value})


def _keys(path: str, point: OperatingPoint, catalogue: Catalogue) -> list[Any]:
    """All keys that a path may hold, offered to the current runtime or not."""
    wide = {"point.weights": catalogue.weight_formats, "point.kv": catalogue.kv_formats}
    return list(wide.get(path) or dict(_options(path, point, catalogue)[1]))


_BOUNDS: dict[str, tuple[Callable[[float], bool], str]] = {
    "point.alpha": (lambda v: 0 <= v < 1, "0 <= alpha < 1"),
    "point.bandwidth": (lambda v: 1e3 <= v <= 1e18, "a bandwidth of 1 kB/s to 1 EB/s"),
    "point.beta": (lambda v: 1e-3 <= v <= 1e3, "0.001 to 1000"),
    "point.context": (lambda v: v >= 1, "at least 1 token"),
}


def checked(path: str, value: Any, point: OperatingPoint, catalogue: Catalogue) -> Any:
    """Return `value` as the operating point stores it.

    Raises
    ------
    ValueError
        One sentence naming the path, the value and what was expected.
    """
    axis = axis_of(path, point, catalogue)
    if path == "point.reselect":
        every = _number(path, value)
        if every < 0 or every != round(every):
            raise ValueError(f"{path} is {every:g}: expected a whole number of tokens, or 0 for once")
        return every
    if path not in NUMERIC:
        keys = _keys(path, point, catalogue)
        if path == "point.power_mode" and value == "":
            return value
        if value not in keys:
            kind = path.removeprefix("point.")
            raise ValueError(f"{path} is {value!r}: {instead(kind, str(value), keys)}")
        return value
    if path == "point.bandwidth" and value is None:
        return None
    number = _number(path, value)
    inside, words = _BOUNDS[path]
    if not inside(number):
        raise ValueError(f"{path} is {number:g}: expected {words}")
    if path == "point.context":
        if number > axis.high:
            model = catalogue.models[point.model].name
            raise ValueError(f"{path} is {number:g}: expected at most {axis.high:g} tokens, the longest {model} takes")
        return float(round(number))
    return number


def _number(path: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{path} is {value!r}: expected a number")
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{path} is {number}: expected a finite number")
    return number


def check_point(point: OperatingPoint, catalogue: Catalogue) -> None:
    """Check every field of a whole point (scalars only), boards and models first since the others depend on them.

    Raises
    ------
    ValueError
        As `checked`, for the first field that is wrong.
    """
    for path, name in FIELDS.items():
        checked(path, getattr(point, name), point, catalogue)
    if point.context_tokens != round(float(point.context_tokens)):
        raise ValueError(f"point.context is {float(point.context_tokens):g}: expected a whole number of tokens")


def exists(point: OperatingPoint, catalogue: Catalogue) -> bool:
    """Whether the catalogue knows all that the point names: a file may be of another version, with other models."""
    try:
        check_point(point, catalogue)
    except ValueError:
        return False
    return True


def canonical(point: OperatingPoint, catalogue: Catalogue) -> OperatingPoint:
    """Return the point as the board runs it, so that two spellings of one run compare equal.

    The board's own bandwidth is None, its default power mode is "", and without pruning the policy, the layout
    of the kept tokens and how often they are chosen mean nothing.
    """
    plain = OperatingPoint()
    if point.bandwidth_byte_s is not None and point.bandwidth_byte_s == own_bandwidth_byte_s(point, catalogue):
        point = replace(point, bandwidth_byte_s=None)
    if point.power_mode == next(iter(catalogue.boards[point.board].power_modes)):
        point = replace(point, power_mode="")
    if point.alpha == 0:
        point = replace(point, policy=plain.policy, layout=plain.layout, reselect_tokens=0.0)
    return point
