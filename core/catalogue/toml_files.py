"""TOML files as structs of `core.catalogue.schemas`, checked strictly: ``file: key: got X, expected Y``.

msgspec judges each value. Where it refuses a table, the first value that it refuses is looked for and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
import tomli
from msgspec import Meta, Struct

from core.catalogue.refusal import refusal
from core.catalogue.schemas import Table

T = TypeVar("T", bound=Struct)

_DEFAULT_SOURCE = "default"  # the source of all numbers of a table that its `sources` do not name


def parse(name: str, text: str) -> dict[str, Any]:
    """Parse a TOML text, whose strings must be printable; `name` is what errors call it.

    Raises
    ------
    ValueError
        It is not TOML, nests too deep, or has a string with control characters.
    """
    try:
        document = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise ValueError(f"{name}: got text that is not TOML ({error}), expected TOML") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{name}: got a number too long or tables too deep to read, expected TOML") from None
    if "\\" in text or not text.replace("\n", " ").isprintable():
        _check_printable(name, document)
    return document


def resource(name: str) -> dict[str, Any]:
    """Parse a TOML file of the resources."""
    return parse(name, files("resources").joinpath(name).read_text("utf-8"))


def resource_folder(folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield key, name and document of each TOML file in a folder of the resources, by name."""
    entries = sorted(files("resources").joinpath(folder).iterdir(), key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".toml"):
            where = f"{folder}/{entry.name}"
            yield entry.name.removesuffix(".toml"), where, parse(where, entry.read_text("utf-8"))


def converted(where: str, table: object, schema: type[T]) -> T:
    """Return a table as a struct.

    Raises
    ------
    ValueError
        ``file: key: got X, expected Y`` for the first key that is missing, of another type, out of range or unknown.
    """
    try:
        return msgspec.convert(table, schema)
    except msgspec.ValidationError:
        raise _fault(where, table, schema) from None


def sources_of(where: str, table: Mapping[str, Any], made: Table) -> dict[str, str]:
    """Return the source of each number of a table, and of each other key that needs one.

    Raises
    ------
    ValueError
        A number has no source, or a source is of no key of the table.
    """
    found: dict[str, str] = dict(table.get("sources", {}))
    default = found.pop(_DEFAULT_SOURCE, "")
    for key, source in found.items():
        if key not in table or key == "sources":
            raise refusal(f"{where}: sources: {key}", source, "the name of a number of this table")
    for key, value in table.items():
        if (_is_number(value) or key in made.needs_source) and not found.setdefault(key, default):
            raise ValueError(f"{where}: {key}: got no source, expected one in [sources]")
    return found


def _is_number(value: object) -> bool:
    one = value[0] if isinstance(value, list) and value else value
    return isinstance(one, (int, float)) and not isinstance(one, bool)


def _check_printable(where: str, value: object) -> None:
    if isinstance(value, str):
        if not value.replace("\n", " ").isprintable():
            raise refusal(where, value, "a text without control characters")
    elif isinstance(value, dict):
        for key, one in value.items():
            _check_printable(f"{where}: {key}", one)
    elif isinstance(value, list):
        for i, one in enumerate(value, 1):
            _check_printable(f"{where} {i}" if isinstance(one, dict) else where, one)


# --- the sentence on a table that msgspec refuses ---------------------------------------------------------------------


def _fault(where: str, value: Any, kind: Any) -> ValueError:
    """Return the error of the first thing that makes `value` no `kind`."""
    bare = _bare(kind)
    if isinstance(value, dict) and isinstance(bare, type) and issubclass(bare, Struct):
        return _fault_of_table(where, value, bare)
    if value and isinstance(value, dict) and get_origin(bare) is dict:
        of = get_args(bare)[1]
        key = next(key for key, one in value.items() if _refused(one, of))
        return _fault(f"{where}: {key}", value[key], of)
    expected = _expected(kind, value, where.rpartition(": ")[2])
    if isinstance(value, list) and get_origin(bare) is tuple:
        of = get_args(bare)[0]
        i = next((i for i, one in enumerate(value) if _refused(one, of)), None)
        if i is not None and isinstance(value[i], dict):
            return _fault(f"{where} {i + 1}", value[i], of)
        value = value if i is None else value[i]
    return refusal(where, value, expected)


def _fault_of_table(where: str, table: Mapping[str, Any], schema: type[Struct]) -> ValueError:
    fields = msgspec.structs.fields(schema)
    for field in fields:
        at = f"{where}: {field.name}"
        if field.name not in table and field.required:
            return ValueError(f"{at}: got nothing, expected {_expected(field.type, None, field.name)}")
        if field.name in table and _refused(table[field.name], field.type):
            return _fault(at, table[field.name], field.type)
    unknown = next(key for key in table if key not in schema.__struct_fields__)
    return refusal(f"{where}: {unknown}", table[unknown], "no such key")


def _refused(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return True
    return False


def _bare(kind: Any) -> Any:
    """Return a type without what is annotated to it, and without ``| None``: a TOML file has no null."""
    if NoneType in get_args(kind):
        kind = next(one for one in get_args(kind) if one is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _range(kind: Any) -> Meta:
    found = (one for one in (kind, *get_args(kind)) if get_origin(one) is Annotated)
    return next((meta for one in found for meta in one.__metadata__), Meta())


def _expected(kind: Any, value: Any, key: str) -> str:
    """Return what a type takes, in words; `key` is what the table calls it."""
    bare, span = _bare(kind), _range(kind)
    if bare is float:
        return f"a number from {span.ge:g} to {span.le:g}"
    if bare is int:
        return f"a whole number from {span.ge} to {span.le}"
    if bare is bool:
        return "true or false"
    if get_origin(bare) is Literal and isinstance(value, str):
        return _one_of([text for text in get_args(bare) if text]) + (", or nothing" if "" in get_args(bare) else "")
    if bare is str or get_origin(bare) is Literal:
        return "a text"
    if get_origin(bare) is tuple:
        of = get_args(bare)[0]
        if _bare(of) in (float, int, str):
            many = "" if get_args(bare)[-1] is Ellipsis else f"{len(get_args(bare))} "
            return (
                f"a list of {many}{_expected(of, value, key)[2:].replace('number', 'numbers').replace('text', 'texts')}"
            )
        return f"at least one [[{key}]]"
    return "at least one" if value == {} else "a table"


def _one_of(texts: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
