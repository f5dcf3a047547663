"""Options that name an operating point, shared by commands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError
from app.library.axes import check_point, runs_on
from app.library.files import FileError
from app.library.presets import option_texts, read_point
from app.text.format import parse_quantity
from core.catalogue.load import read_board
from core.catalogue.names.betas import published_beta
from core.catalogue.names.boards import boards_called
from core.catalogue.names.formats import described, described_key, format_name
from core.catalogue.names.models import KnownNames
from core.catalogue.names.runtimes import runtime_keys
from core.spec import BY_NAME, FIELDS, OWN_RUNTIME, Board, Catalogue, Field, OperatingPoint
from core.tables.boards import mode_key

_PLAIN = OperatingPoint()


def add_point_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare an option for each field of an operating point, with its default."""
    group = parser.add_argument_group("operating point")
    words = "start from the point of this preset; options override it"
    group.add_argument("--preset", type=Path, metavar="FILE", help=words)
    for field in FIELDS:
        words = field.help.format(default=field.default)
        group.add_argument(f"--{field.option}", metavar=field.placeholder, help=words)


def use_preset(args: argparse.Namespace, catalogue: Catalogue) -> None:
    """Fill the options that the user left out from the preset of ``--preset``, if there is one.

    With another board than the preset's, its power mode is left out, and its runtime too where it does not run there.

    Raises
    ------
    UserError
        The preset cannot be read.
    """
    if args.preset is None:
        return
    try:
        point, args.preset = read_point(args.preset), None
    except FileError as error:
        raise UserError(f"preset: {error}") from error
    texts = option_texts(point)
    board = catalogue.boards.get(board_key(args.board or point.board, catalogue.boards))
    if args.board is not None and (board is None or board.key != point.board):
        texts.pop("mode", None)
        if board is not None and not runs_on(point.runtime, board, catalogue):
            texts.pop("runtime", None)
    for option, text in texts.items():
        name = option.replace("-", "_")
        if getattr(args, name) is None:
            setattr(args, name, text)


def with_described(args: argparse.Namespace, catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with the board of a given file and the formats whose names give their bits.

    The board of the file becomes the requested board, and a preset fills the other options.

    Raises
    ------
    UserError
        A file cannot be read or is invalid.
    """
    if args.board is not None:
        (args.board,), catalogue = with_board_files([args.board], catalogue)
    use_preset(args, catalogue)
    board = catalogue.boards.get(board_key(args.board or _PLAIN.board, catalogue.boards))
    usual = _PLAIN.runtime if board is None else catalogue.default_runtime(board)
    return with_formats([args.weights, args.head], [args.runtime or usual], catalogue)


def with_formats(names: Sequence[str | None], runtimes: Sequence[str | None], catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with the unknown weight formats whose names give their bits.

    Trilemma's own decoder supports no such formats.
    """
    found = dict(catalogue.weight_formats)
    if {runtime or _PLAIN.runtime for runtime in runtimes} == {OWN_RUNTIME}:
        return catalogue
    for name in filter(None, names):
        read = format_name(name, found)
        if read.bits is not None and read.bits_per_weight is not None and not (read.key or name in found):
            made = described(name, read.bits, read.bits_per_weight)
            found.setdefault(made.key, made)
    return replace(catalogue, weight_formats=found)


def with_board_files(names: Sequence[str], catalogue: Catalogue) -> tuple[list[str], Catalogue]:
    """Return board names with keys in place of files, and the catalogue with the boards of the files.

    Raises
    ------
    UserError
        A file cannot be read or is invalid.
    """
    keys = []
    for name in names:
        key = name
        if name.lower().endswith(".toml"):
            key, catalogue = _with_file(name, catalogue)
        keys.append(key)
    return keys, catalogue


def _with_file(path: str, catalogue: Catalogue) -> tuple[str, Catalogue]:
    try:
        board = read_board(Path(path))
    except OSError as error:
        raise UserError(f"board: {path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise UserError(f"board: {error}") from error
    if board.key in catalogue.boards:
        raise UserError(f"board: {path} has the name of a board of the catalogue, expected another name")
    return board.key, replace(catalogue, boards={**catalogue.boards, board.key: board})


def board_key(name: str, boards: Mapping[str, Board]) -> str:
    """Return the key of the board with a name, or the name itself if no board has it.

    Raises
    ------
    UserError
        The name is ambiguous.
    """
    return name if name in boards else _one("board", name, boards_called(name, boards))


def keys_of(names: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue's keys of names; an unknown name stays as it is.

    Parameters
    ----------
    names : mapping
        By field of `OperatingPoint`. A mode or runtime is looked up on the board of the same mapping.

    Raises
    ------
    UserError
        A name is ambiguous.
    """
    found = dict(names)
    if "board" in names:
        found["board"] = board_key(names["board"], catalogue.boards)
    board = catalogue.boards.get(found.get("board", _PLAIN.board))
    if "power_mode" in names and board is not None and names["power_mode"] not in board.power_modes:
        found["power_mode"] = mode_key(names["power_mode"], board.power_modes)
    if "runtime" in names and names["runtime"] not in catalogue.runtimes and board is not None:
        keys = runtime_keys(names["runtime"], (board.unit, "cpu"), catalogue.runtimes)
        found["runtime"] = (keys or [names["runtime"]])[0]
    if names.get("model", _PLAIN.model) not in catalogue.models:  # as its authors call it
        found["model"] = KnownNames(catalogue.models).key(names["model"]) or names["model"]
    for field, formats in (("weights", catalogue.weight_formats), ("head", catalogue.weight_formats)):
        if field in names:
            key = described_key(names[field])
            found[field] = format_name(names[field], formats).key or (key if key in formats else names[field])
    for name in names:
        read = BY_NAME[name].read
        if read is not None:
            found[name] = read(names[name])
    if "kv" in names:
        found["kv"] = format_name(names["kv"], catalogue.kv_formats, of_weights=False).key or names["kv"]
    return found


def parse_number(field: Field, text: str) -> float:
    """Return the value of a numeric field from user text [unit of the field]; a bandwidth needs its unit.

    A factor of the instruction set may be the name of a published one, such as MLU370.

    Raises
    ------
    ValueError
        One sentence naming the option, as `parse_quantity`.
    """
    if field.name == "beta" and (named := published_beta(text)) is not None:
        return named
    return parse_quantity(text, field.unit, name=field.option, bare=None if field.unit == "byte/s" else "")


def point_from(args: argparse.Namespace, catalogue: Catalogue) -> OperatingPoint:
    """Return the operating point that the options name.

    Raises
    ------
    UserError
        One sentence: option, given value and expected value.
    """
    use_preset(args, catalogue)
    options = {field: getattr(args, field.option.replace("-", "_")) for field in FIELDS}
    given = {field: text for field, text in options.items() if text is not None}
    try:
        values: dict[str, Any] = keys_of({f.name: text for f, text in given.items() if not f.is_number}, catalogue)
        values = catalogue.with_usual(values)
        values |= {field.name: parse_number(field, text) for field, text in given.items() if field.is_number}
        point = OperatingPoint(**values)
        check_point(point, catalogue)
    except ValueError as error:
        raise UserError(str(error).removeprefix("point.")) from error
    return point


def _one(kind: str, name: str, keys: list[str]) -> str:
    if len(keys) > 1:
        raise UserError(
            f"{kind}: got {name!r}, which may be {', '.join(keys[:-1])} or {keys[-1]}: expected one of them"
        )
    return keys[0] if keys else name
