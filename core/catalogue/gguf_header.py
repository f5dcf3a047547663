"""The header of a GGUF file: metadata and tensor table, without its weights.

Layout (GGUF versions 2 and 3, little endian): magic, version, number of tensors, number of metadata entries; the
entries (key, type, value); the tensors (name, dimensions, type, offset); padding; data. Every length is checked against
what is left of the file before anything is read, so a hostile or cut file costs no memory and gives one sentence.
"""

from __future__ import annotations

import math
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

BLOCK_LAYOUT: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    **{31: ("Q4_0_4_4", 32, 18), 32: ("Q4_0_4_8", 32, 18), 33: ("Q4_0_8_8", 32, 18)},
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}
"""Tensor type -> name, weights in a block, bytes of a block; with types of older files that llama.cpp has dropped."""

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MAX_NAME_BYTE = 65_535
_MAX_TEXT_BYTE = 1 << 20  # longer values (chat templates, vocabularies) are skipped, not kept
_MAX_KEPT_ITEMS = 4096  # longer arrays are skipped, not kept
_MAX_DEPTH = 4

Value = int | float | bool | str | list["Value"] | None


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the tensor table. `shape` has the fastest dimension first; `size_byte` is exact."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    size_byte: int

    @property
    def n_weights(self) -> int:
        """Number of weights, the product of the dimensions."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says about itself. A metadata value is None where it was too long to keep."""

    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]


def readable(text: str, longest: int = 240) -> str:
    """Return text out of a file as one line that a terminal can show: no control characters, and not endless."""
    line = "".join(c if c.isprintable() else "?" for c in text[: longest + 1])
    return line if len(line) <= longest else line[:longest] + "..."


class _Cursor:
    """Reads little-endian values off a file and never asks for more than is left of it."""

    def __init__(self, file: BinaryIO, name: str, size_byte: int) -> None:
        self.file, self.name, self.size_byte, self.at = file, name, size_byte, 0

    def fail(self, got: str, expected: str, at: int | None = None) -> NoReturn:
        raise ValueError(
            f"{self.name}: byte {self.at if at is None else at}: got {readable(got)}, expected {readable(expected)}"
        )

    def left(self) -> int:
        return self.size_byte - self.at

    def take(self, n_byte: int, what: str) -> bytes:
        if n_byte > self.left():
            self.fail(f"the end of the file {self.left()} bytes on", f"{n_byte} bytes of {what}")
        data = self.file.read(n_byte)
        if len(data) != n_byte:  # the file shrank while it was read
            self.fail(f"{len(data)} bytes", f"{n_byte} bytes of {what}")
        self.at += n_byte
        return data

    def skip(self, n_byte: int, what: str) -> None:
        if n_byte > self.left():
            self.fail(f"the end of the file {self.left()} bytes on", f"{n_byte} bytes of {what}")
        self.file.seek(n_byte, 1)
        self.at += n_byte

    def scalar(self, layout: str, what: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(layout, self.take(struct.calcsize(layout), what))[0]
        return value

    def count(self, what: str, smallest_byte: int) -> int:
        """A number of items that take at least `smallest_byte` each, so that it cannot exceed what is left."""
        at = self.at
        n = int(self.scalar("<Q", what))
        if n * smallest_byte > self.left():
            self.fail(f"{what} {n}", f"at most {self.left() // smallest_byte}, all that fits in the file", at)
        return n

    def text(self, what: str, longest_byte: int = _MAX_NAME_BYTE) -> str:
        at, n = self.at, self.count(f"the length of {what}", 1)
        if n > longest_byte:
            self.fail(f"{what} of {n} bytes", f"at most {longest_byte}", at)
        try:
            return self.take(n, what).decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"bytes that are not UTF-8 in {what}", "UTF-8 text", at)

    def value(self, kind: int, key: str, depth: int = 0) -> Value:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind], key)
        if kind == _STRING:
            n = self.count(f"the length of {key}", 1)
            if n <= _MAX_TEXT_BYTE:
                return self.take(n, key).decode("utf-8", errors="replace")
            self.skip(n, key)
            return None
        if kind == _ARRAY and depth < _MAX_DEPTH:
            return self.array(key, depth)
        self.fail(f"type {kind} of {key}", "a GGUF value type 0 to 12", self.at - 4)

    def array(self, key: str, depth: int) -> Value:
        kind = int(self.scalar("<I", f"item type of {key}"))
        width = struct.calcsize(_SCALARS[kind]) if kind in _SCALARS else 8 if kind == _STRING else 12
        n = self.count(f"items of {key}", width)
        if n > _MAX_KEPT_ITEMS and kind in _SCALARS:
            self.skip(n * width, key)
            return None
        kept: list[Value] | None = [] if n <= _MAX_KEPT_ITEMS else None
        for _ in range(n):
            if kept is None and kind == _STRING:
                self.skip(self.count(f"the length of an item of {key}", 1), key)
                continue
            item = self.value(kind, key, depth + 1)
            if kept is not None:
                kept.append(item)
        return kept


def read_header(path: Path) -> Header:
    """Read the metadata and the tensor table of a GGUF file, and check that the file holds all of its tensors.

    Parameters
    ----------
    path
        A GGUF file, version 2 or 3, little endian.

    Raises
    ------
    ValueError
        One sentence ``name: byte offset: got X, expected Y`` for a file that cannot be read, is cut, or is foreign.
    """
    try:
        about = path.stat()
        if stat.S_ISFIFO(about.st_mode) or stat.S_ISCHR(about.st_mode) or stat.S_ISSOCK(about.st_mode):
            raise ValueError(f"{path}: got a pipe or a device, expected a GGUF file")
        size_byte = about.st_size
        with path.open("rb") as file:
            return _read(_Cursor(file, path.name, size_byte))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}, expected a GGUF file") from None


def _read(cursor: _Cursor) -> Header:
    magic = cursor.take(4, "magic")
    if magic != b"GGUF":
        cursor.fail(f"magic {magic!r}", "b'GGUF'", 0)
    version = int(cursor.scalar("<I", "version"))
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        why = f"big-endian version {swapped}" if swapped in (2, 3) else f"version {version}"
        cursor.fail(why, "version 2 or 3, little endian", 4)
    n_tensors = cursor.count("number of tensors", 24)
    n_entries = cursor.count("number of metadata entries", 13)
    metadata: dict[str, Value] = {}
    for _ in range(n_entries):
        key = cursor.text("a metadata key")
        if key in metadata:
            cursor.fail(f"metadata key {key!r} twice", "every key once")
        metadata[key] = cursor.value(int(cursor.scalar("<I", f"type of {key}")), key)
    entries = [_tensor(cursor) for _ in range(n_tensors)]
    _check_data(cursor, metadata.get("general.alignment", 32), entries)
    return Header(version, metadata, tuple(tensor for tensor, _ in entries))


def _tensor(cursor: _Cursor) -> tuple[Tensor, int]:
    name = cursor.text("a tensor name")
    at = cursor.at
    n_dims = int(cursor.scalar("<I", f"number of dimensions of {name}"))
    if not 1 <= n_dims <= 4:
        cursor.fail(f"{n_dims} dimensions of {name}", "1 to 4", at)
    shape = tuple(int(cursor.scalar("<Q", f"a dimension of {name}")) for _ in range(n_dims))
    at = cursor.at
    kind = int(cursor.scalar("<I", f"type of {name}"))
    if kind not in BLOCK_LAYOUT:
        cursor.fail(f"tensor type {kind} of {name}", f"one of {', '.join(row[0] for row in BLOCK_LAYOUT.values())}", at)
    type_name, block, block_byte = BLOCK_LAYOUT[kind]
    if 0 in shape or shape[0] % block:
        cursor.fail(
            f"shape {shape} of {name}", f"positive dimensions, the first a multiple of {block} ({type_name})", at
        )
    offset = int(cursor.scalar("<Q", f"offset of {name}"))
    return Tensor(name, type_name, shape, math.prod(shape) // block * block_byte), offset


def _check_data(cursor: _Cursor, alignment: Value, entries: list[tuple[Tensor, int]]) -> None:
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        cursor.fail(f"general.alignment {alignment!r}", "a power of two up to 1048576")
    start = -(-cursor.at // alignment) * alignment
    names: set[str] = set()
    for tensor, offset in entries:
        if tensor.name in names:
            cursor.fail(f"tensor {tensor.name} twice", "every tensor once")
        names.add(tensor.name)
        end = start + offset + tensor.size_byte
        if end > cursor.size_byte:
            cursor.fail(
                f"the end of the file at byte {cursor.size_byte}",
                f"tensor {tensor.name} up to byte {end}",
                start + offset,
            )
