"""A set of compensation parameters as both ends know it, and its installation on a board.

A set holds one offset for each channel, and its context: chip and version that it was made with, model, weight format
and compensation that it is for. Little-endian: ``TLP2``, u16 bytes of the context, u32 channels, f32 gain, the context
as JSON, then the f32 offsets.

Standard library only, Python 3.8: this file travels to the board.
"""

from __future__ import annotations

import json
import math
import struct
import time
import zlib
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence, Tuple

MAGIC = b"TLP2"
MAX_FRAGMENT_BYTE = 2048
MAX_CHANNELS = 1 << 18
MAX_OFFSET = 1e30
MAX_CONTEXT_BYTE = 2048
MAX_PROBE = 256
"""Values of the probe of a live set."""
CONTEXT = ("chip", "version", "model", "weights", "compensation")
_HEADER = struct.Struct("<4sHIf")
_OFFSET_BYTE = 4
MAX_SET_BYTE = _HEADER.size + MAX_CONTEXT_BYTE + MAX_CHANNELS * _OFFSET_BYTE

Step = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""``step(name, members)`` does one step on the board and returns its answer; what it raises ends an installation."""


class ParametersError(Exception):
    """A step cannot be done; the message is one sentence."""


class ParameterSet(NamedTuple):
    """Offsets of the outputs of layers, the gain of the loop that found them, and what they are for.

    Channels come layer by layer, in each first those of the output layer of attention, then those of the last layer of
    the feed-forward.
    """

    context: Mapping[str, str]  # by `CONTEXT`
    gain: float
    offsets: Tuple[float, ...]

    def encode(self) -> bytes:
        """Return the set as it travels and lies in a slot."""
        context = json.dumps({key: self.context[key] for key in CONTEXT}, separators=(",", ":")).encode("ascii")
        head = _HEADER.pack(MAGIC, len(context), len(self.offsets), self.gain)
        return head + context + struct.pack(f"<{len(self.offsets)}f", *self.offsets)

    def compensate(self, values: Sequence[float], first: int = 0) -> List[float]:
        """Return outputs of the channels from `first` on with their offsets."""
        return [value + offset for value, offset in zip(values, self.offsets[first:])]


class Installed(NamedTuple):
    """Installation of a set: durations of the steps [s], and its live epoch."""

    epoch: int
    n_message: int
    payload_byte: int
    set_s: float
    verify_s: float
    commit_s: float
    verify_live_s: float

    @property
    def total_s(self) -> float:
        """All steps together."""
        return self.set_s + self.verify_s + self.commit_s + self.verify_live_s


def described(data: bytes) -> Tuple[int, Dict[str, str]]:
    """Return the number of channels and the context of the set in `data`, without its offsets.

    Raises
    ------
    ParametersError
        Wrong length or context, or a gain outside 0 < a < 2.
    """
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise ParametersError(f"the set of {len(data)} bytes does not begin with {MAGIC!r}")
    _, n_context, n_channels, gain = _HEADER.unpack_from(data)
    expected = _HEADER.size + n_context + n_channels * _OFFSET_BYTE
    if not 1 <= n_channels <= MAX_CHANNELS or len(data) != expected:
        raise ParametersError(f"the set says {n_channels} channels in {len(data)} bytes, expected {expected}")
    if not 0.0 < gain < 2.0:
        raise ParametersError(f"the set has the gain {gain:g}, expected 0 < gain < 2")
    return n_channels, _context(data[_HEADER.size : _HEADER.size + n_context])


def decode(data: bytes) -> ParameterSet:
    """Return the set in `data`, its numbers checked.

    Raises
    ------
    ParametersError
        As `described`, or an offset that is not finite.
    """
    n_channels, context = described(data)
    offsets = struct.unpack_from(f"<{n_channels}f", data, len(data) - n_channels * _OFFSET_BYTE)
    for i, offset in enumerate(offsets):
        if not abs(offset) <= MAX_OFFSET:
            raise ParametersError(f"channel {i} of the set has the offset {offset:g}, expected a finite number")
    return ParameterSet(context, _HEADER.unpack_from(data)[3], offsets)


def _context(data: bytes) -> Dict[str, str]:
    try:
        found = json.loads(data.decode("ascii"))
    except (ValueError, RecursionError):
        found = None
    sound = isinstance(found, dict) and set(found) == set(CONTEXT) and len(data) <= MAX_CONTEXT_BYTE
    if not sound or not all(isinstance(value, str) and value.isprintable() for value in found.values()):
        raise ParametersError(f"the set has no context, expected texts of {', '.join(CONTEXT)}")
    return {key: found[key] for key in CONTEXT}


def install(step: Step, wanted: ParameterSet) -> Installed:
    """Put a set live on a board, and see that it then gives the offsets that were meant.

    Parameters
    ----------
    step
        Does a step on the board.
    wanted
        The set; its numbers are rounded to float32, as they travel.

    Notes
    -----
    When a step after the commit fails, the board returns to its old set by itself; so it does when nothing comes in
    time.
    """
    data = wanted.encode()
    sent = decode(data)
    moments = [time.perf_counter()]
    offsets = range(0, len(data), MAX_FRAGMENT_BYTE)
    for offset in offsets:
        piece = data[offset : offset + MAX_FRAGMENT_BYTE]
        step("set", {"offset": offset, "total": len(data), "data": piece.hex()})
    moments.append(time.perf_counter())
    step("verify", {"crc": zlib.crc32(data)})
    moments.append(time.perf_counter())
    epoch = int(step("commit", {})["epoch"])
    moments.append(time.perf_counter())
    probe = [math.sin(i) for i in range(min(MAX_PROBE, len(sent.offsets)))]
    step("verify_live", {"epoch": epoch, "first": 0, "probe": probe, "expected": sent.compensate(probe)})
    moments.append(time.perf_counter())
    return Installed(epoch, len(offsets), len(data), *(b - a for a, b in zip(moments, moments[1:])))
