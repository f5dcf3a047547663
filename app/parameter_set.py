"""A set of compensation parameters as both ends know it: gain and target mean, and the grid of each channel.

Little-endian: ``TLPS``, u32 number of channels, f32 gain, f32 target mean, then f32 scale and f32 zero of each channel.
Standard library only, Python 3.8: this file travels to the board.
"""

from __future__ import annotations

import math
import struct
from typing import List, NamedTuple, Sequence, Tuple

MAGIC = b"TLPS"
MAX_FRAGMENT_BYTE = 2048
MAX_CHANNELS = 1 << 16
SCALE_RANGE = (1e-12, 1e12)
_HEADER = struct.Struct("<4sIff")
_CHANNEL = struct.Struct("<ff")
MAX_SET_BYTE = _HEADER.size + MAX_CHANNELS * _CHANNEL.size


class ParametersError(Exception):
    """A step cannot be done; the message is one sentence."""


class ParameterSet(NamedTuple):
    """Gain and target mean of the outer loop, and the grid of each channel.

    ``step`` of a channel is its `scale`; its zero point is subtracted before and added after.
    """

    gain: float
    target_mean: float
    channels: Tuple[Tuple[float, float], ...]  # scale, zero

    def encode(self) -> bytes:
        """Return the set as it travels and lies in a slot."""
        head = _HEADER.pack(MAGIC, len(self.channels), self.gain, self.target_mean)
        return head + b"".join(_CHANNEL.pack(scale, zero) for scale, zero in self.channels)

    def compensate(self, values: Sequence[float], first: int = 0) -> List[float]:
        """Return one step of the dual loop over one value a channel, from channel `first` on.

        ``x - a (mean(x) - mu) - (1 - a) (x - round(x))`` with each channel rounded to its own grid (B10, corrected).
        """
        mean = math.fsum(values) / len(values)
        found = []
        for value, (scale, zero) in zip(values, self.channels[first:]):
            noise = (value - zero) - scale * round((value - zero) / scale)
            found.append(value - self.gain * (mean - self.target_mean) - (1.0 - self.gain) * noise)
        return found


def decode(data: bytes) -> ParameterSet:
    """Return the set in `data`, its numbers checked.

    Raises
    ------
    ParametersError
        Wrong length, a gain outside 0 < a < 2, a scale that is not positive, a number that is not finite.
    """
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        raise ParametersError(f"the set of {len(data)} bytes does not begin with {MAGIC!r}")
    _, n_channels, gain, target_mean = _HEADER.unpack_from(data)
    expected = _HEADER.size + n_channels * _CHANNEL.size
    if not 1 <= n_channels <= MAX_CHANNELS or len(data) != expected:
        raise ParametersError(f"the set says {n_channels} channels in {len(data)} bytes, expected {expected}")
    if not (0.0 < gain < 2.0 and math.isfinite(target_mean)):
        raise ParametersError(f"gain {gain:g} and target mean {target_mean:g}: expected 0 < gain < 2 and a finite mean")
    channels = tuple(_CHANNEL.iter_unpack(data[_HEADER.size :]))
    for i, (scale, zero) in enumerate(channels):
        if not (SCALE_RANGE[0] <= scale <= SCALE_RANGE[1] and math.isfinite(zero)):
            raise ParametersError(
                f"channel {i}: scale {scale:g} and zero {zero:g}: "
                f"expected a scale of {SCALE_RANGE[0]:g} to {SCALE_RANGE[1]:g} and a finite zero"
            )
    return ParameterSet(gain, target_mean, channels)
