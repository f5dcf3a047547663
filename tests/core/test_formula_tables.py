"""The tables of formulas in the docstrings of the engine's rooms."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import core

ROOMS = ("physics", "articles", "calibrate")
ROWS = [
    (f"core.{room}.{module}", function)
    for room in ROOMS
    for module, function in re.findall(
        r"(\w+)\.(\w+) +[ABM]\d\d?(?: [ABM]\d\d?)*$", importlib.import_module(f"core.{room}").__doc__, re.M
    )
]
FOLDER = Path(core.__file__).parent


def test_every_module_of_physics_is_in_the_table():
    modules = {f"core.physics.{path.stem}" for path in (FOLDER / "physics").glob("[a-z]*.py")}
    assert modules - {"core.physics.throttle", "core.physics.discharge"} == {
        module for module, _ in ROWS if module.startswith("core.physics.")
    }


@pytest.mark.parametrize("name", sorted({module for module, _ in ROWS}))
def test_every_public_function_is_in_the_table_and_described(name):
    module = importlib.import_module(name)
    functions = {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    }
    assert set(functions) == {function for there, function in ROWS if there == name}
    for key, function in functions.items():
        assert function.__doc__, key


@pytest.mark.parametrize("room", ["physics", "catalogue", "predict", "calibrate", "tables", "articles"])
def test_every_module_of_a_room_is_named_in_its_docstring(room):
    named = set(re.findall(r"\w+", importlib.import_module(f"core.{room}").__doc__))
    modules = {path.stem for path in (FOLDER / room).glob("*.py")} - {"__init__"}
    assert modules - named == set()
