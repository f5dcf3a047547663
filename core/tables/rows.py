"""Reading and checks of a table of published measurements; errors are listed by line and column.

`COLUMNS` describes the columns. Other columns are kept; those that are not needed may be missing. A row with an invalid
value is left out with an error; the others are used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from core.catalogue.csv_rows import Row, rows_of
from core.catalogue.text_files import printable, read_text_of


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
    problems: tuple[Problem, ...]
    extra_columns: tuple[str, ...]


def read_table(path: Path | str) -> PublishedTable:
    """Read a table of published measurements.

    Parameters
    ----------
    path : Path or str
        A CSV file with the columns in its first line; semicolons or tabs may replace commas.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        The file is no such table; the message is one sentence, such as on the first missing column.
    """
    path = Path(path)
    try:
        text = read_text_of(path)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return table_of(path.name, text)


def table_of(name: str, text: str) -> PublishedTable:
    """Read the text of a table, of a file of that name, as `read_table` does."""
    try:
        heading, lines = rows_of(text)
        heading = [_column(name) for name in heading]
        _check_heading(heading)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    lines = _with_points(lines, heading)
    read = [_row(line, heading) for line in lines]
    rows = tuple(row for row in read if isinstance(row, PublishedRow))
    problems = tuple(problem for row in read if not isinstance(row, PublishedRow) for problem in row)
    return PublishedTable(rows, problems, tuple(name for name in heading if name not in COLUMNS))


def problems_of(cells: Mapping[str, str]) -> list[Problem]:
    """Return the errors of a row that is not in a file, given by column; [] where `read_table` would accept it."""
    found = _row(Row(0, list(cells.values()), ""), list(cells))
    return found if isinstance(found, list) else []


def _column(name: str) -> str:
    """Return the column of a name, without regard to case and spaces; other names are returned unchanged."""
    meant = "_".join(name.lower().split())
    return meant if meant in COLUMNS else printable(name.strip())


def _with_points(lines: list[Row], heading: list[str]) -> list[Row]:
    """Return rows with decimal points in place of decimal commas.

    Commas are decimal where no number has a point, and at least one has a comma that cannot separate thousands.
    """
    numbers = [i for i, name in enumerate(heading) if name in COLUMNS and COLUMNS[name].unit is not None]
    cells = [line.cells[i] for line in lines for i in numbers if i < len(line.cells)]
    decimal = [cell for cell in cells if re.fullmatch(r"\s*-?\d+,\d+\s*", cell)]
    if any("." in cell for cell in cells) or all(re.search(r",\d{3}\s*$", cell) for cell in decimal):
        return lines
    return [
        line._replace(cells=[c.replace(",", ".") if i in numbers else c for i, c in enumerate(line.cells)])
        for line in lines
    ]


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


def _row(row: Row, heading: list[str]) -> PublishedRow | list[Problem]:
    line, cells, broken = row
    if broken:
        return [Problem(line, "row", broken, "cells that end")]
    cells = cells[: len(heading)] if not any(cells[len(heading) :]) else cells
    if len(cells) != len(heading):
        return [Problem(line, "row", f"{len(cells)} cells", f"{len(heading)}, as the heading has")]
    given = {name: printable(cell.strip()) for name, cell in zip(heading, cells, strict=True)}
    given = {name: "" if name in COLUMNS and cell.lower() in NOTHING else cell for name, cell in given.items()}
    given["compute"] = given.get("compute", "").lower()
    number, problems = dict[str, float](), list[Problem]()
    for name, about in COLUMNS.items():
        cell = given.get(name, "")
        if about.needed and not cell:
            problems.append(Problem(line, name, "nothing", about.meaning))
        elif cell and about.unit is not None:
            value = _number(cell)
            if value is None or not about.low <= value <= about.high:
                expected = f"a number from {about.low:g} to {about.high:g}"
                problems.append(Problem(line, name, repr(cell), expected))
            else:
                number[name] = value * about.unit
    if given.get("compute") and given["compute"] not in (*UNITS, "gpu/cpu"):
        problems.append(Problem(line, "compute", repr(given["compute"]), "cpu, gpu or npu"))
    if given.get("moe_or_sparse", "").lower() not in ("", "true", "false"):
        problems.append(Problem(line, "moe_or_sparse", repr(given["moe_or_sparse"]), "true or false"))
    time_s, speed = number.get("decode_ms_per_tok"), number.get("decode_tok_s")
    if time_s is not None and speed is not None and abs(time_s * speed - 1.0) > 0.05:
        problems.append(
            Problem(line, "decode_ms_per_tok", given["decode_ms_per_tok"], f"1000 / decode_tok_s, {1e3 / speed:.4g}")
        )
    text = {name: given.get(name, "") for name, about in COLUMNS.items() if about.unit is None}
    extra = {name: cell for name, cell in given.items() if name not in COLUMNS and cell}
    return problems or PublishedRow(line, text, number, extra)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None
