"""The text of a file that somebody wrote, whatever wrote it: the encoding is found from the bytes.

A byte-order mark decides. Without one, UTF-16 has a NUL in every second byte; a text that is not UTF-8 is taken for
Windows-1252, as Excel writes CSV. An end that is cut off inside a character loses that character only.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import stat
from collections.abc import Iterator
from pathlib import Path

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before that of UTF-16, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT_BYTE = 4096
_MOSTLY = 0.4  # share of NULs among every second byte that is the other byte of Latin letters in UTF-16
_SHOWN_BYTE = 8
_CHUNK_BYTE = 1 << 20

HIDDEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that steer a terminal, reverse the words beside them or cannot be seen: C0, C1, bidirectional, halves."""

MOST_BYTE = 64 << 20
"""Largest size of a file that is read as a whole; files that people write have a few kilobytes."""
MOST_STREAMED_BYTE = 1 << 30
"""The same of a table that is read row by row."""
SILENCE_S = 30.0
"""How long a pipe may give nothing before it is given up."""


def text_of(content: bytes) -> str:
    r"""Return the text of a file's bytes, without the byte-order mark; ends of lines are as they are.

    Raises
    ------
    ValueError
        It has bytes that no text has; one sentence without the file's name.

    Examples
    --------
    >>> text_of("21 °C".encode("utf-16"))
    '21 °C'
    >>> text_of("21 °C".encode("cp1252"))
    '21 °C'
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decoded(content[len(mark) :], encoding)
    head = content[:_LOOKED_AT_BYTE]
    if b"\0" in head:
        return _decoded(content, _wide(head))
    try:
        return _decoded(content, "utf-8")
    except ValueError:
        return content.decode("cp1252", errors="replace")


def read_text_of(path: Path) -> str:
    """Return `text_of` a file, as `read_bytes_of` reads it.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is no text, or too large.
    """
    return text_of(read_bytes_of(path))


def read_bytes_of(path: Path, most_byte: int = MOST_BYTE, silence_s: float = SILENCE_S) -> bytes:
    """Return the bytes of a file, or all that a pipe or a device gives until its end.

    Parameters
    ----------
    path : Path
    most_byte : int
        Limit of the size [byte].
    silence_s : float
        How long a pipe may give nothing [s].

    Raises
    ------
    OSError
        It cannot be read, or no file can have its name.
    ValueError
        It is larger, or silent; one sentence without the file's name.
    """
    pieces, n_byte = list[bytes](), 0
    for piece in pieces_of(path, silence_s):
        pieces.append(piece)
        n_byte += len(piece)
        if n_byte > most_byte:
            raise ValueError(f"got more than {size_words(most_byte)}, expected a smaller file")
    return b"".join(pieces)


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file with their ends. A file larger than `MOST_BYTE` is not held in memory.

    Raises
    ------
    OSError, ValueError
        As `read_text_of`, with the limit `MOST_STREAMED_BYTE` for a regular file.
    """
    if not path.is_file() or path.stat().st_size <= MOST_BYTE:
        yield from io.StringIO(read_text_of(path), newline="")
        return
    if path.stat().st_size > MOST_STREAMED_BYTE:
        raise ValueError(f"got more than {size_words(MOST_STREAMED_BYTE)}, expected a smaller file")
    with path.open(encoding=_encoding_of(path), newline="", errors="replace") as file:
        yield from iter(lambda: file.readline(_CHUNK_BYTE), "")


def _encoding_of(path: Path) -> str:
    """Return the encoding of a large file, as `text_of` finds it."""
    with path.open("rb") as file:
        head = file.read(_LOOKED_AT_BYTE)
        for mark, encoding in _MARKS:
            if head.startswith(mark):
                return "utf-8-sig" if mark == codecs.BOM_UTF8 else encoding[:6]  # that of a mark, which it takes off
        if b"\0" in head:
            return _wide(head)
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        try:
            decoder.decode(head)
            for piece in iter(lambda: file.read(_CHUNK_BYTE), b""):
                decoder.decode(piece)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def size_words(n_byte: int) -> str:
    """Return a limit of a size in words, such as "64 MiB"."""
    return f"{n_byte >> 20} MiB" if n_byte >= 1 << 20 else f"{n_byte >> 10} KiB"


def pieces_of(path: Path, silence_s: float = SILENCE_S) -> Iterator[bytes]:
    """Yield the bytes of a file, a pipe or a device in pieces, as `read_bytes_of`; a device may have no end."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe without a writer would not open
    except ValueError:  # NUL, or half of a character
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        while True:
            if not regular:
                _wait_for(descriptor, silence_s)
            piece = os.read(descriptor, _CHUNK_BYTE)
            if not piece:
                return
            yield piece
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, silence_s: float) -> None:
    """Wait until a pipe gives something or ends."""
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        if not waiting.poll(1e3 * silence_s):
            raise ValueError(f"got no end and nothing more for {silence_s:g} s, expected a file or a pipe that ends")


def printable(text: str) -> str:
    r"""Return a text without its hidden characters; ends of lines and tabs stay.

    Examples
    --------
    >>> printable("\x1b[31mJetson\u202e Nano")
    '[31mJetson Nano'
    """
    return text if text.isprintable() else HIDDEN.sub("", text)


def one_line_end(text: str) -> str:
    """Return a text whose lines end as Python's do, whatever system wrote it."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(content: bytes, encoding: str) -> str:
    """Decode all but a character that the end cuts off."""
    try:
        return codecs.getincrementaldecoder(encoding)("strict").decode(content)
    except UnicodeDecodeError as error:
        raise _no_text(content) from error


def _wide(head: bytes) -> str:
    """Return which UTF-16 a text without a mark is."""
    high, low = head[1::2], head[0::2]
    if high.count(0) >= _MOSTLY * len(high) and not low.count(0):
        return "utf-16-le"
    if low.count(0) >= _MOSTLY * len(low) and not high.count(0):
        return "utf-16-be"
    raise _no_text(head)


def _no_text(content: bytes) -> ValueError:
    return ValueError(f"got bytes that are no text (it begins with {content[:_SHOWN_BYTE].hex(' ')}), expected text")
