"""The formulas of the engine by name: symbol, meaning, source, and the parameters of their docstrings."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ROOMS = ("physics", "calibrate", "articles")
"""Rooms of `core` whose docstrings have a table of formulas."""

_ROW = re.compile(r"^(?P<about>.*?)(?P<module>\w+)\.(?P<function>\w+) +(?P<source>[ABM]\d\d?(?: [ABM]\d\d?)*)$", re.M)
_TITLE = re.compile(r"^([A-Z][\w ]+)\n-+$", re.M)
_ENTRY = re.compile(r"^(\S.*)\n((?:[ ]+\S.*\n?|\n)*)", re.M)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a formula, as its docstring describes it."""

    name: str
    kind: str  # "float or ndarray", "ModelShape", ...
    unit: str  # "s", "byte/s", "1"; "" where the docstring has none
    text: str
    required: bool


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula: a pure function of `core`."""

    name: str  # "traffic.kv_byte_per_token"
    meaning: str
    source: str  # sections of docs/physics.md and docs/articles.md
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]

    @property
    def summary(self) -> str:
        """First paragraph of the docstring, with the equation where it stands there."""
        return _sections(self.function)[""].strip()

    @property
    def returns(self) -> str:
        """The Returns section in one line."""
        return " ".join(_sections(self.function).get("Returns", "").split())


@functools.cache
def formulas() -> Mapping[str, Formula]:
    """Return every formula by name, in the order of the rooms' tables."""
    found = {}
    for room in ROOMS:
        package = importlib.import_module(f"core.{room}")
        for row in _ROW.finditer(package.__doc__ or ""):
            function = getattr(importlib.import_module(f"core.{room}.{row['module']}"), row["function"])
            name = f"{row['module']}.{row['function']}"
            meaning = " ".join(row["about"].split())
            found[name] = Formula(name, meaning, row["source"], function, _parameters(function))
    return found


def _sections(function: Callable[..., Any]) -> dict[str, str]:
    parts = _TITLE.split(inspect.getdoc(function) or "")
    return {"": parts[0], **dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True))}


def _parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    signature = inspect.signature(function).parameters
    found = []
    for head, body in _ENTRY.findall(_sections(function).get("Parameters", "") + "\n"):
        names, _, kind = head.partition(" : ")
        text = " ".join(body.split())
        unit = re.search(r"\[([^\]]+)\]", text)
        for name in re.findall(r"\w+", names):
            required = signature[name].default is inspect.Parameter.empty
            found.append(Parameter(name, kind, unit[1] if unit else "", text, required))
    return tuple(found)
