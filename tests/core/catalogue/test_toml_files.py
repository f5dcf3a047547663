import math
import re
from typing import Annotated, Literal

import pytest

from core.catalogue.schemas import AT_LEAST_ONE, Sourced, Table, within
from core.catalogue.toml_files import converted, parse, sources_of


class Part(Sourced):
    size_m: Annotated[float, within(1.0, 20.0)]


class Kind(Sourced):
    needs_source = ("also",)

    name: str
    n: Annotated[int, within(1, 1000000)]
    unit: Literal["cpu", "gpu", "npu"] = "cpu"
    products: Literal["", "fp8", "fp4"] = ""
    flag: bool = False
    rates: Annotated[tuple[Annotated[float, within(0.5, 9.0)], ...], AT_LEAST_ONE] = ()
    also: tuple[str, ...] = ()
    parts: Annotated[dict[str, Part], AT_LEAST_ONE] | None = None
    row: Annotated[tuple[Part, ...], AT_LEAST_ONE] = ()
    limit: Annotated[float, within(0.0, 1e9)] | None = None


GOOD = {"name": "x", "n": 3}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"name": 5}, "name: got 5, expected a text"),
        ({"n": 0}, "n: got 0, expected a whole number from 1 to 1000000"),
        ({"n": 2.0}, "n: got 2.0, expected a whole number from 1 to 1000000"),
        ({"n": True}, "n: got True, expected a whole number from 1 to 1000000"),
        ({"n": 10**99}, "n: got a number far too large, expected a whole number from 1 to 1000000"),
        ({"limit": -1}, "limit: got -1, expected a number from 0 to 1e+09"),
        ({"limit": math.nan}, "limit: got nan, expected a number from 0 to 1e+09"),
        ({"limit": math.inf}, "limit: got inf, expected a number from 0 to 1e+09"),
        ({"limit": "1"}, "limit: got '1', expected a number from 0 to 1e+09"),
        ({"unit": "tpu"}, "unit: got 'tpu', expected cpu, gpu or npu"),
        ({"unit": 3}, "unit: got 3, expected a text"),
        ({"products": "x"}, "products: got 'x', expected fp8 or fp4, or nothing"),
        ({"flag": 1}, "flag: got 1, expected true or false"),
        ({"rates": 5}, "rates: got 5, expected a list of numbers from 0.5 to 9"),
        ({"rates": []}, "rates: got [], expected a list of numbers from 0.5 to 9"),
        ({"rates": [1, 10]}, "rates: got 10, expected a list of numbers from 0.5 to 9"),
        ({"also": "x"}, "also: got 'x', expected a list of texts"),
        ({"also": [1]}, "also: got 1, expected a list of texts"),
        ({"parts": 3}, "parts: got 3, expected a table"),
        ({"parts": {}}, "parts: got {}, expected at least one"),
        ({"parts": {"a": 3}}, "parts: a: got 3, expected a table"),
        ({"parts": {"a": {"size_m": 2}, "b": {}}}, "parts: b: size_m: got nothing, expected a number from 1 to 20"),
        ({"parts": {"a": {"size_m": 2, "w": 1}}}, "parts: a: w: got 1, expected no such key"),
        ({"row": []}, "row: got [], expected at least one [[row]]"),
        ({"row": [1]}, "row: got 1, expected at least one [[row]]"),
        ({"row": [{"size_m": 2}, {"size_m": 0}]}, "row 2: size_m: got 0, expected a number from 1 to 20"),
        ({"sources": 3}, "sources: got 3, expected a table"),
        ({"sources": {"n": 3}}, "sources: n: got 3, expected a text"),
        ({"watts": 3}, "watts: got 3, expected no such key"),
    ],
)
def test_the_first_value_at_fault_is_named(table, says):
    with pytest.raises(ValueError, match=re.escape(f"k.toml: {says}") + "$"):
        converted("k.toml", {**GOOD, **table}, Kind)


def test_a_missing_key_is_named_before_an_unknown_one():
    with pytest.raises(ValueError, match=re.escape("k.toml: name: got nothing, expected a text")):
        converted("k.toml", {"watts": 3, "n": 3}, Kind)


def test_a_long_value_is_cut():
    with pytest.raises(ValueError, match=r"limit: got 'yyy.*\.\.\., expected a number") as caught:
        converted("k.toml", {**GOOD, "limit": "y" * 4000}, Kind)
    assert len(str(caught.value)) < 300


def test_values_leave_the_sources_out():
    made = converted("k.toml", {**GOOD, "limit": 3, "rates": [1, 2], "sources": {"default": "s"}}, Kind)
    assert (made.limit, made.rates) == (3.0, (1.0, 2.0))
    assert isinstance(made.limit, float)
    assert made.values().keys() == set(Kind.__struct_fields__) - {"sources"}


@pytest.mark.parametrize(
    ("table", "sources"),
    [
        ({"n": 3, "sources": {"n": "a"}}, {"n": "a"}),
        ({"n": 3, "limit": 1, "sources": {"default": "d", "n": "a"}}, {"n": "a", "limit": "d"}),
        ({"n": 3, "rates": [1], "also": ["y"], "sources": {"default": "d"}}, {"n": "d", "rates": "d", "also": "d"}),
        ({"n": 3, "flag": True, "sources": {"default": "d", "flag": "f"}}, {"n": "d", "flag": "f"}),
    ],
)
def test_each_number_has_a_source(table, sources):
    whole = {"name": "x", **table}
    assert sources_of("k.toml", whole, converted("k.toml", whole, Kind)) == sources


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"n": 3}, "n: got no source, expected one in [sources]"),
        ({"n": 3, "sources": {"n": ""}}, "n: got no source, expected one in [sources]"),
        ({"n": 3, "rates": [1], "sources": {"n": "a"}}, "rates: got no source, expected one in [sources]"),
        ({"n": 3, "also": ["y"], "sources": {"n": "a"}}, "also: got no source, expected one in [sources]"),
        ({"n": 3, "sources": {"n": "a", "limit": "b"}}, "sources: limit: got 'b', expected the name of a number"),
    ],
)
def test_a_number_without_a_source_is_refused(table, says):
    whole = {"name": "x", **table}
    with pytest.raises(ValueError, match=re.escape(f"k.toml: {says}")):
        sources_of("k.toml", whole, converted("k.toml", whole, Kind))


def test_texts_are_printable_wherever_they_stand():
    for text, at in (
        ('name = "\\u001b[2J"', "name"),
        ('[a]\nb = "\\u0007"', "a: b"),
        ('[[row]]\nx = "y"\n[[row]]\nx = "\\u202e"', "row 2: x"),
        ('also = ["a", "\\u0000"]', "also"),
        ('x = "\u202e"', "x"),
    ):
        with pytest.raises(ValueError, match=f"k.toml: {at}: got .*, expected a text without control characters"):
            parse("k.toml", text)
    assert parse("k.toml", 'a = "\\"quoted\\"" # \u202e\nb = """two\nlines"""') == {"a": '"quoted"', "b": "two\nlines"}


def test_a_table_of_one_kind_alone_has_sources():
    class Bare(Table):
        n: Annotated[float, within(0.0, 9.0)]

    with pytest.raises(ValueError, match=r"k.toml: sources: got \{\}, expected no such key"):
        converted("k.toml", {"n": 1, "sources": {}}, Bare)
