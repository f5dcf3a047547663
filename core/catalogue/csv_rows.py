"""Tolerant reading of CSV files: a malformed row does not affect the others."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.catalogue.refusal import shown
from core.catalogue.text_files import read_text_of

_TOLD = re.compile(r"sep=([,;\t|])[,;\s]*$", re.IGNORECASE)  # Excel's own line, padded where it was saved again


class Row(NamedTuple):
    """A row with the line on which it ends, and the fault of its quotes or length; "" where there is none."""

    line: int
    cells: list[str]
    broken: str = ""


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Return the heading of a CSV file (its first line that is not empty) and its rows, without empty ones.

    The delimiter is that of a first line ``sep=;`` as Excel writes it, else the most frequent one of comma, semicolon
    and tab in the heading. A row with an unclosed quote, which would extend over the following lines, is `broken` at
    the line where it begins; reading continues with the next line.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The file is not CSV; the message is one sentence.
    """
    return rows_of(read_text_of(path))


def rows_of(text: str) -> tuple[list[str], list[Row]]:
    """Return the heading of a CSV text and its rows, as `read_rows` does."""
    heading, rows = rows_in(io.StringIO(text, newline=""))
    return heading, list(rows)


def rows_in(lines: Iterable[str]) -> tuple[list[str], Iterator[Row]]:
    """Return the heading of the lines of a CSV text and an iterator over its rows, as `read_rows` does."""
    source = _Lines(iter(lines))
    delimiter, skipped = _begin_of(source)
    n_first = len(skipped)
    try:
        heading = next(csv.reader(source, delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"line {n_first + 1}: got {csv_fault(error)}, expected the names of columns") from None
    source.give_back(source.taken)
    rows = _rows(source, n_first, delimiter, len(heading))
    next(rows, None)
    return heading, (row for row in rows if any(row.cells) or row.broken)


def csv_fault(error: csv.Error) -> str:
    """Return the fault of a row that cannot be read as CSV."""
    too_long = "field larger than" in str(error)
    return "a cell without end" if too_long else "a quote that is not closed where its cell ends"


class _Lines:
    """Lines that can be given back; `taken` are those since it was last cleared."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._again = lines, deque[str]()
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self.taken.append(line)
        return line

    def give_back(self, lines: list[str]) -> None:
        self._again.extendleft(reversed(lines))
        self.taken = []


def _begin_of(source: _Lines) -> tuple[str, list[str]]:
    """Return what parts the cells, and the lines in front of the heading, which is the next of the source."""
    delimiter = ""
    for line in source:
        if not line.strip(" ,;\t\r\n"):
            continue
        told = _TOLD.match(line)
        if told and not delimiter:
            delimiter = told[1]
            continue
        skipped = source.taken[:-1]
        source.give_back([line])
        return delimiter or max(",;\t", key=line.count), skipped
    lines = source.taken
    if not delimiter:  # nothing but empty lines
        source.give_back(lines)
        return ",", []
    source.taken = []
    return delimiter, lines


def _begin(lines: list[str]) -> tuple[int, str]:
    """Return at which line the heading is, and what parts the cells."""
    delimiter, skipped = _begin_of(_Lines(iter(lines)))
    return len(skipped), delimiter


def _rows(source: _Lines, begin: int, delimiter: str, n_cells: int) -> Iterator[Row]:
    """Yield the rows of the lines from line `begin` on."""
    while True:
        reader = csv.reader(source, delimiter=delimiter, strict=True)
        source.taken = []
        try:
            for cells in reader:
                n_lines = len(source.taken)
                if n_lines > 1 and len(cells) != n_cells:
                    raise csv.Error("a quote that takes in whole rows")
                begin += n_lines
                source.taken = []
                yield Row(begin, cells)
        except csv.Error as error:
            source.give_back(source.taken[1:])
            begin += 1
            yield Row(begin, [], csv_fault(error))
        else:
            return


def read_columns(where: str, text: str, names: tuple[str, ...]) -> list[NDArray[np.float64]]:
    """Return columns of a CSV text with a header, by name; other columns and spaces around names are ignored.

    Where the delimiter is a semicolon or a tab, numbers may have decimal commas.

    Parameters
    ----------
    where : str
        Name of the file, for messages.
    text : str
    names : tuple of str
        Names of the columns.

    Raises
    ------
    ValueError
        A column is missing or repeated, a row has another number of cells, or a value is not a finite number; the
        message has the line.
    """
    lines = list(io.StringIO(text, newline=""))
    begin, delimiter = _begin(lines)
    rows = _strictly(where, lines, begin, delimiter)
    header = [name.strip() for name in rows[0][1]] if rows else []
    for name in names:
        if header.count(name) != 1:
            got = shown(", ".join(header)).strip("'\"") or "none"
            raise ValueError(f"{where}: line {begin + 1}: got columns {got}, expected one named {name}")
    found: list[list[float]] = [[] for _ in names]
    for number, row in rows[1:]:
        if not row:
            continue
        if any(row[len(header) :]):
            raise ValueError(
                f"{where}: line {number}: got {len(row)} cells, expected {len(header)}, as the heading has"
            )
        for column, name in zip(found, names, strict=True):
            at = header.index(name)
            try:
                value = float(row[at] if delimiter == "," else row[at].replace(",", "."))
            except (IndexError, ValueError):
                value = math.nan
            if not math.isfinite(value):
                got = shown(row[at]) if at < len(row) else "nothing"
                raise ValueError(f"{where}: line {number}: {name}: got {got}, expected a number")
            column.append(value)
    return [np.asarray(column) for column in found]


def _strictly(where: str, lines: list[str], begin: int, delimiter: str) -> list[tuple[int, list[str]]]:
    """Return the line and the cells of each row from line `begin` on, all of which must be CSV."""
    reader = csv.reader(lines[begin:], delimiter=delimiter, strict=True)
    rows, line = list[tuple[int, list[str]]](), begin + 1
    try:
        for cells in reader:
            rows.append((line, cells))
            line = begin + reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{where}: line {line}: got {csv_fault(error)}, expected CSV") from None
    return rows


def _number(where: str, cell: str | None, delimiter: str) -> float:
    try:
        value = float((cell or "") if delimiter == "," else (cell or "").replace(",", "."))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: got {'nothing' if cell is None else shown(cell)}, expected a number")
    return value
