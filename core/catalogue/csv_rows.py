"""Tolerant reading of CSV files: a malformed row does not affect the others."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from itertools import islice
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
    lines = list(io.StringIO(text, newline=""))
    begin, delimiter = _begin(lines)
    try:
        heading = next(csv.reader(lines[begin:], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"line {begin + 1}: got {csv_fault(error)}, expected the names of columns") from None
    rows = _rows(lines, begin, delimiter, len(heading))
    next(rows, None)
    return heading, [row for row in rows if any(row.cells) or row.broken]


def csv_fault(error: csv.Error) -> str:
    """Return the fault of a row that cannot be read as CSV."""
    too_long = "field larger than" in str(error)
    return "a cell without end" if too_long else "a quote that is not closed where its cell ends"


def _begin(lines: list[str]) -> tuple[int, str]:
    """Return at which line the heading is, and what parts the cells."""
    full = (i for i, line in enumerate(lines) if line.strip(" ,;\t\r\n"))
    first = next(full, 0)
    told = _TOLD.match(lines[first]) if lines else None
    if told:
        return next(full, len(lines)), told[1]
    return first, max(",;\t", key=lines[first].count) if lines else ","


def _rows(lines: list[str], begin: int, delimiter: str, n_cells: int) -> Iterator[Row]:
    """Yield the rows from line `begin` on."""
    while begin < len(lines):
        first = begin
        reader = csv.reader(islice(lines, first, None), delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                end = first + reader.line_num
                if end - begin > 1 and len(cells) != n_cells:
                    raise csv.Error("a quote that takes in whole rows")
                yield Row(end, cells)
                begin = end
        except csv.Error as error:
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
