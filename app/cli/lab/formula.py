"""``trilemma lab formula [NAME [PARAMETER=VALUE ...]]``: any formula of the engine with one's own numbers."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import parse_quantity
from app.text.formulas import Formula, Parameter, formulas
from core.catalogue.load import load_catalogue
from core.catalogue.names.models import KnownNames
from core.spec.suggestions import suggestion

EXAMPLES = """examples:
  trilemma lab formula                                              every formula with its meaning and source
  trilemma lab formula hierarchy.bytes_in_flight                    its equation and parameters
  trilemma lab formula hierarchy.bytes_in_flight bandwidth_byte_s=51.2GB/s latency_s=100ns
  trilemma lab formula traffic.kv_byte_per_token shape=llama-3.1-8b kv=fp16
  trilemma lab formula pruning.entropy mass=0.7,0.2,0.1 --json"""

_QUANTITIES = {"s", "byte", "byte/s", "W", "V", "A", "J", "Hz", "op/s", "1"}
"""Units of docstrings whose values may be typed with a unit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the formula and its arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a formula, such as latency.own_pace_s")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="PARAMETER=VALUE",
        help="numbers with units (latency_s=100ns), lists (0.7,0.2,0.1), rows (1,2;3,4), models and formats by name",
    )


def run(args: argparse.Namespace) -> int:
    """List the formulas, describe one, or evaluate it."""
    if args.name is None:
        _print_all(args.json)
        return 0
    formula = _named(args.name)
    document = _described(formula)
    if args.values:
        document |= _evaluated(formula, args.values)
    if args.json:
        print_json(document)
    else:
        _print(formula, document)
    return 0


def _print_all(as_json: bool) -> None:
    rows = [(one.name, one.meaning, one.source) for one in formulas().values()]
    if as_json:
        print_json([dict(zip(("name", "meaning", "source"), row, strict=True)) for row in rows])
    else:
        print_table([("FORMULA", "MEANING", "SOURCE"), *rows])


def _named(name: str) -> Formula:
    known = formulas()
    same = [one for one in known.values() if one.name.partition(".")[2] == name]
    if name in known:
        return known[name]
    if len(same) == 1:
        return same[0]
    raise UserError(f"formula: got {name!r}; {suggestion('formula', name, known)}; see trilemma lab formula")


def _described(formula: Formula) -> dict[str, Any]:
    return {
        "name": formula.name,
        "meaning": formula.meaning,
        "source": formula.source,
        "summary": formula.summary,
        "parameters": [dataclasses.asdict(one) for one in formula.parameters],
        "returns": formula.returns,
    }


def _evaluated(formula: Formula, words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments as read and the value, in the units of the docstring."""
    by_name = {one.name: one for one in formula.parameters}
    given: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in by_name:
            raise UserError(f"{formula.name}: got {word!r}, expected PARAMETER=VALUE with {', '.join(by_name)}")
        if name in given:
            raise UserError(f"{formula.name}: got {name} twice, expected it once")
        given[name] = _read(by_name[name], text)
    missing = [one.name for one in formula.parameters if one.required and one.name not in given]
    if missing:
        raise UserError(
            f"{formula.name}: got no {', '.join(missing)}, expected {', '.join(f'{n}=...' for n in missing)}"
        )
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            value = formula.function(**given)
    except (ValueError, TypeError, ArithmeticError, IndexError, MemoryError) as error:
        raise UserError(f"{formula.name}: {error}") from error
    return {"arguments": {name: _plain(one) for name, one in given.items()}, "value": _plain(value)}


def _read(parameter: Parameter, text: str) -> Any:
    """Return an argument from its text: a number, an array, a flag, a word, or a record of the catalogue."""
    kind = parameter.kind
    if kind.startswith(("ModelShape", "WeightFormat", "KvFormat")):
        return _of_catalogue(parameter, text)
    if kind.startswith("str"):
        return text
    if kind == "bool":
        if text not in ("true", "false"):
            raise UserError(f"{parameter.name}: got {text!r}, expected true or false")
        return text == "true"
    if not any(word in kind for word in ("float", "int", "ndarray", "array_like")) or "mapping" in kind:
        raise UserError(f"{parameter.name}: this command cannot build a {kind}; call the function from Python")
    return _array(parameter, [[_number(parameter, cell) for cell in row.split(",")] for row in text.split(";")])


def _array(parameter: Parameter, rows: list[list[float | int]]) -> Any:
    """Return a number or an array of the shape that the docstring asks for."""
    lengths = ", ".join(str(len(row)) for row in rows)
    if len({len(row) for row in rows}) > 1:
        raise UserError(f"{parameter.name}: got rows of {lengths} values, expected rows of equal length")
    shape = re.search(r"shape \(([^)]*)\)", parameter.kind)
    n_axes = 1 if shape is None else len([axis for axis in shape[1].split(",") if axis.strip()])
    if n_axes > 2 or (shape and "..." not in shape[1] and n_axes == 1 and len(rows) > 1):
        raise UserError(f"{parameter.name}: got {len(rows)} rows of {lengths} values, expected {parameter.kind}")
    if n_axes == 2 and "..." not in (shape[1] if shape else ""):
        return np.array(rows)
    scalar = "float" in parameter.kind or parameter.kind.startswith("int")
    if len(rows) > 1:
        return np.array(rows)
    return rows[0][0] if scalar and len(rows[0]) == 1 else np.array(rows[0])


def _number(parameter: Parameter, text: str) -> float | int:
    whole = "int" in parameter.kind and "float" not in parameter.kind
    try:
        if whole:
            return int(text)
        if parameter.unit in _QUANTITIES:
            return parse_quantity(text, parameter.unit, name=parameter.name)
        value = float(text)
    except ValueError as error:
        expected = "a whole number" if whole else f"a number [{parameter.unit or '1'}]"
        words = str(error) if parameter.name in str(error) else f"{parameter.name}: got {text!r}, expected {expected}"
        raise UserError(words) from error
    if not np.isfinite(value):
        raise UserError(f"{parameter.name}: got {text!r}, expected a finite number")
    return value


def _of_catalogue(parameter: Parameter, text: str) -> Any:
    catalogue = load_catalogue()
    if parameter.kind.startswith("ModelShape"):
        key = text if text in catalogue.models else KnownNames(catalogue.models).key(text)
        records: Mapping[str, Any] = catalogue.models
    else:
        key = text
        records = catalogue.weight_formats if parameter.kind.startswith("Weight") else catalogue.kv_formats
    if key not in records:
        kind = "model" if parameter.kind.startswith("ModelShape") else "format"
        raise UserError(f"{parameter.name}: got {text!r}; {suggestion(kind, text, records)}")
    return records[key]


def _plain(value: Any) -> Any:
    """Return a value as JSON values; a record of the catalogue is its key."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return getattr(value, "key", None) or {
            f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _print(formula: Formula, document: Mapping[str, Any]) -> None:
    print(f"{formula.name}  {formula.source}\n{formula.summary}\n")
    rows = [(one.name, one.kind, one.text) for one in formula.parameters]
    print_table([("PARAMETER", "TYPE", "MEANING"), *rows, ("returns", "", formula.returns)])
    if "value" in document:
        print(f"\nvalue: {document['value']}")
