import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.format import (
    as_sentence,
    at_most_text,
    change_text,
    display_unit,
    estimate_text,
    exact_text,
    number_text,
    output_text,
    parse_quantity,
    quantity_text,
    unbroken,
)
from core.spec import Absent, Estimate, Provenance


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("51.2GB/s", "byte/s", 51.2e9),
        ("51,2 GB/s", "byte/s", 51.2e9),
        ("8 Gbit/s", "byte/s", 1e9),
        ("38.4e9", "byte/s", 38.4e9),
        ("0.3", "1", 0.3),
        ("0,3", "1", 0.3),
        ("0,125", "1", 0.125),
        ("30 %", "1", 0.3),
        ("30%", "frac", 0.3),
        ("15W", "W", 15.0),
        ("15w", "W", 15.0),
        ("2 048", "tokens", 2048.0),
        ("2\u2009048 tokens", "tokens", 2048.0),
        ("2k", "tokens", 2000.0),
        ("2Ki", "tokens", 2048.0),
        ("1,024,000", "tokens", 1024e3),
        ("1,024.5", "1", 1024.5),
        ("4GiB", "byte", 4 * 2.0**30),
        ("4GB", "byte", 4e9),
        ("900us", "s", 900e-6),
        ("900 µs", "s", 900e-6),
        ("9.3ms", "s", 9.3e-3),
        ("−5 °C", "degC", -5.0),
        ("51.2GBps", "byte/s", 51.2e9),
        ("51.2 MBps", "byte/s", 51.2e6),
        ("51.2 GiBps", "byte/s", 51.2 * 2.0**30),
        ("51.2 GByte/s", "byte/s", 51.2e9),
        ("51.2 KB/s", "byte/s", 51.2e3),
        ("51.2 GB/sec", "byte/s", 51.2e9),
        ("51.2 GB s⁻¹", "byte/s", 51.2e9),
        ("51.2 gigabytes per second", "byte/s", 51.2e9),
        ("51.2 gigabits/s", "byte/s", 6.4e9),
        ("５１．２ＧＢ／ｓ", "byte/s", 51.2e9),
        ("51.2\u00a0GB\u2009/\u202fs", "byte/s", 51.2e9),
        ("6400 MT/s x 128 bit", "byte/s", 102.4e9),
        ("6400MT/s×128bit", "byte/s", 102.4e9),
        ("128-bit x 6400 MT/s", "byte/s", 102.4e9),
        ("LPDDR5-6400 128-bit", "byte/s", 102.4e9),
        ("128 bit LPDDR5X 8533 MT/s", "byte/s", 136.528e9),
        ("LPDDR5-6400 4x32 bit", "byte/s", 102.4e9),
        ("GDDR6 14 Gbps 256 bit", "byte/s", 448e9),  # bits a second and line
        ("16 gigabytes", "byte", 16e9),
        ("５０　ｍｓ", "s", 0.05),
        ("50 msec", "s", 0.05),
        ("90 seconds", "s", 90.0),
        ("15 watts", "W", 15.0),
        ("5 MW", "W", 5e6),  # not milliwatts
        ("56 W·h", "Wh", 56 * 3600.0),
        ("56 W h", "J", 56 * 3600.0),
        ("56 watt-hours", "Wh", 56 * 3600.0),
        ("5000 mAh x 3.7 V", "Wh", 66600.0),
        ("5 Ah @ 3.7V", "J", 66600.0),
        ("３０％", "frac", 0.3),
        ("30 percent", "1", 0.3),
        ("－５　℃", "degC", -5.0),
        ("–5 ºC", "degC", -5.0),
        ("2’048", "tokens", 2048.0),
        ("128K", "tokens", 128e3),
    ],
)
def test_what_people_type_is_understood(text, unit, value):
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-12)


def test_a_bare_number_takes_the_unit_of_its_field():
    assert parse_quantity("51.2", "byte/s", bare="GB/s") == pytest.approx(51.2e9)


@pytest.mark.parametrize(
    "text",
    ["20 tok/s", "20 t/s", "20 tokens/s", "20 tokens per second", "20 tps", "50 ms/token", "50ms", "50 ms per tok"],
)
def test_the_time_of_a_token_is_read_from_tokens_a_second_too(text):
    assert parse_quantity(text, "s", bare=None, per_token=True) == pytest.approx(0.05)


@pytest.mark.parametrize("text", ["0 tok/s", "-3 tok/s", "20"])
def test_no_tokens_a_second_are_no_time(text):
    with pytest.raises(ValueError, match="expected"):
        parse_quantity(text, "s", bare=None, per_token=True)


@pytest.mark.parametrize(
    "text",
    ["51.2 Gb/s", "51.2 gb/s", "51.2 gbps", "51.2 Gbps", "51.2 GBPS", "51.2 GB/S", "51.2 gB/s", "５１．２ｇｂｐｓ"],
)
def test_bytes_or_bits_by_letter_case_alone_are_refused_with_both_readings(text):
    with pytest.raises(ValueError, match="bytes or bits") as caught:
        parse_quantity(text, "byte/s", name="bandwidth")
    assert str(caught.value) == (
        f"bandwidth: got {text!r}, expected bytes or bits: 51.2 gigabytes per second is 51.2GB/s, gigabits 51.2Gbit/s"
    )


@pytest.mark.parametrize(
    ("text", "unit", "words"),
    [
        ("16 gb", "byte", "16 gigabytes is 16GB, gigabits 16Gbit"),
        ("15 mw", "W", "expected 15mW or 15MW"),
        ("6400 MT/s", "byte/s", "expected the width of the bus too, such as 6400 MT/s x 128 bit"),
        ("LPDDR5-6400", "byte/s", "such as LPDDR5-6400 x 128 bit"),
        ("5000 mAh", "Wh", "or the voltage too, such as 5000 mAh x 3.7 V"),
    ],
)
def test_what_may_be_two_things_or_lacks_a_part_says_which(text, unit, words):
    with pytest.raises(ValueError, match="expected") as caught:
        parse_quantity(text, unit)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("abc", "1"),
        ("", "1"),
        ("nan", "1"),
        ("inf", "1"),
        ("1e999", "W"),
        ("0x10", "1"),
        ("1.2.3", "1"),
        ("1,2,3", "1"),
        ("1 2", "1"),
        ("2 04", "tokens"),
        ("5gb/s", "byte/s"),  # gigabit or gigabyte
        ("9.3 W", "s"),
        ("5 parsecs", "s"),
        ("9" * 65, "1"),
        ("2,048", "tokens"),  # 2.048 or 2048
        ("20 tok/s", "s"),  # a time that is not of a token
        ("51.2 GB", "byte/s"),
        ("128 bit", "byte/s"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence_with_an_example(text, unit):
    with pytest.raises(ValueError, match=r"^alpha: .*expected .*") as caught:
        parse_quantity(text, unit, name="alpha")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["1.0", "-0.1", "101 %"])
def test_out_of_range_names_the_range(text):
    with pytest.raises(ValueError, match=r"alpha: got .*, expected 0 to 0\.95"):
        parse_quantity(text, "1", name="alpha", low=0.0, high=0.95)


@given(st.text(max_size=80))
def test_no_input_raises_anything_but_value_error(text):
    for unit in ("1", "byte/s", "byte", "tokens", "s", "Wh"):
        try:
            value = parse_quantity(text, unit)
        except ValueError:
            continue
        assert math.isfinite(value)


@given(st.floats(1e-30, 1e18))
def test_a_shown_number_reads_back_as_itself(value):
    for unit in ("byte/s", "s", "W", "byte"):
        assert parse_quantity(exact_text(value, unit), unit) == pytest.approx(value, rel=1e-3)


def test_the_interval_decides_the_digits():
    assert str(estimate_text(9.29e-3, 8.93e-3, 9.6e-3, "s")) == "9.29 ms [8.9 – 9.6]"
    assert str(estimate_text(11.4, 7.8, 16.0, "W")) == "11.4 W [8 – 16]"
    assert str(estimate_text(0.99, 0.981, 0.995, "frac")) == "99.0 % [98.1 – 99.5]"
    assert str(estimate_text(0.009, 0.009, 0.009, "s")) == "9.00 ms"


def test_a_bound_above_zero_is_not_shown_as_zero():
    assert str(estimate_text(1.08, 0.342, 3.42, "J")) == "1.1 J [0.3 – 3]"
    assert str(estimate_text(1.2, 0.04, 4.2, "1")) == "1.2 [0.04 – 4]"
    assert str(estimate_text(1.2, 0.00004, 4.2, "1")) == "1.2 [0 – 4]"
    assert str(estimate_text(5.0, 0.0, 9.0, "1")) == "5.0 [0 – 9]"


def test_the_parts_of_an_estimate_share_the_unit_of_its_median():
    text = estimate_text(1.1e-3, 0.8e-3, 1.5e-3, "s")
    assert (text.value, text.unit, text.interval) == ("1.10", "ms", "0.8 – 1.5")


def test_prefix_thousands_and_signs():
    assert quantity_text(38.4e9, "byte/s") == "38.4 GB/s"
    assert quantity_text(2048, "tokens") == "2\u2009048 tokens"
    assert quantity_text(1.0, "tokens") == "1 token"
    assert quantity_text(0.989, "frac") == "98.9 %"
    assert quantity_text(0.0, "frac") == "0 %"
    assert quantity_text(0.99996, "s") == "1.00 s"
    assert quantity_text(math.nan, "s") == "–"
    assert change_text(-0.62e-3, "s", like=9.29e-3) == "−0.62 ms"
    assert change_text(3.1e-3, "s") == "+3.1 ms"
    assert number_text(-1234.6, 0) == "−1\u2009235"
    assert display_unit("W", 0.4).text == "mW"
    assert display_unit("furlong", 3.0).text == "furlong"


def test_zero_has_no_sign_and_what_is_far_from_one_has_no_zeros():
    for zero in (0.0, -0.0):
        assert [quantity_text(zero, unit) for unit in ("s", "frac", "tokens")] == ["0 s", "0 %", "0 tokens"]
        assert str(estimate_text(zero, zero, zero, "W")) == exact_text(zero, "W") == change_text(zero, "W") == "0 W"
    assert quantity_text(4e-12, "s") == "0.00400 ns"
    assert quantity_text(-1.2344e-17, "s", 6) == "−1.234e−17 s"
    assert quantity_text(1e-300, "byte/s") == "1.00e−300 B/s"
    assert quantity_text(2e18, "byte") == "2.000e18 B"
    assert quantity_text(999e9, "1") == "999\u2009000\u2009000\u2009000"
    assert quantity_text(1e-9, "frac") == "1.00e−07 %"
    assert change_text(-1e-20, "s") == "−1.0e−20 s"
    assert str(estimate_text(1e-20, 9e-21, 1.1e-20, "s")) == "1.00e−20 s [9.0e−21 – 1.10e−20]"
    for extreme in (5e-324, -5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan):
        assert len(quantity_text(extreme, "J/token", 6)) < 20


def test_absent_is_words_and_a_dash():
    assert output_text(Absent("no power sensor on this machine"), "W") == "– (no power sensor on this machine)"
    measured = Estimate(9.29e-3, 8.9e-3, 9.6e-3, Provenance.MEASURED)
    assert output_text(measured, "s") == "9.29 ms [8.9 – 9.6] measured"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("the link was lost", "The link was lost."),
        ("orin.local refused the login", "orin.local refused the login."),  # a name keeps its letter
        ("me@orin closed it.", "me@orin closed it."),
        ("is it on?", "Is it on?"),
        ("", ""),
    ],
)
def test_what_another_program_says_becomes_a_sentence(text, sentence):
    assert as_sentence(text) == sentence


def test_numbers_are_tied_to_their_units_and_to_alpha():
    assert unbroken("up to r_max (α 0.28) would save 0.67 ms and cost 2.7 % of it") == (
        "up to r_max (α\u00a00.28) would save 0.67\u00a0ms and cost 2.7\u00a0% of it"
    )
    assert unbroken("1.32 GHz to 2 GB in 5 steps") == "1.32\u00a0GHz to 2\u00a0GB in 5 steps"


def test_a_bound_is_rounded_down():
    assert at_most_text(0.2875, 2) == "0.28"
    assert at_most_text(0.29, 2) == "0.29"  # not 0.28 by rounding of doubles
    assert at_most_text(0.0, 2) == "0.00"
