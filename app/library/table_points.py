"""Rows of an imported table as measurements of the boards that they name."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import RESOURCES
from app.library.axes import canonical, check_point
from app.library.files import DamagedFile, FileError
from app.library.files import reason as reason_of
from app.library.measurements import Measurement
from app.library.registry import THIS, KnownBoard
from core.catalogue.names.runtimes import OTHER
from core.spec import Catalogue, OperatingPoint, Provenance
from core.spec.suggestions import suggestion
from core.tables.as_points import ComparedRow, compare
from core.tables.rows import COLUMNS, PublishedRow, read_table

SHIPPED = RESOURCES / "measurements" / "llm_decode.csv"
"""Published decode times and times to first token that the priors rest on."""

SAME_FILE_FRAC = 0.03
"""A file of weights whose size differs by more from the catalogue's is another model for the prediction."""
_SOURCE = ("source_repo", "source_path_or_thread")
_UNITS = ("cpu", "gpu", "npu")
_GIVEN = {Provenance.MEASURED.value, Provenance.PUBLISHED.value, Provenance.SIMULATED.value}


def measurements_in(
    path: Path, catalogue: Catalogue, boards: Mapping[str, KnownBoard]
) -> tuple[list[Measurement], list[str]]:
    """Return the rows of a table that is there as measurements, see `app.library.other_boards.imported`."""
    try:
        rows = read_table(path).rows
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from error
    any_unit = {THIS, *boards}
    compared = compare(rows, catalogue)
    notes = [f"line {line}: {reason}" for line, reason in compared.left_out]
    found = []
    for row in compared.rows:
        point = _in_catalogue(row.decode, any_unit)
        reason = row.outside or _unlike(row, point, catalogue, compared.catalogue)
        if reason:
            notes.append(f"line {row.row.line}: {reason}")
        else:
            prompt = _in_catalogue(row.prefill, any_unit)
            found += _measurements(row.row, canonical(point, catalogue), canonical(prompt, catalogue))
    return found, notes


def shipped_rows(catalogue: Catalogue) -> list[Measurement]:
    """Return the rows of the shipped table that are points of the catalogue, each with its source, once."""
    found, _ = measurements_in(SHIPPED, catalogue, {})
    return list({(one.point, repr(one.body)): one for one in found}.values())


def _in_catalogue(point: OperatingPoint, any_unit: Collection[str]) -> OperatingPoint:
    """Return a row's point with the catalogue's keys: `compare` marks other units, runtimes and files.

    The catalogue knows what the cores of a board with a GPU or an NPU do.
    """
    board, _, unit = point.board.rpartition(".")
    unit_of = point.runtime.rpartition("_")[2]
    return replace(
        point,
        board=board if unit == "cpu" or (board in any_unit and unit in _UNITS) else point.board,
        runtime=f"{OTHER}_{unit_of}" if point.runtime.startswith(f"{OTHER}-") else point.runtime,
        model=point.model.partition("~")[0],
        context_tokens=float(max(round(float(point.context_tokens)), 1)),
    )


def _unlike(row: ComparedRow, point: OperatingPoint, catalogue: Catalogue, described: Catalogue) -> str:
    """Return the reason why a row is no point of the catalogue, or ""."""
    if point.board not in catalogue.boards:
        key, _, unit = point.board.rpartition(".")
        if key in catalogue.boards and unit in _UNITS:
            return f"it ran on the {unit} of {key}, which decodes on its {catalogue.boards[key].unit} here"
        named = row.row.text["board_key"]
        return f"board: got {named!r}, {suggestion('board', named, catalogue.boards)}"
    if point.model not in catalogue.models:
        named = row.row.text["model"]
        return f"model: got {named!r}, {suggestion('model', named, catalogue.models)}"
    try:
        check_point(point, catalogue)
    except ValueError as error:
        return str(error).removeprefix("point.")
    stated = described.models[row.decode.model].weight_byte_by_format.get(point.weights)
    own = catalogue.models[point.model].weight_byte_by_format.get(point.weights)
    if stated and own and abs(stated / own - 1.0) > SAME_FILE_FRAC:
        return f"its file has {stated / own - 1.0:+.0%} of the weights that {point.model} has in {row.weights}"
    return ""


def _measurements(row: PublishedRow, decode: OperatingPoint, prompt: OperatingPoint) -> list[Measurement]:
    """Return the measurements of a row: one of decoding and one of prefill."""
    tokens = {
        "decode_s": _estimate(row, row.decode_s, "decode_ms_per_tok"),
        "energy_j_per_token": _estimate(row, row.energy_j_per_token, "energy_j_per_tok"),
        "power_w": _estimate(row, row.number.get("power_w"), "power_w"),
    }
    first = {"ttft_s": _estimate(row, row.ttft_s, "ttft_ms")}
    if tokens["power_w"] is None and tokens["energy_j_per_token"] and row.decode_s:
        tokens["power_w"] = {
            name: value / row.decode_s if name in ("median", "q05", "q95") else value
            for name, value in tokens["energy_j_per_token"].items()
        }
    source = row.extra.get("source") or " ".join(filter(None, map(row.extra.get, _SOURCE)))
    told: dict[str, Any] = {"source": source, "conditions": {}}
    if row.text["power_rail"]:
        told["conditions"] = {"power_covers": row.text["power_rail"]}
    return [
        Measurement(point, {**told, **body}, row.extra.get("time_utc", ""), "")
        for point, outputs in ((decode, tokens), (prompt, first))
        if (body := {name: record for name, record in outputs.items() if record is not None})
    ]


def _estimate(row: PublishedRow, value: float | None, column: str) -> dict[str, Any] | None:
    """Return an output as a result has it, its quantiles where the table has them; a row without them is one run."""
    if value is None:
        return None
    unit = COLUMNS[column].unit or 1.0
    low, high = (_number(row.extra.get(f"{column}_{q}", "")) for q in ("q05", "q95"))
    bounds = (low * unit, high * unit) if low and high and low * unit <= value <= high * unit else (value, value)
    given = row.extra.get("provenance", "")
    provenance = given if given in _GIVEN else Provenance.PUBLISHED.value
    n = int(_number(row.extra.get("n_repeats", "")) or 1)
    return {"median": value, "q05": bounds[0], "q95": bounds[1], "n": n, "provenance": provenance}


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
