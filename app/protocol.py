r"""How the program and the agent on the board talk, over any pair of byte streams (pipes, ssh, a socket).

Both ends send *frames*, little-endian::

    magic  b"\xfeTL"    3 bytes   0xFE occurs in no UTF-8 text, so a login banner or a stray print cannot hold it
    version            u8        `VERSION`, of this layout, which itself stays as it is
    kind               u8        1 control, 2 samples
    length             u32       of the body, at most 64 KiB (control) or 512 KiB (samples)
    seq                u64       control: number of the message; samples: number of the first record in the body
    body
    crc32              u32       over everything from the magic to the end of the body

A *control* body is one JSON object with a member ``op``; `MESSAGES` lists the operations with their members. Members
that are not listed are allowed, operations and kinds that are not known are ignored, so that two ends of the same
`VERSION` understand each other as far as the older one goes; ``minor`` in ``hello`` tells how far that is (`MINOR`).

Where others can reach the agent, behind a socket, it first asks who is there and says nothing else before:
``challenge``, then the client's ``answer`` with a proof that it has the token, then ``welcome`` with the agent's own
proof, or ``refused`` (`app.secure`). ``pair`` brings it the token, once and through ssh; ``paired`` is its answer.

Client to agent:

- ``subscribe`` sets the rate of the sensor samples, 0.1 to 1000 Hz; they flow at 10 Hz until then.
- ``measure`` runs an operating point. A newer request supersedes an unfinished older one, unless either was sent with
  ``queue``: those wait for their turn (`MAX_QUEUED`), are never superseded, and let the newer one go first; one of
  them that runs begins anew after it.
  ``options`` say how much is measured, such as how many windows of text accuracy is taken over.
- ``bandwidth`` measures the memory bandwidth; always queued.
- ``parameters`` does one ``step`` with the parameters of the board's compensation, at once (`app.agent.parameters`);
  a ``measure`` of ``compensation`` makes a set on the board, installs it by the same steps and measures its effect.
- ``cancel`` ends a request, waiting or running. ``ping`` asks for the agent's clock.

Agent to client:

- ``hello`` comes first, ``catalogue`` second: the channels, those with samples first. The catalogue comes again when
  native periods have been found, and with other channels when a tool of the board has shown new ones: the records after
  it have its columns.
- ``state`` comes when the state of the board has changed that ``hello`` told: power mode, governors, clocks, what
  throttles it, what else runs, each ``{value}`` or ``{absent}``, and ``warning`` where it would spoil a measurement.
- ``progress``, then for each request exactly one ``result`` or ``failed`` (kind "failed", "cancelled", "superseded").
- ``pong`` returns the ping's time with the agent's times of arrival and departure. ``log`` is a line for people.

A recording is a file of the same frames, as they came, with these among them; ``t_ns`` is the recording program's
monotonic clock:

- ``recording`` comes first, ``clock`` says how far the agent's clock is ahead, ``gap`` that and why nothing arrived.
- ``measured`` is a request together with its result.
- ``play`` asks the player of a recording for another position, speed (0: as fast as it can be read) or a pause;
  ``position`` is its answer and its pulse, ``rewound`` when samples follow that lie before those of before.

A *samples* body is a run of records, ``i64`` nanoseconds of the agent's monotonic clock and one ``f32`` for each
channel with samples, NaN where a sensor could not be read. Records are numbered from 0. When the reader stalls, the
agent keeps the newest records and drops the oldest, so a jump of ``seq`` is the number of records lost.

The agent and the worker process that it supervises speak the same protocol (``ready`` comes first there).

Standard library only, Python 3.8: this file travels to the board.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from typing import Any, Iterator, Mapping, NamedTuple

MAGIC = b"\xfeTL"
VERSION = 1
MINOR = 1
CONTROL, SAMPLES = 1, 2

MAX_BODY_BYTE = {CONTROL: 64 * 1024, SAMPLES: 512 * 1024}
MAX_DEPTH = 8
MAX_INT = 2**64 - 1
MAX_QUEUED = 64
MAX_SKIPPED_BYTE = 1024 * 1024
MAX_REJECTED = 32
RATE_RANGE_HZ = (0.1, 1000.0)
WHAT = ("decode", "ttft", "quality", "retrieval", "attention", "stages", "compensation", "texts")

HEADER = struct.Struct("<3sBBIQ")
CRC = struct.Struct("<I")
_NUMBER = (int, float)
_MAX_BYTE = max(MAX_BODY_BYTE.values())

MESSAGES: dict[str, dict[str, Any]] = {
    "subscribe": {"rate_hz": _NUMBER},
    "measure": {"id": int, "point": dict, "what": list, "queue?": bool, "model_file?": str, "options?": dict},
    "bandwidth": {"id": int},
    "parameters": {"id": int, "step": str},
    "cancel": {"id": int},
    "ping": {"t1_ns": int},
    "challenge": {"nonce": str},
    "answer": {"nonce": str, "proof": str, "control": bool},
    "welcome": {"proof": str},
    "refused": {"reason": str},
    "pair": {"pem": str, "token": str},
    "paired": {"folder": str, "command": list},
    "hello": {"protocol": int, "minor?": int, "agent": str, "t_ns": int, "board": dict, "can": dict, "models": list},
    "catalogue": {"channels": list, "rate_hz": _NUMBER},
    "progress": {"id": int, "done_frac": _NUMBER, "text": str},
    "result": {"id": int, "body": dict},
    "failed": {"id": int, "kind": str, "reason": str},
    "state": {"state": dict},
    "pong": {"t1_ns": int, "t2_ns": int, "t3_ns": int},
    "log": {"level": str, "text": str},
    "ready": {"agent": str},
    "recording": {"format": int, "made_by": str, "t_ns": int, "time_utc": str},
    "clock": {"t_ns": int, "offset_s": _NUMBER, "bound_s?": _NUMBER, "drift": _NUMBER, "jump_s?": _NUMBER},
    "gap": {"t_ns": int, "reason": str},
    "markers": {"t_ns": int, "a_ns": int, "b_ns": int, "shown": bool},
    "measured": {"request": dict, "body": dict, "time_utc": str},
    "play": {"t_ns?": int, "speed?": _NUMBER, "paused?": bool},
    "position": {"t_ns": int, "first_ns": int, "last_ns": int, "speed": _NUMBER, "paused": bool, "rewound?": bool},
}
"""Members of each operation with their types; a name that ends in "?" may be missing."""


class ProtocolError(Exception):
    """The other end broke the protocol; the message is one sentence."""


class Malformed(ProtocolError):
    """What no end of any version would send: not JSON, too deep, not finite."""


class Frame(NamedTuple):
    """One frame that arrived whole, its checksum verified."""

    kind: int
    seq: int
    body: bytes


def encode_frame(kind: int, seq: int, body: bytes) -> bytes:
    """Return the bytes of one frame.

    Raises
    ------
    ProtocolError
        If `body` is longer than the kind allows.
    """
    if len(body) > MAX_BODY_BYTE[kind]:
        raise ProtocolError(f"a body of {len(body)} bytes is too long: expected at most {MAX_BODY_BYTE[kind]}")
    head = HEADER.pack(MAGIC, VERSION, kind, len(body), seq) + body
    return head + CRC.pack(zlib.crc32(head))


def encode_control(message: Mapping[str, Any], seq: int) -> bytes:
    """Return the frame of one control message, checked as the reader will check it."""
    check_message(message)
    return encode_frame(CONTROL, seq, json.dumps(message, separators=(",", ":")).encode("ascii"))


def decode_control(body: bytes) -> dict[str, Any]:
    """Return the message in a control body.

    Raises
    ------
    Malformed
        If it is not a JSON object with finite numbers, whole ones up to `MAX_INT`, `MAX_DEPTH` deep at most.
    ProtocolError
        If it is not of a known operation with the members that `MESSAGES` lists.
    """
    try:
        message = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Malformed(f"a control message is not JSON: {_short(body)}") from None
    check_message(message)
    return message  # type: ignore[no-any-return]


def check_message(message: Any) -> None:
    """Raise ProtocolError unless `message` is one of `MESSAGES`: types, finite numbers, depth."""
    if not isinstance(message, dict):
        raise Malformed(f"a control message is not an object: {_short(message)}")
    _check_value(message, 1)
    op = message.get("op")
    members = MESSAGES.get(op) if isinstance(op, str) else None
    if members is None:
        raise ProtocolError(f"unknown operation {_short(op)}: expected one of {', '.join(MESSAGES)}")
    for name, kind in members.items():
        key = name.rstrip("?")
        value = message.get(key)
        if value is None and name.endswith("?"):
            continue
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ProtocolError(f"{op}: {key}: got {_short(value)}, expected {_type_name(kind)}")


def _type_name(kind: Any) -> str:
    return "number" if kind is _NUMBER else str(kind.__name__)


def _short(value: Any) -> str:
    return f"{value!r:.60}"


def _check_value(value: Any, depth: int) -> None:
    if isinstance(value, (dict, list, tuple)):
        if depth > MAX_DEPTH:
            raise Malformed(f"a control message is nested deeper than {MAX_DEPTH}")
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_value(item, depth + 1)
    elif isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise Malformed(f"a control message holds half a character: {_short(value)}")
    elif isinstance(value, _NUMBER):
        if not (math.isfinite(value) if isinstance(value, float) else abs(value) <= MAX_INT):
            wanted = "a finite number, whole ones of 64 bits at most"
            raise Malformed(f"a control message holds {_short(value)}: expected {wanted}")
    elif value is not None:
        raise ProtocolError(f"a control message holds a {type(value).__name__}: expected JSON values")


def record_struct(n_channels: int) -> struct.Struct:
    """Return the layout of one sample record: time in nanoseconds, then one value for each channel."""
    return struct.Struct(f"<q{n_channels}f")


class Decoder:
    """Cut a byte stream into frames; memory stays below one frame plus what is fed at once.

    Anything between frames is skipped, a damaged frame is dropped alone: the search goes on one byte after its magic.
    Whole frames of a kind that is not known are left out.

    Attributes
    ----------
    n_skipped_byte
        Bytes that belonged to no frame, since the start.
    n_rejected
        Headers that could not be right and frames whose checksum was wrong, since the start.
    """

    def __init__(self) -> None:
        self.n_skipped_byte = 0
        self.n_rejected = 0
        self._buffer = bytearray()
        self._skipped_at_frame = 0  # the counts when the last whole frame arrived
        self._rejected_at_frame = 0
        self._other_version: int | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take `data` and yield the frames that are complete now.

        Raises
        ------
        ProtocolError
            If `MAX_SKIPPED_BYTE` bytes or `MAX_REJECTED` headers went by without one whole frame, or if one of another
            version came.
        """
        self._buffer += data
        while self._seek_magic() and len(self._buffer) >= HEADER.size:
            _, version, kind, length, seq = HEADER.unpack_from(self._buffer)
            if length > MAX_BODY_BYTE.get(kind, _MAX_BYTE):
                self._reject()
                continue
            end = HEADER.size + length
            if len(self._buffer) < end + CRC.size:
                return
            (crc,) = CRC.unpack_from(self._buffer, end)
            if zlib.crc32(memoryview(self._buffer)[:end]) != crc:
                self._other_version = version if version != VERSION else None
                self._reject()
                continue
            if version != VERSION:
                self._buffer.clear()
                raise ProtocolError(
                    f"the other end speaks version {version} of the protocol, this one speaks {VERSION}: "
                    "expected the same version of Trilemma on both"
                )
            body = bytes(memoryview(self._buffer)[HEADER.size : end])
            del self._buffer[: end + CRC.size]
            self._skipped_at_frame, self._rejected_at_frame = self.n_skipped_byte, self.n_rejected
            if kind in MAX_BODY_BYTE:
                yield Frame(kind, seq, body)

    def _seek_magic(self) -> bool:
        """Drop what precedes the next magic; False when the buffer holds none."""
        at = self._buffer.find(MAGIC)
        n_drop = at if at >= 0 else max(0, len(self._buffer) - len(MAGIC) + 1)
        if n_drop:
            del self._buffer[:n_drop]
            self.n_skipped_byte += n_drop
            if self.n_skipped_byte - self._skipped_at_frame > MAX_SKIPPED_BYTE:
                self._give_up(f"{self.n_skipped_byte - self._skipped_at_frame} bytes")
        return at >= 0

    def _reject(self) -> None:
        del self._buffer[:1]
        self.n_skipped_byte += 1
        self.n_rejected += 1
        if self.n_rejected - self._rejected_at_frame >= MAX_REJECTED:
            self._give_up(f"{MAX_REJECTED} damaged frames")

    def _give_up(self, seen: str) -> None:
        self._buffer.clear()
        text = f"the stream holds no Trilemma frame: gave up after {seen}"
        if self._other_version is not None:
            text += (
                f"; the other end may speak version {self._other_version} of the protocol, this one speaks {VERSION}"
            )
        raise ProtocolError(text)
