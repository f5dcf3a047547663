"""The table of formulas in the docstring of `core`."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import core

ROWS = re.findall(r"(\w+)\.(\w+) +[ABM]\d\d?(?: [ABM]\d\d?)*$", core.__doc__, re.M)


def test_every_module_that_cites_the_articles_is_in_the_table():
    folder = Path(core.__file__).parent
    citing = {path.stem for path in folder.glob("[a-z]*.py") if "Trilemma quantities, " in path.read_text("utf-8")}
    assert {"hierarchy", "fusion", "relax"} <= citing
    assert citing <= {module for module, _ in ROWS}


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
