"""Notes, second values and numbers of a reading."""

import math

import pytest

from app.agent.sensors import tegrastats
from app.agent.sensors.reading import MAX_FIELDS, MAX_NOTE_CHAR, MAX_NOTES, Parsed, number
from tests.app.agent.sensors.parsed import values


def test_a_text_is_cut_not_lost():
    parsed = Parsed()
    for i in range(3 * MAX_FIELDS):
        parsed.add(f"a{i}", 1.0, "1", str(i))
        parsed.note(f"note {i}")
    assert len(parsed.values) == MAX_FIELDS
    assert len(parsed.notes) == MAX_NOTES
    assert all(len(note) <= MAX_NOTE_CHAR for note in parsed.notes)


def test_a_second_value_of_a_field_is_a_note():
    parsed = tegrastats.parse("GPU@40C GPU@41C")
    assert values(parsed) == {"gpu.temp_c": 40.0}
    assert parsed.notes == ["GPU@41C"]


@pytest.mark.parametrize("raw", ["", "1,5", "0x10", "1e3", "nan", "inf", "٣", "1_0", " 1", "[N/A]", "9" * 16])
def test_only_plain_decimals_are_numbers(raw):
    assert math.isnan(number(raw))
    assert number("-0.5") == -0.5
