"""TOML taken key by key, checked strictly: ``file: key: got X, expected Y``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from core.catalogue.refusal import refusal

_DEFAULT_SOURCE = "default"  # the source of all numbers of a table that its `sources` do not name


class Table:
    """One TOML table whose keys are taken one by one; what is left in the end is refused."""

    def __init__(self, where: str, data: Mapping[str, Any]) -> None:
        self.where, self.left, self.numbers = where, dict(data), list[str]()

    def fail(self, key: str, got: object, expected: str) -> NoReturn:
        """Raise the error of a key."""
        raise refusal(f"{self.where}: {key}", got, expected)

    def take(self, key: str, kind: type | tuple[type, ...], expected: str, default: Any = None) -> Any:
        """Take a value of a type; without a default it must be there."""
        value = self.left.pop(key, default)
        if value is None:
            raise ValueError(f"{self.where}: {key}: got nothing, expected {expected}")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(key, value, expected)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Take a text without control characters: it is printed as it is."""
        expected = "a text"
        value = str(self.take(key, str, expected, default))
        if not value.replace("\n", " ").isprintable():
            self.fail(key, value, f"{expected} without control characters")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Take true or false."""
        return bool(self.take(key, bool, "true or false", default))

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Take a number with ``low <= value <= high``; for `close` it must have a source."""
        expected = f"a number from {low:g} to {high:g}"
        if key in self.left:
            self.numbers.append(key)
        value = self.take(key, (int, float), expected, default)
        if not low <= value <= high:
            self.fail(key, value, expected)
        return float(value)

    def optional(self, key: str, low: float, high: float) -> float | None:
        """Take a number that may be absent."""
        return self.number(key, low, high) if key in self.left else None

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Take a whole number."""
        expected = f"a whole number from {low} to {high}"
        if key in self.left:
            self.numbers.append(key)
        value = self.take(key, int, expected, default)
        if not low <= value <= high:
            self.fail(key, value, expected)
        return int(value)

    def numbers_of(self, key: str, low: float, high: float) -> tuple[float, ...]:
        """Take a list of at least one number; they count as one number with one source."""
        expected = f"a list of numbers from {low:g} to {high:g}"
        values = self.take(key, list, expected)
        self.numbers.append(key)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                self.fail(key, value, expected)
        if not values:
            self.fail(key, values, expected)
        return tuple(float(value) for value in values)

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a list of texts, empty if absent."""
        values = self.take(key, list, "a list of texts", [])
        for value in values:
            if not isinstance(value, str):
                self.fail(key, value, "a list of texts")
        return tuple(values)

    def stated_texts(self, key: str) -> tuple[str, ...]:
        """Take a list of texts, empty if absent; for `close` it must have a source, as a number."""
        if key in self.left:
            self.numbers.append(key)
        return self.texts(key)

    def table(self, key: str, default: Mapping[str, Any] | None = None) -> Table:
        """Take a table."""
        return Table(f"{self.where}: {key}", self.take(key, dict, "a table", default))

    def rows(self, key: str) -> list[Table]:
        """Take an array of tables, at least one."""
        expected = f"at least one [[{key}]]"
        values = self.take(key, list, expected)
        for value in values:
            if not isinstance(value, dict):
                self.fail(key, value, expected)
        if not values:
            self.fail(key, values, expected)
        return [Table(f"{self.where}: {key} {i}", value) for i, value in enumerate(values, 1)]

    def tables(self) -> Iterator[tuple[str, Table]]:
        """All that is left, which must be tables."""
        for key in list(self.left):
            yield key, self.table(key)

    def finish(self) -> None:
        """Refuse unknown keys."""
        for key in self.left:
            self.fail(key, self.left[key], "no such key")

    def close(self) -> dict[str, str]:
        """Refuse unknown keys; return the source of each number taken."""
        given = self.table("sources", {})
        sources = {key: given.text(key) for key in list(given.left)}
        default = sources.pop(_DEFAULT_SOURCE, "")
        self.finish()
        for key in sources.keys() - set(self.numbers) - {"tied_embeddings", "weight_byte_by_format"}:
            given.fail(key, sources[key], "the name of a number of this table")
        for key in self.numbers:
            if not sources.setdefault(key, default):
                raise ValueError(f"{self.where}: {key}: got no source, expected one in [sources]")
        return sources
