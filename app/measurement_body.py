"""The body of a measurement, as a board sends it and as files keep it: its members, their types and their ranges.

One schema for the door of the client, for recordings and for the documents of the store. Members that are not listed
stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

OUTPUTS_OF = {
    "decode": ("decode_s", "tokens_per_s", "memory_byte", "power_w", "energy_j_per_token"),
    "ttft": ("ttft_s", "prefill_power_w", "prefill_energy_j"),
    "quality": ("top1_agreement", "perplexity", "perplexity_ratio", "mean_kl"),
    "retrieval": ("retrieval_accuracy", "retrieval_greedy"),
    "compensation": ("compensation",),
}
"""Part of a run -> its outputs, the one that shows whether it was done first."""

RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("decode_s", "ttft_s", "choice_s"), (1e-9, 1e7)),
    "tokens_per_s": (1e-7, 1e9),
    "memory_byte": (0.0, 1e18),
    **dict.fromkeys(("power_w", "prefill_power_w", "idle_power_w"), (0.0, 1e6)),
    **dict.fromkeys(("energy_j_per_token", "prefill_energy_j"), (0.0, 1e12)),
    **dict.fromkeys(("top1_agreement", "retrieval_accuracy", "retrieval_greedy"), (0.0, 1.0)),
    **dict.fromkeys(("perplexity", "perplexity_ratio"), (1e-30, 1e30)),
    "mean_kl": (0.0, 1e6),
    **dict.fromkeys(("read_byte_s", "copy_byte_s", "triad_byte_s"), (1e3, 1e16)),
}
"""Output -> its least and largest value, in the unit of its name."""

_MOST = 1e30  # of any other value
_ORDER_FRAC = 1e-9  # by which rounding may put a median outside its interval
_WORDS = {"float": "number", "int": "whole number", "str": "text", "bool": "true or false", "null": "nothing"}


class BodyError(ValueError):
    """A body is not sound; the message is ``field: expectation`` without a full stop."""


class Value(msgspec.Struct):
    """A value with its interval and origin."""

    median: float
    q05: float
    q95: float
    provenance: str
    n: Annotated[int, Meta(ge=1, le=2**53)] = 1


class _Absent(msgspec.Struct):
    absent: str


class Span(msgspec.Struct):
    """A stage of a run and its time of the board's clock [s]."""

    stage: str
    start_s: Annotated[float, Meta(ge=-1e12, le=1e12)]
    end_s: Annotated[float, Meta(ge=-1e12, le=1e12)]


class _Conditions(msgspec.Struct):
    quiet_share: Annotated[float, Meta(ge=0, le=1)] = 1.0
    runtime: str = ""
    power_covers: str = ""
    options: dict[str, Any] = {}


_Share = Annotated[float, Meta(ge=0, le=1 + 1e-6)]


class _Attention(msgspec.Struct):
    n_tokens: Annotated[int, Meta(ge=1, le=2**53)]
    keep_shares: list[_Share]
    retained_mass: list[_Share]
    sparse_share: _Share | None = None
    entropy_nat: Annotated[float, Meta(ge=0, le=64)] | None = None


class _Accuracy(msgspec.Struct):
    top1_loss: Value
    top1_agreement: Value
    mean_kl: Value
    perplexity_ratio: Value
    decode_s: dict[str, Any] = {}


_Count = Annotated[int, Meta(ge=0, le=2**53)]


class _Installed(msgspec.Struct):
    epoch: _Count
    crc: _Count
    n_channels: _Count
    n_message: _Count
    payload_byte: _Count
    total_s: Annotated[float, Meta(ge=0, le=1e7)]


class _Effect(msgspec.Struct):
    """Effect of a compensation: without it, with it, and the change, in pairs."""

    kind: Literal["offsets", "feedback", "both"]
    without: _Accuracy
    compensated: _Accuracy = msgspec.field(name="with")
    change: dict[str, dict[str, Any]]
    drift_sd: list[Annotated[float, Meta(ge=0, le=1e30)]] = []
    installed: _Installed | None = None


_MEMBERS: dict[str, Any] = {
    "compensation": _Effect,
    "conditions": _Conditions,
    "notes": list[str],
    "applied": dict[str, str | float | None],
    "spans": list[Span],
    "attention": _Attention,
    "layer_s": list[Annotated[float, Meta(ge=0, le=1e7)]],
    "source": str,
}
_MAPPINGS = ("rails", "stages_s", "request_stages_s", "attention_by_head")
"""Members of several values."""


def check_body(body: object, provenances: Collection[str], wanted: Collection[str] = ()) -> None:
    """Check the body of a measurement.

    Parameters
    ----------
    body
        JSON values.
    provenances
        Origins that its values may have.
    wanted
        Outputs of which it must have one, be it absent with a reason.

    Raises
    ------
    BodyError
        At the first member that is not as expected.
    """
    members = _mapping(body, "the result")
    if wanted and not any(name in members for name in wanted):
        raise BodyError(f"the result: expected {' or '.join(wanted)}, a value or absent with a reason")
    for name in (*RANGES, "step_s"):
        if name in members:
            check_value(members[name], name, provenances)
    for name, kind in _MEMBERS.items():
        if name in members and not (isinstance(members[name], dict) and "absent" in members[name]):
            _convert(members[name], kind, name)
    for name in _MAPPINGS:
        if name in members:
            _mapping(members[name], name)
    for rail, found in members.get("rails", {}).items():
        _convert(_mapping(found, f"rails.{rail}").get("covers", ""), str, f"rails.{rail}.covers")
    _check_nested(members, "", provenances)


def moment(time_utc: str) -> datetime:
    """Return the date of an ISO 8601 text with its zone.

    Raises
    ------
    BodyError
        It is none, or outside the years 1970 to 2499.
    """
    try:
        found = datetime.fromisoformat(time_utc)
    except (ValueError, TypeError):
        found = datetime.min
    if found.tzinfo is None or not 1970 <= found.year < 2500:
        raise BodyError(f"time_utc: got {time_utc!r:.40}, expected a date with its zone, such as 2026-01-31T12:00:00Z")
    return found


def check_value(value: object, name: str, provenances: Collection[str], *, ranged: bool = True) -> None:
    """Check a value or its absence; `name` ends in the name of the output, whose range it has.

    Raises
    ------
    BodyError
        ``decode_s.median: got -1, expected 1e-09 to 1e+07``.
    """
    if "absent" in _mapping(value, name):
        _convert(value, _Absent, name)
        return
    found = _convert(value, Value, name)
    low, high = RANGES.get(name, (-_MOST, _MOST)) if ranged else (-_MOST, _MOST)
    for part in ("median", "q05", "q95"):
        number = getattr(found, part)
        if not low <= number <= high:
            raise BodyError(f"{name}.{part}: got {number:g}, expected {low:g} to {high:g}")
    slack = _ORDER_FRAC * max(abs(found.q05), abs(found.q95))
    if not found.q05 - slack <= found.median <= found.q95 + slack:
        interval = f"{found.q05:g} to {found.q95:g}"
        raise BodyError(f"{name}.median: got {found.median:g}, expected a value in its interval {interval}")
    if found.provenance not in provenances:
        wanted = " or ".join(sorted(provenances))
        raise BodyError(f"{name}.provenance: got {found.provenance!r:.40}, expected {wanted}")


def _check_nested(value: object, at: str, provenances: Collection[str]) -> None:
    """Check every value with an interval below the first level, and that all numbers are finite."""
    if isinstance(value, Mapping):
        if "median" in value and at not in RANGES:
            check_value(value, at, provenances)
            return
        for key, item in value.items():
            _check_nested(item, f"{at}.{key}" if at else str(key), provenances)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_nested(item, at, provenances)
    elif isinstance(value, (int, float)) and not abs(value) <= 1e300:
        raise BodyError(f"{at}: got {value!r:.40}, expected a finite number")


def _mapping(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BodyError(f"{name}: got {value!r:.40}, expected an object")
    return value


def _convert(value: object, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        raise BodyError(f"{name}{sentence(str(error))}") from None


def sentence(message: str) -> str:
    """Turn ``Expected `float`, got `str` - at `$.median``` into ``.median: expected number, got text``."""
    text, _, at = message.partition(" - at ")
    text = re.sub(r"`([^`]*)`", lambda found: " or ".join(_WORDS.get(w, w) for w in found[1].split(" | ")), text)
    return f"{at.strip('`').removeprefix('$')}: {text[:1].lower()}{text[1:]}"
