"""Checks of JSON files that people may have edited: one sentence per error, unknown keys kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from app.library.files import DamagedFile
from core.catalogue.text_files import text_of

T = TypeVar("T")

_WORDS = {"float": "number", "int": "whole number", "str": "string", "object": "object", "bool": "true or false"}


def decode_object(content: bytes, name: str) -> dict[str, Any]:
    """Return the JSON object in `content`.

    Raises
    ------
    DamagedFile
        ``name: ...`` in one sentence: not JSON, or not an object.
    """
    try:
        document = msgspec.json.decode(text_of(content))
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{name}: expected a JSON document: {error}") from error
    if not isinstance(document, dict):
        raise DamagedFile(f"{name}: $: expected object, got {_kind(document)}")
    return document


def convert(document: Any, schema: type[T], name: str) -> T:
    """Return a document, or a value in one, as a `schema`, strictly.

    Raises
    ------
    DamagedFile
        ``name: $.point.alpha: expected number, got string``.
    """
    try:
        return msgspec.convert(document, schema)
    except msgspec.ValidationError as error:
        raise DamagedFile(f"{name}: {_sentence(str(error))}") from error
    except (OverflowError, RecursionError) as error:
        raise DamagedFile(f"{name}: got a number that is too large, or values nested too deep") from error


def unknown_keys(document: Mapping[str, Any], schema: type[msgspec.Struct], at: str = "$") -> Iterator[str]:
    """Yield the path of each key of `document` that `schema` lacks, at any depth of structs."""
    fields = {f.encode_name: f for f in msgspec.structs.fields(schema)}
    for key, value in document.items():
        if key not in fields:
            yield f"{at}.{key}"
        elif isinstance(value, Mapping):
            inner = _struct_of(fields[key].type)
            if inner is not None:
                yield from unknown_keys(value, inner, f"{at}.{key}")


def merged(document: Mapping[str, Any], update: Mapping[str, Any], schema: type[msgspec.Struct]) -> dict[str, Any]:
    """Return `update` with the keys of `document` that `schema` lacks kept in their places."""
    result = dict(update)
    fields = {f.encode_name: f for f in msgspec.structs.fields(schema)}
    for key, value in document.items():
        if key not in fields:
            result[key] = value
        elif key in result and (inner := _struct_of(fields[key].type)) is not None:
            result[key] = _merged(value, result[key], inner, fields[key].type)
    return result


def _merged(before: Any, now: Any, inner: type[msgspec.Struct], annotation: Any) -> Any:
    """Merge a struct, a list of structs or structs by key; an item of a list is known by its members."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if getattr(annotation, "__origin__", None) is not dict:
            return merged(before, now, inner)
        return {key: _merged(before.get(key), item, inner, inner) for key, item in now.items()}
    if isinstance(before, list) and isinstance(now, list):
        olds = [old for old in before if isinstance(old, Mapping)]
        same = ((item, [o for o in olds if all(o.get(k, v) == v for k, v in item.items())]) for item in now)
        return [merged(found[0], item, inner) if found else item for item, found in same]
    return now


def _struct_of(annotation: Any) -> type[msgspec.Struct] | None:
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return candidate
    return None


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "true or false", int: "whole number", float: "number", str: "string", list: "array"}.get(
        type(value), "object"
    )


def _sentence(message: str) -> str:
    """Turn ``Expected `float`, got `str` - at `$.point.alpha``` into ``$.point.alpha: expected number, got string``."""
    text, _, at = message.partition(" - at ")
    for type_name, word in _WORDS.items():
        text = text.replace(f"`{type_name}`", f"`{word}`").replace(f"`{type_name} | null`", f"`{word} or null`")
    text = re.sub(r"`([^`]*)`", r"\1", text)
    return f"{at.strip('`') or '$'}: {text[:1].lower()}{text[1:]}"
