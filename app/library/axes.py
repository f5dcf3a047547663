"""Axes of the operating point: range and options of each path, and the check of typed values."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from core.physics.power import USUAL_READ_SHARE
from core.spec import BY_PATH, FIELDS, Board, Catalogue, Field, OperatingPoint
from core.spec.runtime import OWN_RUNTIME
from core.spec.suggestions import suggestion

UNREACHED = 5.0  # times the usual decoding power, as the end of an axis without a power limit
USUAL_ON_CHIP_BYTE_S = 768e9  # where the axis of an unknown on-chip bandwidth is centred
UNKNOWN_J_BYTE = 1e-9  # [prior] energy per byte of a whole board
SLIDERS = tuple(field.path for field in FIELDS if field.is_number and not field.offered)
"""The paths that hold a number; the others have options."""

POLICY_NAMES = {
    "sinks_recent": "sinks + recent",
    "key_norm": "key norm",
    "attention_mass": "attention mass",
    "snapkv": "SnapKV",
    "expected_attention": "expected attention",
    "page_bounds": "page bounds",
    "rope_sensitivity": "position sensitivity",
    "composite": "composite score",
}
COMPENSATION_NAMES = {"feedback": "error feedback", "both": "offsets + feedback"}
CHOICE_NAMES = {
    **POLICY_NAMES,
    **COMPENSATION_NAMES,
    "head_major": "by head",
    "token_major": "by token",
    "rows": "whole rows",
    "attention": "attention",
    "all": "attention and feed-forward",
}
"""Names of the options of fields that have the same ones on every board."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A path of the operating point as an axis.

    `low` and `high` bound the slider and the plotted curve in SI units; a typed value may lie outside them if it is
    valid. A categorical axis has `options` (key, name) and is plotted at 0, 1, 2...
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
    """Return the point in a power mode of its board: its own if the board has it, else the default."""
    return point if point.power_mode in ("", *board.power_modes) else replace(point, power_mode="")


def runs_on(runtime: str, board: Board, catalogue: Catalogue) -> bool:
    """Return whether a runtime runs on a board, on the unit that decodes or on its CPU."""
    known = catalogue.runtimes.get(runtime)
    return known is not None and (known.on_cpu or known.runs_on_unit(board))


def on_board_of(point: OperatingPoint, before: OperatingPoint, catalogue: Catalogue) -> OperatingPoint:
    """Return a point that moved to another board, in a power mode and with a runtime and weights that run there.

    The usual runtime of the board before becomes that of the new one.
    """
    if point.board == before.board:
        return point
    board = catalogue.boards[point.board]
    point = with_mode_of(point, board)
    usual = before.runtime == catalogue.default_runtime(catalogue.boards[before.board])
    if usual or not runs_on(point.runtime, board, catalogue):
        point = replace(point, runtime=catalogue.default_runtime(board))
    if point.runtime != before.runtime:
        point = replace(point, weights=catalogue.runtimes[point.runtime].usual_weights(point.weights, board))
    return point


def settled(
    point: OperatingPoint, before: OperatingPoint, catalogue: Catalogue
) -> tuple[OperatingPoint, tuple[str, ...]]:
    """Return a point changed so that its board and model can run it, and a sentence for each change beyond its mode."""
    found, notes = on_board_of(point, before, catalogue), []
    if found.runtime != point.runtime:
        runtime, weights = catalogue.runtimes[found.runtime], catalogue.weight_formats[found.weights]
        notes.append(f"Runtime is now {runtime.name} with {weights.name} weights, as usual on this board.")
    model = catalogue.models[found.model]
    if found.context_tokens > model.max_context_tokens:
        notes.append(f"Context is now {model.max_context_tokens} tokens, the longest {model.name} supports.")
        found = replace(found, context_tokens=float(model.max_context_tokens))
    return found, tuple(notes)


def own_bandwidth_byte_s(point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return the bandwidth of the point's board in its power mode, measured or of the data sheet."""
    return catalogue.resolve(point).mode.bandwidth_byte_s


def axis_of(path: str, point: OperatingPoint, catalogue: Catalogue) -> Axis:
    """Return the axis of a path for the board and model of `point`.

    Raises
    ------
    ValueError
        The path names no field of the operating point.
    """
    field = _field(path)
    if path == "point.bandwidth":
        own = own_bandwidth_byte_s(point, catalogue)
        step = 10.0 ** np.floor(np.log10(own / 10))
        return Axis(path, field.label, field.unit, own / 4, own * 2, float(step), log=True)
    if path == "point.power_limit":
        own = own_power_limit_w(point, catalogue)
        step = 10.0 ** np.floor(np.log10(own / 10))
        return Axis(path, field.label, field.unit, own / 20, own, float(step), log=True)
    if path == "point.context":
        longest = float(catalogue.models[point.model].max_context_tokens)
        return Axis(path, field.label, field.unit, min(64.0, longest / 2), longest, 1024.0, log=True)
    if path == "point.on_chip_bandwidth":
        own = own_on_chip_byte_s(point, catalogue)
        return Axis(path, field.label, field.unit, own / 10, own * 10, own / 10, log=True)
    if field.slider is not None:
        ends = field.slider
        return Axis(path, field.label, field.unit, ends.low, ends.high, ends.step, log=ends.log)
    options = _options(field, point, catalogue)
    return Axis(path, field.label, "", 0.0, max(len(options) - 1.0, 0.0), 1.0, options=options)


def own_power_limit_w(point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return the power limit of the point's mode, or a power that its board does not reach where the mode has none."""
    at = catalogue.resolve(point)
    usual_w = (at.board.system_energy_j_byte or UNKNOWN_J_BYTE) * USUAL_READ_SHARE * at.mode.bandwidth_byte_s
    return at.mode.power_limit_w or float(f"{UNREACHED * usual_w:.1g}")


def own_on_chip_byte_s(point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return the bandwidth of the board's on-chip memory, or a usual one where no source states it."""
    return catalogue.boards[point.board].on_chip_byte_s or USUAL_ON_CHIP_BYTE_S


def _field(path: str) -> Field:
    if path not in BY_PATH:
        raise ValueError(f"path is {path!r}: expected one of {', '.join(BY_PATH)}")
    return BY_PATH[path]


def _options(field: Field, point: OperatingPoint, catalogue: Catalogue) -> tuple[tuple[Any, str], ...]:
    """Return the options of a choice as (value, name), including the value of the point."""
    here = getattr(point, field.name)
    if field.offered:
        offered = sorted({*field.offered, float(here)})
        return tuple((value, field.offered_text.format(value) if value else field.unset) for value in offered)
    names = _names(field, point, catalogue)
    if field.read is not None:
        names |= {here: here}
    if field.name in ("weights", "kv"):
        runs = formats_of(field.name, point.runtime, catalogue, catalogue.boards[point.board])
        keys = sorted({*runs, here}, key=lambda key: (format_bits(field.name, key, catalogue), key))
        return tuple((key, names[key]) for key in keys)
    return tuple(names.items())


def formats_of(field: str, runtime: str, catalogue: Catalogue, board: Board | None = None) -> list[str]:
    """Return the keys of the formats of ``weights`` or ``kv`` that a runtime takes, on a board or on any."""
    known: Mapping[str, Any] = catalogue.weight_formats if field == "weights" else catalogue.kv_formats
    own, takes = runtime == OWN_RUNTIME, catalogue.runtimes[runtime].takes_format
    return [
        key
        for key, one in known.items()
        if takes(field, key, board) and (own or not getattr(one, "accuracy_only", False))
    ]


def format_bits(field: str, key: str, catalogue: Catalogue) -> float:
    """Return the bits of a weight or of a cached value in a format, scales included."""
    if field == "weights":
        return catalogue.weight_formats[key].bits_per_weight
    return catalogue.kv_formats[key].bits_per_value


def _names(field: Field, point: OperatingPoint, catalogue: Catalogue) -> dict[str, str]:
    """Return all keys of a named field with their names, supported by the current runtime or not."""
    if field.name == "power_mode":
        return {key: key or "default" for key in catalogue.boards[point.board].power_modes}
    unset = {"": field.unset} if field.unset else {}
    if field.options:
        return unset | {key: CHOICE_NAMES.get(key, key) for key in field.options}
    known: Mapping[str, Any] = getattr(catalogue, field.known)
    return unset | {key: one.name for key, one in known.items()}


def _keys(field: Field, point: OperatingPoint, catalogue: Catalogue) -> Collection[str]:
    """Return the keys of `_names`, without making names: thousands of measurements are checked while a board attaches.

    "" is left out where it is the default.
    """
    if field.name == "power_mode":
        return catalogue.boards[point.board].power_modes
    return field.options or cast(Mapping[str, Any], getattr(catalogue, field.known))


def position(path: str, point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return the position of `point` on the axis of `path`: its value, or the index of its option."""
    value = getattr(point, BY_PATH[path].name)
    if path == "point.bandwidth":
        return float(own_bandwidth_byte_s(point, catalogue) if value is None else value)
    if path == "point.power_limit":
        return float(own_power_limit_w(point, catalogue) if value is None else value)
    if path == "point.on_chip_bandwidth":
        return float(own_on_chip_byte_s(point, catalogue) if value is None else value)
    if path in SLIDERS:
        return float(value)
    return position_on(axis_of(path, point, catalogue), point, catalogue)


def position_on(axis: Axis, point: OperatingPoint, catalogue: Catalogue) -> float:
    """Return the position of `point` on the axis of another point; NaN where its option is none of that axis."""
    if not axis.categorical:
        return position(axis.path, point, catalogue)
    keys = [key for key, _ in axis.options]
    value = getattr(point, BY_PATH[axis.path].name) or keys[0]
    return float(keys.index(value)) if value in keys else math.nan


def moved(point: OperatingPoint, path: str, value: Any) -> OperatingPoint:
    """Return `point` with the field of `path` replaced, unchecked: a number, an array of numbers, or a key."""
    return replace(point, **{BY_PATH[path].name: value})


def checked(path: str, value: Any, point: OperatingPoint, catalogue: Catalogue) -> Any:
    """Return `value` as the operating point stores it.

    Raises
    ------
    ValueError
        One sentence naming the path, the value and what was expected.
    """
    field = _field(path)
    if path == "point.bandwidth":
        catalogue.resolve(point)  # the board's own depends on all names
    if value is None and field.default is None:
        return None
    if field.read is not None:
        try:
            return field.read(value)
        except ValueError as error:
            raise ValueError(str(error).replace(field.name, path, 1)) from None
    if not field.is_number:
        keys = _keys(field, point, catalogue)
        if value not in keys and not value == field.default == "":
            kind = path.removeprefix("point.")
            raise ValueError(f"{path} is {value!r}: {suggestion(kind, str(value), list(keys))}")
        return value
    number = _number(path, value)
    if not field.holds(number) or (field.whole and path not in SLIDERS and number != round(number)):
        raise ValueError(f"{path} is {number:g}: expected {field.expected}")
    if path == "point.context" and number > (model := catalogue.models[point.model]).max_context_tokens:
        longest = f"{model.max_context_tokens:g} tokens, the longest {model.name} supports"
        raise ValueError(f"{path} is {number:g}: expected at most {longest}")
    return float(round(number)) if field.whole else number


def _number(path: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{path} is {value!r}: expected a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{path} is {number}: expected a finite number")
    return number


def check_point(point: OperatingPoint, catalogue: Catalogue) -> None:
    """Check every field of a whole point (scalars only), boards and models first since the others depend on them.

    Raises
    ------
    ValueError
        As `checked`, for the first field that is wrong.
    """
    for field in FIELDS:
        checked(field.path, getattr(point, field.name), point, catalogue)
    if point.context_tokens != round(float(point.context_tokens)):
        raise ValueError(f"point.context is {float(point.context_tokens):g}: expected a whole number of tokens")


def exists(point: OperatingPoint, catalogue: Catalogue) -> bool:
    """Return True if the catalogue has every key of the point; a file may come from another version."""
    try:
        check_point(point, catalogue)
    except ValueError:
        return False
    return True


def canonical(point: OperatingPoint, catalogue: Catalogue) -> OperatingPoint:
    """Return the point as the board runs it, so that equal runs compare equal.

    The board's own bandwidth becomes None and its default power mode "". Without pruning, the policy, the layout of the
    kept tokens and the re-selection take their defaults, and so do the compiled context of a runtime that compiles none
    and all fields without an effect. Weights in fp32 are not quantised, so nothing is compensated.
    """
    runtime = catalogue.runtimes[point.runtime]
    if point.bandwidth_byte_s is not None and point.bandwidth_byte_s == own_bandwidth_byte_s(point, catalogue):
        point = replace(point, bandwidth_byte_s=None)
    if point.power_limit_w is not None and point.power_limit_w == own_power_limit_w(point, catalogue):
        point = replace(point, power_limit_w=None)
    if point.power_mode == next(iter(catalogue.boards[point.board].power_modes)):
        point = replace(point, power_mode="")
    if not runtime.static_graph or point.graph_tokens == runtime.graph_tokens:
        point = replace(point, graph_tokens=0.0)
    if point.weights == "fp32":
        point = replace(point, compensation="none")
    if point.on_chip_byte_s is not None and point.on_chip_byte_s == catalogue.boards[point.board].on_chip_byte_s:
        point = replace(point, on_chip_byte_s=None)
    idle: Any = {f.name: f.default for f in FIELDS if f.effective is not None and not f.effective(point)}
    point = replace(point, **idle)
    return without_pruning(point) if point.alpha == 0 else point


def without_pruning(point: OperatingPoint) -> OperatingPoint:
    """Return the point with the fields that have no effect without pruning at their defaults."""
    return with_pruning_of(OperatingPoint(), point)


def with_pruning_of(other: OperatingPoint, point: OperatingPoint) -> OperatingPoint:
    """Return the point with the policy, layout and re-selection of another."""
    changes: Any = {field.name: getattr(other, field.name) for field in FIELDS if field.of_pruning}
    return replace(point, **changes)
