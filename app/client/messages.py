"""The door of the client: each message of the other end, checked by type, range and role before anything else sees it.

The other end is a live agent or the player of a recording. An agent may be of another version, or hostile, and a file
may say anything. Messages that are not as expected are refused in one sentence; of what a board says of itself, members
that are not as expected are left out and named. Members that are not known stay. All text is printable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from app.client.events import Channel
from app.measurement_body import OUTPUTS_OF, BodyError, check_body, moment, sentence
from app.printable import printable_tree
from app.protocol import ProtocolError, decode_control

Role = Literal["agent", "recording"]

LEVELS = ("info", "warning", "error")
ENDS = ("failed", "cancelled", "superseded")
MAX_LINE_CHAR = 500  # of a line for people
MAX_NAME_CHAR = 100
MAX_CHANNELS = 256  # with samples, that are kept and shown
MAX_ABSENT = 256  # channels without samples that are shown
MAX_ENTRIES = 64  # of a state, of the models, of the runtimes
MOST_READING = 1e18
"""No sensor reads more, in SI units: what does is no reading."""
MEASURED_LIVE, SIMULATED, RECORDED = ("measured",), ("simulated",), ("measured", "simulated")

Small = Annotated[int, Meta(ge=0, le=10**6)]
TimeNs = Annotated[int, Meta(ge=-(2**61), le=2**61)]
Id = Annotated[int, Meta(ge=0, le=2**53)]
Offset = Annotated[float, Meta(ge=-1e10, le=1e10)]
Text = Annotated[str, Meta(max_length=MAX_LINE_CHAR)]
Count = Annotated[int, Meta(ge=1, le=2**20)]
Size = Annotated[float, Meta(ge=0, le=1e18)]


class _Hello(Struct):
    protocol: Small
    agent: Text
    t_ns: TimeNs
    board: dict[str, Any]
    can: dict[str, Any]
    models: list[Any]
    minor: Small | None = None


class _Catalogue(Struct):
    channels: list[Any]


class _State(Struct):
    state: dict[str, Any]


class _Pong(Struct):
    t1_ns: TimeNs
    t2_ns: TimeNs
    t3_ns: TimeNs


class _Progress(Struct):
    id: Id
    done_frac: Annotated[float, Meta(ge=0, le=1)]
    text: str


class _Result(Struct):
    id: Id
    body: dict[str, Any]


class _Failed(Struct):
    id: Id
    kind: str
    reason: str


class _Log(Struct):
    level: str
    text: str


class _Recording(Struct):
    format: Small
    made_by: Text
    t_ns: TimeNs
    time_utc: Text


class _Clock(Struct):
    t_ns: TimeNs
    offset_s: Offset
    drift: Annotated[float, Meta(ge=-1, le=1)]
    bound_s: Annotated[float, Meta(ge=0, le=1e10)] | None = None
    jump_s: Offset | None = None


class _Gap(Struct):
    t_ns: TimeNs
    reason: str


class _Markers(Struct):
    t_ns: TimeNs
    a_ns: TimeNs
    b_ns: TimeNs
    shown: bool


class _Measured(Struct):
    request: dict[str, Any]
    body: dict[str, Any]
    time_utc: Text


class _Position(Struct):
    t_ns: TimeNs
    first_ns: TimeNs
    last_ns: TimeNs
    speed: Annotated[float, Meta(ge=0, le=1000)]
    paused: bool
    rewound: bool | None = None


_OF_AGENT: dict[str, type[Struct]] = {
    "hello": _Hello,
    "catalogue": _Catalogue,
    "state": _State,
    "pong": _Pong,
    "progress": _Progress,
    "result": _Result,
    "failed": _Failed,
    "log": _Log,
}
_OF_RECORDING: dict[str, type[Struct]] = {
    "recording": _Recording,
    "clock": _Clock,
    "gap": _Gap,
    "markers": _Markers,
    "measured": _Measured,
    "position": _Position,
}
WORDS: dict[Role, dict[str, type[Struct]]] = {"agent": _OF_AGENT, "recording": {**_OF_AGENT, **_OF_RECORDING}}
"""What each role may say."""

_LINES = ("text", "reason")


class _Channel(Struct):
    key: Annotated[str, Meta(min_length=1, max_length=200)]
    unit: Annotated[str, Meta(max_length=40)]
    source: Text
    native_period_s: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    absent: Text = ""
    covers: Text = ""
    error: Annotated[float, Meta(ge=0, le=1e18)] | None = None
    total: Text = ""
    part_of: Text = ""
    note: Text = ""


class _Absent(Struct):
    absent: Text


class _Entry(Struct):
    """An entry of the state: ``{value}`` or ``{absent}``, with an optional ``{warning}``."""

    value: Any = msgspec.UNSET
    absent: Text | msgspec.UnsetType = msgspec.UNSET
    warning: Text = ""


class _Model(Struct):
    file: Text
    byte: Size


class _Runtime(Struct):
    runtime: Text
    model: Text


_FACTS: dict[str, Any] = {
    **dict.fromkeys(("name", "cpu", "os", "release", "soc", "kernel", "machine", "python", "id", "key"), Text),
    **dict.fromkeys(("n_threads", "n_cores", "n_big_cores"), Count),
    **dict.fromkeys(("memory_byte", "available_byte", "gpu_limit_byte"), Size),
    "cache_byte": dict,
    "isa": list[Any],
    "compatible": list[Any],
}
_PLAYED = {"file": Text, "format": Small, "made_by": Text, "t_ns": TimeNs, "time_utc": Text, "clock": dict}
_NAMELESS = "unknown board"


def understood(body: bytes, role: Role) -> dict[str, Any]:
    """Return the message in a control body, checked for what its sender may say.

    Raises
    ------
    ProtocolError
        In one sentence: it is no message, not one of this role, or a member has another type or range.
    """
    return checked(decode_control(body), role)


def checked(given: Mapping[str, Any], role: Role) -> dict[str, Any]:
    """Return a message with printable text; raises as `understood`."""
    message: dict[str, Any] = printable_tree(given)
    op = message["op"]
    kind = WORDS[role].get(op)
    if kind is None:
        raise ProtocolError(f"{op} is not an answer" if op not in _OF_RECORDING else f"{op} is a word of recordings")
    try:
        msgspec.convert(message, kind)
        if "time_utc" in message and op in _OF_RECORDING:
            moment(message["time_utc"])
        if op == "measured":
            check_body(message["body"], RECORDED)
    except (msgspec.ValidationError, BodyError) as error:
        words = str(error) if isinstance(error, BodyError) else sentence(str(error)).lstrip(".")
        raise ProtocolError(f"{op}: {words.removeprefix(': ')}") from None
    for name in _LINES:
        if name in message and op in WORDS["recording"]:
            message[name] = line(message[name])
    return message


def line(text: str) -> str:
    """Return a text as one line of bounded length."""
    words = " ".join(text[: 4 * MAX_LINE_CHAR].split())
    return words if len(words) <= MAX_LINE_CHAR else f"{words[:MAX_LINE_CHAR]}…"


def check_result(request: Mapping[str, Any], body: Mapping[str, Any], provenances: Iterable[str]) -> None:
    """Check the body of the result of a request.

    Raises
    ------
    BodyError
        It is no measurement of what was asked for.
    """
    op, wanted = request.get("op"), list[str]()
    if op == "bandwidth":
        wanted = ["read_byte_s"]
    elif op == "measure":
        wanted = [OUTPUTS_OF[part][0] for part in request.get("what", ()) if part in OUTPUTS_OF]
    if op in ("bandwidth", "measure"):
        check_body(body, tuple(provenances), wanted)


def readings(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the values of sensors with NaN for what no sensor reads."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(values) <= MOST_READING, values, np.float32(np.nan))


def channels_of(message: Mapping[str, Any]) -> tuple[Channel, ...]:
    """Return the channels of a catalogue message.

    Raises
    ------
    ProtocolError
        If one lacks a member, or has one of another type or range, or if two have the same key.
    """
    try:
        found = msgspec.convert(message["channels"], list[_Channel])
    except msgspec.ValidationError as error:
        raise ProtocolError(f"catalogue: channels{sentence(str(error))}") from None
    made = tuple(Channel(**_one_line(msgspec.structs.asdict(one))) for one in found)
    twice = next((key for key, n in Counter(channel.key for channel in made).items() if n > 1), None)
    if twice is not None:
        raise ProtocolError(f"catalogue: channels: got {twice!r:.60} twice, expected each key once")
    return made


def _one_line(members: dict[str, Any]) -> dict[str, Any]:
    return {name: line(value) if isinstance(value, str) else value for name, value in members.items()}


def shown(channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
    """Return the first `MAX_CHANNELS` with samples and the first `MAX_ABSENT` without."""
    present = [channel for channel in channels if not channel.absent][:MAX_CHANNELS]
    return (*present, *[channel for channel in channels if channel.absent][:MAX_ABSENT])


# ---- what a board says of itself


def sound_hello(message: Mapping[str, Any], role: Role = "agent") -> tuple[dict[str, Any], list[str]]:
    """Return a ``hello`` without what has another shape than expected, and the names of that."""
    wrong: list[str] = []
    sound = dict(message)
    board = _kept(message["board"], "board", wrong, lambda name, value: fits(value, _FACTS.get(name, Any)))
    sound["board"] = {**board, "name": board.get("name") or _NAMELESS}
    sound["can"] = _kept(message["can"], "can", wrong, _is_ability)
    sound["models"] = _items(message["models"], "models", wrong, _Model)
    if "state" in message:
        sound["state"], more = sound_state(message["state"])
        wrong += more
    sound["runtimes"] = _items(message.get("runtimes", []), "runtimes", wrong, _Runtime)
    for name, right in (
        ("recording", role == "recording" and fits(message.get("recording"), dict)),
        ("simulated", None),
    ):
        if name in message and not (fits(message[name], bool) if right is None else right):
            del sound[name]
            wrong.append(name)
    if not isinstance(sound.get("parameters", {}), dict):
        del sound["parameters"]
        wrong.append("parameters")
    if "recording" in sound:
        played = _kept(sound["recording"], "recording", wrong, _is_played)
        sound["recording"] = {"file": "?", **played}
    return sound, wrong


def _is_played(name: str, value: Any) -> bool:
    if not fits(value, _PLAYED.get(name, Any)):
        return False
    try:
        return name != "time_utc" or bool(moment(value))
    except BodyError:
        return False


def sound_state(state: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the state of a board without what has another shape than expected, and the names of that."""
    if not isinstance(state, dict):
        return {}, ["state"]
    wrong: list[str] = []
    kept = _kept(state, "state", wrong, _is_entry)
    wrong += [f"state.{name}" for name in list(kept)[MAX_ENTRIES:]]
    return dict(list(kept.items())[:MAX_ENTRIES]), wrong


def fits(value: Any, kind: Any) -> bool:
    """Return True if a value has a type and its range."""
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError):
        return False
    return value == value and abs(value) <= MOST_READING if isinstance(value, (int, float)) else True


def _is_entry(name: str, value: Any) -> bool:
    return 0 < len(name) <= MAX_NAME_CHAR and fits(value, _Entry) and ("value" in value or "absent" in value)


def _is_ability(name: str, value: Any) -> bool:
    """Return True for an ability of an agent: a yes, a reason against it, a version, or a list of these."""
    if isinstance(value, dict):
        return fits(value, _Absent)
    if name in ("measure", "bandwidth"):
        return value is True
    return fits(value, Text | list[Text])


def _kept(
    members: Mapping[str, Any], where: str, wrong: list[str], right: Callable[[str, Any], bool]
) -> dict[str, Any]:
    kept = {name: value for name, value in members.items() if right(name, value)}
    wrong += [f"{where}.{name}" for name in members if name not in kept]
    return kept


def _items(values: Any, where: str, wrong: list[str], kind: type[Struct]) -> list[dict[str, Any]]:
    """Return those of a list that are objects with these members, the first `MAX_ENTRIES`."""
    given = values if isinstance(values, list) else [values]
    kept = [item for item in given if fits(item, kind)][:MAX_ENTRIES]
    wrong += [where] * (len(kept) < len(given))
    return kept
