"""The text of a file that somebody wrote, whatever wrote it: the encoding is found from the bytes.

A byte-order mark decides. Without one, UTF-16 has a NUL in every second byte; a text that is not UTF-8 is taken for
Windows-1252, as Excel writes CSV. An end that is cut off inside a character loses that character only.
"""

from __future__ import annotations

import codecs
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
    """Return `text_of` a file.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is no text.
    """
    return text_of(path.read_bytes())


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
