"""The catalogue from the resource files.

Resource files are checked strictly: an unknown key, a missing key, a wrong type, a value out of range and a number
without a source are each refused as ``file: key: got X, expected Y``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.catalogue import calibration_file
from core.catalogue.models import read_model
from core.catalogue.power_classes import power_class
from core.catalogue.refusal import refusal
from core.catalogue.runtimes import check_formats, read_runtime
from core.catalogue.schemas import BoardTable, FormatsTable, HeldOutTable
from core.catalogue.text_files import one_line_end, read_text_of
from core.catalogue.toml_files import converted, parse, resource, resource_folder, sources_of
from core.catalogue.typical_rates import with_rate_uncertainty
from core.spec import (
    Board,
    Catalogue,
    KvFormat,
    PowerMode,
    WeightFormat,
)
from core.spec.interval_scale import HeldOut

ASSUMED_RAIL = "whole board, a prior of its class"


@functools.cache
def load_catalogue() -> Catalogue:
    """Read every board, model, runtime and format of the resource files; the same object every time.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first thing that is wrong in a file.
    """
    formats = converted("formats.toml", resource("formats.toml"), FormatsTable)
    weights = {key: WeightFormat(key=key, **one.values()) for key, one in formats.weights.items()}
    kv = {key: KvFormat(key=key, **one.values()) for key, one in formats.kv.items()}
    boards = {key: _board(key, where, table) for key, where, table in resource_folder("boards")}
    boards = {"this": boards.pop("this"), **{key: replace(_guessed(one), listed=True) for key, one in boards.items()}}
    models = {key: read_model(key, where, table) for key, where, table in resource_folder("models")}
    runtimes = {key: read_runtime(key, where, table) for key, where, table in resource_folder("runtimes")}
    for one in runtimes.values():
        check_formats(one, weights, kv)
    for model in models.values():
        for key in {*model.weight_byte_by_format, *filter(None, [model.reference_format])} - weights.keys():
            raise ValueError(f"models/{model.key}.toml: weight format: got {key!r}, expected one of formats.toml")
    published = {(one.board, one.runtime, one.power_mode): one for one in calibration_file.shipped()}
    for board, runtime, mode in published:
        if board not in boards or runtime not in runtimes or mode not in boards[board].power_modes:
            raise ValueError(f"calibrations: got {board}, {runtime}, {mode}, expected keys of the catalogue")
    return Catalogue(boards, models, runtimes, weights, kv, published, _held_out())


def _held_out() -> HeldOut:
    """Read how far published boards were from predictions made without their rows."""
    name = "held_out.toml"
    table = converted(name, resource(name), HeldOutTable)
    scores = {"decode_s": table.decode_s, "ttft_s": table.ttft_s}
    for quantity, by_bucket in scores.items():
        for of, quantiles in by_bucket.items():
            if list(quantiles) != sorted(quantiles):
                raise refusal(f"{name}: {quantity}: {of}", quantiles, "ascending quantiles")
    return HeldOut(scores)


def _board(key: str, where: str, table: Mapping[str, Any]) -> Board:
    made = converted(where, table, BoardTable)
    modes, sources = dict[str, PowerMode](), dict[str, str]()
    for name, mode in made.power_modes.items():
        modes[name] = PowerMode(key=name, **mode.values())
        of_mode = sources_of(f"{where}: power_modes: {name}", table["power_modes"][name], mode)
        sources |= {f"{name}.{number}": source for number, source in of_mode.items()}
    sources |= sources_of(where, table, made)
    board = Board(key=key, sources=sources, **{**made.values(), "power_modes": modes})
    return board if made.system_energy_j_byte else with_assumed_energy(board)


def with_assumed_energy(board: Board) -> Board:
    """Return a board with the energy per byte of its class, where no source states its own."""
    of = power_class(board.unit, board.key, board.name)
    return replace(
        board,
        system_energy_j_byte=of.energy_j_byte,
        system_energy_log_sd=of.log_sd,
        energy_assumed=True,
        power_rail=board.power_rail or f"{ASSUMED_RAIL} ({of.words})",
        sources={**board.sources, "system_energy_j_byte": f"[prior] {of.words}; {of.source}"},
    )


def read_board(path: Path) -> Board:
    """Read the user's board, a TOML file as those of the resources; its key is the name of the file.

    Raises
    ------
    OSError, ValueError
        It cannot be read, or ``file: key: got X, expected Y`` for the first thing that is wrong in it.
    """
    try:
        text = one_line_end(read_text_of(path))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    return _guessed(_board(path.stem, path.name, parse(path.name, text)))


def _guessed(board: Board) -> Board:
    """Return a board, of which some rates may not be stated; that of any machine states usual ones."""
    return replace(
        board, power_modes={key: with_rate_uncertainty(mode, board.unit) for key, mode in board.power_modes.items()}
    )
