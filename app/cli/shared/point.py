"""The options that name an operating point, shared by the commands that take one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError
from app.library.axes import check_point
from app.text.format import parse_quantity
from core.catalogue.load import read_board
from core.catalogue.names.boards import boards_called
from core.catalogue.names.formats import described, described_key, format_name
from core.catalogue.names.models import KnownNames
from core.catalogue.names.runtimes import runtime_keys
from core.spec import LAYOUTS, OWN_RUNTIME, POLICIES, Board, Catalogue, OperatingPoint
from core.tables.boards import mode_key

_PLAIN = OperatingPoint()

_KEYS = {
    "board": (
        "board",
        "KEY",
        f"board, see `trilemma boards`, or its name, such as RK3588; to predict also FILE.toml ({_PLAIN.board})",
    ),
    "mode": ("power_mode", "KEY", "power mode of the board (its first)"),
    "runtime": (
        "runtime",
        "KEY",
        f"runtime, or its name, such as llama.cpp ({_PLAIN.runtime}, Trilemma's own decoder)",
    ),
    "model": ("model", "KEY", f"model, see `trilemma models`, or its name, such as llama3.2:3b ({_PLAIN.model})"),
    "weights": ("weights", "FORMAT", f"weight format: fp32, bf16, int8, int4, q4_k_m... ({_PLAIN.weights})"),
    "head": ("head", "FORMAT", "weight format of the output head, such as fp16 (that of the weight format)"),
    "kv": ("kv", "FORMAT", f"format of the KV cache: bf16, int8... ({_PLAIN.kv})"),
    "policy": ("policy", "NAME", f"which cached tokens pruning keeps: {', '.join(POLICIES)} ({_PLAIN.policy})"),
    "layout": ("layout", "NAME", f"how the kept tokens lie in memory: {', '.join(LAYOUTS)} ({_PLAIN.layout})"),
}
"""Option -> field, placeholder and help of the options that name something."""

_NUMBERS = {
    "context": ("context_tokens", "tokens", f"tokens in the KV cache, such as 2048 or 2k ({_PLAIN.context_tokens:g})"),
    "alpha": ("alpha", "1", "share of cached tokens pruned, such as 0.3 or 30%% (0)"),
    "reselect": (
        "reselect_tokens",
        "tokens",
        "choose anew which tokens are kept every so many generated ones, such as 64 (0: once, behind the prompt)",
    ),
    "beta": ("beta", "1", "speed-up of computing and unpacking by the instruction set (1)"),
    "bandwidth": ("bandwidth_byte_s", "byte/s", "peak memory bandwidth, such as 51.2GB/s (the board's own)"),
}
"""Option -> field, unit and help of the options that are numbers."""


def add_point_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare an option for each part of an operating point; what is not given is the default."""
    group = parser.add_argument_group("operating point")
    for option, (_, placeholder, words) in _KEYS.items():
        group.add_argument(f"--{option}", metavar=placeholder, help=words)
    for option, (_, _, words) in _NUMBERS.items():
        group.add_argument(f"--{option}", metavar="VALUE", help=words)


def with_described(args: argparse.Namespace, catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with what the options describe: the board of a file, formats whose names tell their bits.

    The file's board is the one asked for then.

    Raises
    ------
    UserError
        The file cannot be read, or what is wrong in it.
    """
    if args.board is not None:
        (args.board,), catalogue = with_board_files([args.board], catalogue)
    return with_formats([args.weights, args.head], [args.runtime], catalogue)


def with_formats(names: Sequence[str | None], runtimes: Sequence[str | None], catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with the weight formats that it does not know where their names tell the bits.

    Not so of Trilemma's own decoder, which has its formats and no others.
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
    """Return names of boards with the key in place of each file, and the catalogue with the boards of the files.

    Raises
    ------
    UserError
        A file cannot be read, or what is wrong in it.
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
    """Return the key of the board that a name means, or the name where it means none.

    Raises
    ------
    UserError
        It may mean more than one.
    """
    return name if name in boards else _one("board", name, boards_called(name, boards))


def keys_of(names: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue's keys of what is called by a name; what no entry has remains as it is.

    Parameters
    ----------
    names : mapping
        By field of `OperatingPoint`. A mode or runtime is looked up on the board that stands beside it.

    Raises
    ------
    UserError
        A name may mean more than one.
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
    if "kv" in names:
        found["kv"] = format_name(names["kv"], catalogue.kv_formats, of_weights=False).key or names["kv"]
    return found


def point_from(args: argparse.Namespace, catalogue: Catalogue) -> OperatingPoint:
    """Return the operating point that the options name.

    Raises
    ------
    UserError
        One sentence: which option, what was given and what was expected.
    """
    fields: dict[str, Any] = {}
    for option, (field, _, _) in _KEYS.items():
        given = getattr(args, option)
        if given is not None:
            fields[field] = given
    fields |= keys_of(fields, catalogue)
    try:
        for option, (field, unit, _) in _NUMBERS.items():
            given = getattr(args, option)
            if given is not None:
                bare = None if option == "bandwidth" else ""
                fields[field] = parse_quantity(given, unit, name=option, bare=bare)
        point = OperatingPoint(**fields)
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
