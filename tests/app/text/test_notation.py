"""Characters, words and products that people write quantities with."""

import doctest

import pytest

from app.text import notation
from app.text.notation import bus_byte_s, charge_j, plain, symbol


def test_the_examples_hold():
    assert doctest.testmod(notation) == (0, doctest.testmod(notation).attempted)
    assert doctest.testmod(notation).attempted >= 4


@pytest.mark.parametrize("space", "\u0020\u00a0\u2002\u2009\u200a\u202f\u205f\u3000")
def test_each_space_is_a_blank(space):
    assert plain(f"51.2{space}GB/s") == "51.2 GB/s"


@pytest.mark.parametrize("minus", "-−–－﹣‐‑")
def test_each_minus_is_one(minus):
    assert plain(f"{minus}5") == "-5"


def test_what_has_no_width_is_left_out():
    assert plain("\ufeff51.2\u200b GB/s\u200e") == "51.2 GB/s"


@pytest.mark.parametrize("unit", ["GB/s", "Gbit/s", "ms", "min", "°C", "tokens", "Top/s", "KiB", "TFLOP/s", "MHz", ""])
def test_a_symbol_stays_as_it_is(unit):
    assert symbol(unit) in (unit, unit.removesuffix("s"))


@pytest.mark.parametrize("text", ["51.2 GB/s", "8 Gbit/s", "6400", "128 bit", "x 128 bit", "6400 MHz x 128 bit", ""])
def test_what_is_no_bus_is_left_to_others(text):
    assert bus_byte_s(text) is None


@pytest.mark.parametrize("text", ["56 Wh", "5 A", "5000 mA", "3.7 V", ""])
def test_what_is_no_charge_is_left_to_others(text):
    assert charge_j(text) is None
