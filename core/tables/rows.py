"""Reading and checks of a table of published measurements; errors are listed by line and column.

`COLUMNS` describes the columns. Other columns are kept; those that are not needed may be missing. A row with an invalid
value is left out with an error; the others are used.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from core.catalogue.csv_rows import Row, rows_in
from core.catalogue.text_files import lines_of, printable
from core.tables.row_sample import RowSample


class Column(NamedTuple):
    """A column: its meaning, and the factor from its unit to SI."""

    meaning: str
    needed: bool = False
    unit: float | None = None  # None: a text
    low: float = 0.0
    high: float = math.inf


COLUMNS: Mapping[str, Column] = {
    "board_key": Column("key or name of the board, see `trilemma boards`; another text is a board of its own", True),
    "board": Column("name of the board; distinguishes boards of one key whose bandwidths differ or are missing"),
    "compute": Column("unit that decodes: cpu, gpu or npu", True),
    "runtime": Column("runtime, as its authors call it; an unknown one is a new runtime", True),
    "model": Column("model, as its authors call it", True),
    "quant": Column("weight format, such as Q4_K_M, w8a8, FP16", True),
    "decode_ms_per_tok": Column("time of one decoded token", unit=1e-3, low=1e-3, high=1e7),
    "decode_tok_s": Column("its inverse; one of the two is enough", unit=1.0, low=1e-4, high=1e6),
    "ttft_ms": Column("time to the first token of the prompt", unit=1e-3, low=1e-3, high=1e8),
    "prefill_tok_s": Column("speed of the prompt, used where there is no time to first token", unit=1.0, high=1e7),
    "energy_j_per_tok": Column("energy of one decoded token, on `power_rail`", unit=1.0, low=1e-6, high=1e6),
    "power_w": Column("mean power while decoding, used where there is no energy", unit=1.0, high=1e5),
    "power_rail": Column("what the energy and the power cover"),
    "power_mode": Column("power mode of the board, such as 15W; its first one where absent"),
    "model_key": Column("key of the model, see `trilemma models`"),
    "params_b": Column("parameters of the model, in 1e9", unit=1e9, low=1e-3, high=1e5),
    "params_streamed_b": Column("of them read per token, without the input embedding", unit=1e9, low=1e-3, high=1e5),
    "moe_or_sparse": Column("true where a token does not read all parameters"),
    "weight_bits": Column("bits of a weight without scales", unit=1.0, low=0.5, high=32.0),
    "bits_per_weight": Column("bits of a weight with scales", unit=1.0, low=0.5, high=40.0),
    "weight_bytes": Column("size of the weights", unit=1.0, low=1e5, high=1e14),
    "weight_stream_bytes": Column("bytes of weights read per token", unit=1.0, low=1e5, high=1e14),
    "weight_basis": Column(
        "where those bytes come from; estimates by a model's name give way to the catalogue's shape"
    ),
    "kv_bytes_per_token": Column("bytes of KV cache of one token in 16 bit", unit=1.0, high=1e9),
    "kv_quant": Column("format of the KV cache; 16 bit where absent"),
    "context_tokens": Column("mean context while decoding", unit=1.0, high=1e7),
    "prompt_tokens": Column(
        "tokens of the prompt; without them or prefill_tok_s a time to first token is left out", unit=1.0, high=1e7
    ),
    "gen_tokens": Column("tokens generated", unit=1.0, high=1e7),
    "context_limit_tokens": Column("context that the runtime was set up for", unit=1.0, low=1.0, high=1e8),
    "ttft_full_context_ms": Column("time to the first token of a prompt that fills it", unit=1e-3, low=1e-3, high=1e9),
    "alpha": Column("share of cached tokens pruned; 0 where absent", unit=1.0, high=0.999),
    "policy": Column("which tokens pruning keeps: sinks_recent, key_norm or attention_mass"),
    "layout": Column("how the kept tokens lie: compacted, paged or masked"),
    "batch": Column("sequences decoded together; 1 where absent", unit=1.0, low=1.0, high=1e5),
    "threads": Column("threads used", unit=1.0, low=1.0, high=1e5),
    "dram_bandwidth_gb_s": Column("peak memory bandwidth in that power mode", unit=1e9, low=0.1, high=1e5),
    "trust": Column("X: not comparable, kept out of every fit and figure; C: user-submitted or settings unknown"),
    "row_id": Column("identifier of the row, for messages"),
}
"""Columns by name. Numbers are in the unit of the name."""

UNITS = ("cpu", "gpu", "npu")
NOTHING = frozenset({"", "-", "\N{EN DASH}", "\N{EM DASH}", "na", "n/a", "#n/a", "nan", "none", "null"})
"""Texts of an empty cell, in lower case."""
_LONGEST_NOTHING = max(map(len, NOTHING))

MOST_PROBLEMS = 1000
"""Errors that a table keeps; the others are counted."""
_LOOKED_AT_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One row: texts ("" where absent), numbers in SI units (only those given), and cells of other columns."""

    line: int  # in the file, the heading being 1
    text: Mapping[str, str]
    number: Mapping[str, float]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def decode_s(self) -> float | None:
        """Time of one decoded token [s]."""
        if "decode_ms_per_tok" in self.number:
            return self.number["decode_ms_per_tok"]
        speed = self.number.get("decode_tok_s")
        return None if speed is None else 1.0 / speed

    @property
    def ttft_s(self) -> float | None:
        """Time to first token [s], else prompt tokens over prefill rate."""
        if "ttft_ms" in self.number:
            return self.number["ttft_ms"]
        speed, tokens = self.number.get("prefill_tok_s", 0.0), self.number.get("prompt_tokens", 0.0)
        return tokens / speed if speed > 0.0 and tokens >= 1.0 else None

    @property
    def energy_j_per_token(self) -> float | None:
        """Energy of one decoded token [J], else mean power times decode time."""
        if "energy_j_per_tok" in self.number:
            return self.number["energy_j_per_tok"]
        power_w, decode_s = self.number.get("power_w", 0.0), self.decode_s
        return power_w * decode_s if power_w > 0.0 and decode_s is not None else None

    def cells(self) -> dict[str, str]:
        """Return the cells of the row by column, with decimal points and in the units of the columns."""
        numbers = {name: f"{value / (COLUMNS[name].unit or 1.0):.12g}" for name, value in self.number.items()}
        return {name: cell for name, cell in {**self.text, **numbers, **self.extra}.items() if name and cell}


class Problem(NamedTuple):
    """An error of a row."""

    line: int
    column: str
    got: str
    expected: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.column}: got {self.got}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The valid rows, the errors of the others, and the columns that are not in `COLUMNS`."""

    rows: tuple[PublishedRow, ...]
    problems: tuple[Problem, ...]  # the first `MOST_PROBLEMS` of them
    extra_columns: tuple[str, ...]
    n_valid: int  # rows, of which `rows` are a sample where it was limited
    n_problems: int
    n_invalid: int  # rows


def read_table(path: Path | str, most_rows: int | None = None) -> PublishedTable:
    """Read a table of published measurements.

    Parameters
    ----------
    path : Path or str
        A CSV file with the columns in its first line; semicolons or tabs may replace commas.
    most_rows : int, optional
        Keep a sample of at most that many rows (`core.tables.row_sample`); all by default. Every row is checked.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The file is no such table; the message is one sentence, such as on the first missing column.
    """
    path = Path(path)
    return _table(path.name, lines_of(path), most_rows)


def table_of(name: str, text: str) -> PublishedTable:
    """Read the text of a table, of a file of that name, as `read_table` does."""
    return _table(name, io.StringIO(text, newline=""), None)


def _table(name: str, lines: Iterable[str], most_rows: int | None) -> PublishedTable:
    sample, problems, n_problems, n_invalid = RowSample[PublishedRow](most_rows), list[Problem](), 0, 0
    try:
        heading, rows = rows_in(lines)
        heading = [_column(name) for name in heading]
        _check_heading(heading)
        checked = _Checked(heading)
        for line in _with_points(rows, heading):
            row = checked.row(line)
            if isinstance(row, PublishedRow):
                sample.add(row, _sort(row))
            else:
                n_invalid += 1
                n_problems += len(row)
                problems += row[: MOST_PROBLEMS - len(problems)]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    others = tuple(name for name in heading if name not in COLUMNS)
    return PublishedTable(tuple(sample.rows()), tuple(problems), others, sample.n_seen, n_problems, n_invalid)


def _sort(row: PublishedRow) -> tuple[str, ...]:
    """Return what a row is of: its texts and the names of its numbers."""
    return (*(text for name, text in row.text.items() if name != "row_id"), *row.number)


def problems_of(cells: Mapping[str, str]) -> list[Problem]:
    """Return the errors of a row that is not in a file, given by column; [] where `read_table` would accept it."""
    found = _Checked(list(cells)).row(Row(0, list(cells.values()), ""))
    return found if isinstance(found, list) else []


def _column(name: str) -> str:
    """Return the column of a name, without regard to case and spaces; other names are returned unchanged."""
    meant = "_".join(name.lower().split())
    return meant if meant in COLUMNS else printable(name.strip())


def _with_points(lines: Iterator[Row], heading: list[str]) -> Iterator[Row]:
    """Return rows with decimal points in place of decimal commas.

    Commas are decimal where no number has a point, and at least one has a comma that cannot separate thousands; the
    first `_LOOKED_AT_ROWS` rows tell.
    """
    numbers = [i for i, name in enumerate(heading) if name in COLUMNS and COLUMNS[name].unit is not None]
    first = list(islice(lines, _LOOKED_AT_ROWS))
    cells = [line.cells[i] for line in first for i in numbers if i < len(line.cells)]
    decimal = [cell for cell in cells if "," in cell and re.fullmatch(r"\s*-?\d+,\d+\s*", cell)]
    if any("." in cell for cell in cells) or all(re.search(r",\d{3}\s*$", cell) for cell in decimal):
        return chain(first, lines)
    return (
        line._replace(cells=[c.replace(",", ".") if i in numbers else c for i, c in enumerate(line.cells)])
        for line in chain(first, lines)
    )


def _check_heading(heading: list[str]) -> None:
    for column, about in COLUMNS.items():
        if about.needed and column not in heading:
            raise ValueError(f"got no column {column} in its first line, expected one: {about.meaning}")
    for column in heading:
        known = re.match(r"\w+", column)
        if known and column != known[0] in COLUMNS:
            raise ValueError(f"got the column {column!r}, expected {known[0]} alone: its unit is the one that it names")
    twice = {column for column in heading if heading.count(column) > 1}
    if twice:
        raise ValueError(f"got the column {sorted(twice)[0]!r} twice, expected each name once")


class _Checked:
    """Rows of one heading, checked cell by cell; what depends on the heading alone is found once."""

    def __init__(self, heading: list[str]) -> None:
        at = {name: i for i, name in enumerate(heading)}
        self._n_cells = len(heading)
        self._known = [(name, about, at.get(name)) for name, about in COLUMNS.items() if name in at or about.needed]
        self._texts = dict.fromkeys((name for name, about in COLUMNS.items() if about.unit is None), "")
        self._others = [(i, name) for i, name in enumerate(heading) if name not in COLUMNS]

    def row(self, row: Row) -> PublishedRow | list[Problem]:
        """Return the row in SI units, or its errors."""
        line, cells, broken = row
        if broken:
            return [Problem(line, "row", broken, "cells that end")]
        if len(cells) != self._n_cells and (len(cells) < self._n_cells or any(cells[self._n_cells :])):
            return [Problem(line, "row", f"{len(cells)} cells", f"{self._n_cells}, as the heading has")]
        text, number, problems = self._texts.copy(), dict[str, float](), list[Problem]()
        for name, about, at in self._known:
            cell = _cell(cells[at]) if at is not None and cells[at] else ""
            if not cell:
                if about.needed:
                    problems.append(Problem(line, name, "nothing", about.meaning))
            elif about.unit is None:
                text[name] = cell
            elif (value := _number(cell)) is not None and about.low <= value <= about.high:
                number[name] = value * about.unit
            else:
                problems.append(Problem(line, name, repr(cell), f"a number from {about.low:g} to {about.high:g}"))
        text["compute"] = text["compute"].lower()
        problems += _contradictions(line, text, number)
        if problems:
            return problems
        return PublishedRow(line, text, number, {name: cell for i, name in self._others if (cell := _plain(cells[i]))})


def _contradictions(line: int, text: Mapping[str, str], number: Mapping[str, float]) -> list[Problem]:
    """Return the errors of texts that are none of a few words, and of two figures that contradict each other."""
    problems = list[Problem]()
    if text["compute"] and text["compute"] not in (*UNITS, "gpu/cpu"):
        problems.append(Problem(line, "compute", repr(text["compute"]), "cpu, gpu or npu"))
    if text["moe_or_sparse"].lower() not in ("", "true", "false"):
        problems.append(Problem(line, "moe_or_sparse", repr(text["moe_or_sparse"]), "true or false"))
    time_s, speed = number.get("decode_ms_per_tok"), number.get("decode_tok_s")
    if time_s is not None and speed is not None and abs(time_s * speed - 1.0) > 0.05:
        problems.append(
            Problem(line, "decode_ms_per_tok", f"{1e3 * time_s:.6g}", f"1000 / decode_tok_s, {1e3 / speed:.4g}")
        )
    return problems


def _plain(cell: str) -> str:
    cell = cell.strip()
    return cell if cell.isprintable() else printable(cell)


def _cell(cell: str) -> str:
    """Return the cell of a known column without blanks around it; "" for the words of an empty one."""
    cell = _plain(cell)
    return "" if len(cell) <= _LONGEST_NOTHING and cell.lower() in NOTHING else cell


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None
