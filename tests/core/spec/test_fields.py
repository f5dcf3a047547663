"""The table of fields and the operating point it describes agree, and the checks of predictions follow the table."""

from dataclasses import fields, replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import BY_NAME, BY_PATH, FIELDS, NUMBERS, NUMERIC, OperatingPoint

CATALOGUE = load_catalogue()
LONGEST = CATALOGUE.models[OperatingPoint().model].max_context_tokens


def test_table_and_operating_point_agree_in_names_order_and_defaults():
    assert [(field.name, field.default) for field in FIELDS] == [(f.name, f.default) for f in fields(OperatingPoint)]


@pytest.mark.parametrize("what", ["name", "path", "option", "label"])
def test_no_two_fields_share(what):
    values = [getattr(field, what) for field in FIELDS]
    assert len(set(values)) == len(values)
    assert all(values)


def test_columns_of_tables_are_distinct():
    assert len({field.column or field.name for field in FIELDS}) == len(FIELDS)


def test_every_number_has_a_range_in_words_and_every_name_its_keys():
    for field in FIELDS:
        if field.is_number:
            assert field.expected
            assert field.low < field.high
            assert field.default is None or field.holds(field.default)
        elif field.name != "power_mode":  # the modes are the board's
            keys = field.options or getattr(CATALOGUE, field.known)
            assert field.default in keys or (field.default == "" and field.unset)
        assert (field.help % ()).format(default=field.default)


def test_arrays_are_numbers():
    assert {BY_NAME[name] for name in NUMERIC} == {field for field in NUMBERS if field.array}
    assert all(field.is_number for field in FIELDS if field.array)


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.name)
def test_predictions_refuse_what_lies_outside_the_range(field):
    high = LONGEST if field.name == "context_tokens" else field.high
    beyond = [np.nextafter(field.low, -np.inf), high if field.open_high else np.nextafter(high, np.inf), np.nan]
    for value in (value for value in beyond if value != np.inf):
        assert not field.holds(value) or value > LONGEST
        with pytest.raises(ValueError, match=f"^{field.name} = .* is outside "):
            predict(replace(OperatingPoint(), **{field.name: value}), CATALOGUE)
        if field.array:
            with pytest.raises(ValueError, match=f"^{field.name} = .* is outside "):
                predict(replace(OperatingPoint(), **{field.name: np.array([field.low, value])}), CATALOGUE)


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.name)
def test_predictions_take_the_ends_of_the_range(field):
    highest = np.nextafter(field.high, 0.0) if field.open_high else field.high
    high = LONGEST if field.name == "context_tokens" else highest
    for value in (value for value in (field.low, high) if value != np.inf):
        assert field.holds(value)
        predict(replace(OperatingPoint(), **{field.name: float(value)}), CATALOGUE)


def test_paths_lead_to_the_same_fields_as_names():
    assert {path.removeprefix("point.") for path in BY_PATH} >= {"alpha", "context", "weights", "head", "graph"}
    assert list(BY_PATH.values()) == list(BY_NAME.values()) == list(FIELDS)
