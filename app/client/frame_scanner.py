"""Find every whole frame of a file that may be cut or damaged anywhere, in memory of fixed size."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from app.protocol import CRC, HEADER, MAGIC, MAX_BODY_BYTE, VERSION, Frame

_BLOCK_BYTE = 4 << 20
_LONGEST_BYTE = HEADER.size + max(MAX_BODY_BYTE.values()) + CRC.size
_WRONG_BYTE = 64 << 20
"""How much may be summed up for nothing beyond four times the file: one made to waste time is given up then."""


class Found(NamedTuple):
    """A whole frame, its first byte in the file and the one behind its last."""

    start: int
    end: int
    frame: Frame


class Scan:
    """The whole frames of a file, and what lay between them.

    Unlike the protocol's decoder it never gives up for damage, and at the end of the file it looks for frames inside
    what a damaged length had claimed.

    Attributes
    ----------
    n_damaged, n_damaged_byte
        Stretches without a whole frame, and their size.
    torn_byte
        How much of that is at the end, as a cut leaves it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.n_damaged = self.n_damaged_byte = self.torn_byte = 0
        self._file = file
        self._buffer, self._base, self._ended = b"", 0, False  # a part of the file and where it begins
        self._wrong_byte = _WRONG_BYTE + 4 * os.fstat(file.fileno()).st_size

    def frames(self) -> Iterator[Found]:
        """Yield the frames in order."""
        at = whole = 0  # where to look, and where the last frame ended
        while True:
            self._hold(at)
            found = self._buffer.find(MAGIC, at - self._base)
            if found < 0 and self._ended:
                break
            if found < 0:
                at = self._base + len(self._buffer) - len(MAGIC) + 1
                continue
            at = self._base + found
            self._hold(at)
            made = self._frame(at)
            if made is None:
                at += 1
                continue
            self._skipped(at - whole)
            yield made
            at = whole = made.end
        self.torn_byte = self._base + len(self._buffer) - whole
        self._skipped(self.torn_byte)

    def _hold(self, at: int) -> None:
        """Have the longest frame that may begin at a byte in the buffer, or the end of the file."""
        while not self._ended and self._base + len(self._buffer) - at < _LONGEST_BYTE:
            block = self._file.read(_BLOCK_BYTE)
            self._ended = not block
            self._buffer, self._base = self._buffer[at - self._base :] + block, at

    def _frame(self, at: int) -> Found | None:
        first = at - self._base
        if len(self._buffer) - first < HEADER.size + CRC.size or self._wrong_byte < 0:
            return None
        _, version, kind, length, seq = HEADER.unpack_from(self._buffer, first)
        body, last = first + HEADER.size, first + HEADER.size + length
        if version != VERSION or length > MAX_BODY_BYTE.get(kind, -1) or last + CRC.size > len(self._buffer):
            return None
        if zlib.crc32(memoryview(self._buffer)[first:last]) != CRC.unpack_from(self._buffer, last)[0]:
            self._wrong_byte -= last - first
            return None
        return Found(at, self._base + last + CRC.size, Frame(kind, seq, self._buffer[body:last]))

    def _skipped(self, n_byte: int) -> None:
        if n_byte:
            self.n_damaged += 1
            self.n_damaged_byte += n_byte
