"""Rows of a CSV file that somebody else wrote: one that cannot be read does not take the others with it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.catalogue.refusal import shown


class Row(NamedTuple):
    """A row, the line on which it ends, and what is wrong with its quotes or length; "" where nothing is."""

    line: int
    cells: list[str]
    broken: str = ""


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Return the heading of a CSV file, its first line that is not empty, and its rows, empty ones left out.

    Commas, semicolons or tabs part the cells, as its heading tells. A quote that is never closed would swallow the
    lines behind it: the row is `broken`, at the line where it begins, and reading goes on with the next line.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not CSV in UTF-8; one sentence.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = list(file)
        begin = next((i for i, line in enumerate(lines) if line.strip(" ,;\t\r\n")), 0)
        delimiter = _delimiter(lines[begin:])
    except UnicodeDecodeError as error:
        raise ValueError(f"got a file that is not CSV in UTF-8 ({error})") from None
    try:
        heading = next(csv.reader(lines[begin:], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"line {begin + 1}: got {what_broke(error)}, expected the names of columns") from None
    rows = _rows(lines, begin, delimiter, len(heading))
    next(rows, None)
    return heading, [row for row in rows if any(row.cells) or row.broken]


def what_broke(error: csv.Error) -> str:
    """Return what is wrong with a row that cannot be read as CSV."""
    too_long = "field larger than" in str(error)
    return "a cell without end" if too_long else "a quote that is not closed where its cell ends"


def _delimiter(lines: list[str]) -> str:
    heading = lines[0] if lines else ""
    return max(",;\t", key=heading.count)


def _rows(lines: list[str], begin: int, delimiter: str, n_cells: int) -> Iterator[Row]:
    """Read rows from a line on; `begin` is that of the row that is read."""
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
            yield Row(begin, [], what_broke(error))
        else:
            return


def read_columns(where: str, text: str, names: tuple[str, ...]) -> list[NDArray[np.float64]]:
    """Columns of a CSV text with a header, by name; other columns and spaces around names are ignored.

    Raises
    ------
    ValueError
        A column is missing or there twice, a row is short, or a value is not a finite number; says which line.
    """
    reader, rows, line = csv.reader(io.StringIO(text), strict=True), list[tuple[int, list[str]]](), 1
    try:
        for cells in reader:
            rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{where}: line {line}: got {what_broke(error)}, expected CSV") from None
    header = [name.strip() for name in rows[0][1]] if rows else []
    for name in names:
        if header.count(name) != 1:
            got = shown(", ".join(header)).strip("'\"") or "none"
            raise ValueError(f"{where}: line 1: got columns {got}, expected one named {name}")
    found: list[list[float]] = [[] for _ in names]
    for number, row in rows[1:]:
        if not row:
            continue
        for column, name in zip(found, names, strict=True):
            at = header.index(name)
            try:
                value = float(row[at])
            except (IndexError, ValueError):
                value = math.nan
            if not math.isfinite(value):
                got = shown(row[at]) if at < len(row) else "nothing"
                raise ValueError(f"{where}: line {number}: {name}: got {got}, expected a number")
            column.append(value)
    return [np.asarray(column) for column in found]
