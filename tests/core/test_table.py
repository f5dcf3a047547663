"""The table of formulas in the docstring of `core`."""

import importlib
import inspect
import re

import pytest

import core

ROWS = re.findall(r"(\w+)\.(\w+) +[ABM]\d\d?(?: [ABM]\d\d?)*$", core.__doc__, re.M)


def test_table_has_rows():
    assert len(ROWS) > 40


@pytest.mark.parametrize("name", sorted({module for module, _ in ROWS}))
def test_every_public_function_is_in_the_table_and_described(name):
    module = importlib.import_module(f"core.{name}")
    functions = {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    }
    assert set(functions) == {function for there, function in ROWS if there == name}
    for key, function in functions.items():
        assert function.__doc__, key
