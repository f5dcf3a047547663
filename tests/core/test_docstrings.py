"""Docstrings of formulas: their examples run, and their sections say what numpydoc and the unit rule ask for."""

import ast
import doctest
import importlib
import inspect
import io
import re
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import core

FOLDER = Path(core.__file__).parent
DOCS = FOLDER.parent / "docs"
FORMULAS = [
    *(f"core.physics.{path.stem}" for path in sorted((FOLDER / "physics").glob("[a-z]*.py"))),
    *(
        f"core.articles.{name}"
        for name in ("banks", "compression", "curve_fit", "fusion", "hierarchy", "importance", "limits", "relax")
    ),
    "core.calibrate.bandwidth_drift",
]
PRINTED = ["core.articles.as_printed.article_a", "core.articles.as_printed.article_b"]

UNIT = re.compile(r"\[[^\]]+\]")
NUMBER = re.compile(r"float|int\b|ndarray|array_like|tensor")


def public_functions(name: str) -> dict[str, FunctionType]:
    module = importlib.import_module(name)
    return {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == name and not key.startswith("_")
    }


CASES = [(name, key) for name in FORMULAS for key in public_functions(name)]
PRINTED_CASES = [(name, key) for name in PRINTED for key in public_functions(name)]


def sections(text: str) -> dict[str, str]:
    """Return the sections of a numpydoc docstring by title; "" is what comes before the first."""
    parts = re.split(r"^([A-Z][\w ]+)\n-+$", inspect.cleandoc(text), flags=re.MULTILINE)
    return {"": parts[0], **{title: body.strip("\n") for title, body in zip(parts[1::2], parts[2::2], strict=True)}}


def entries(section: str) -> list[tuple[str, str]]:
    """Return the entries of a section: the line at the margin, and the indented text below it in one line."""
    found = re.findall(r"^(\S.*)\n((?:[ ]+\S.*\n?|\n)*)", section + "\n", flags=re.MULTILINE)
    return [(head, " ".join(text.split())) for head, text in found]


@cache
def calls(name: str) -> dict[str, tuple[set[str], bool]]:
    """Return the names that each function of a module calls, and whether it raises or checks a range itself."""
    tree = ast.parse(Path(str(importlib.import_module(name).__file__)).read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            inside = list(ast.walk(node))
            called = {part.func.id for part in inside if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)}
            found[node.name] = (called, any(isinstance(part, ast.Raise) for part in inside) or "check_range" in called)
    return found


def raises(name: str, key: str, *, through_public: bool) -> bool:
    """Return whether a function raises itself, in a private helper, or also in a public function of its module."""
    functions, todo, seen = calls(name), [key], {key}
    while todo:
        called, itself = functions[todo.pop()]
        if itself:
            return True
        more = {other for other in called & functions.keys() - seen if through_public or other.startswith("_")}
        seen |= more
        todo += more
    return False


@pytest.mark.parametrize("name", [*FORMULAS, *PRINTED])
def test_examples_give_what_they_show(name: str):
    module: ModuleType = importlib.import_module(name)
    report, runner = io.StringIO(), doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(test, out=report.write)
    assert runner.summarize(verbose=False).failed == 0, report.getvalue()
    assert runner.tries > 0


@pytest.mark.parametrize(("name", "key"), CASES)
def test_every_parameter_is_described_with_its_unit(name: str, key: str):
    function = public_functions(name)[key]
    described = entries(sections(str(function.__doc__)).get("Parameters", ""))
    names = [one.lstrip("*") for head, _ in described for one in head.partition(" : ")[0].split(", ")]
    assert sorted(names) == sorted(inspect.signature(function).parameters)
    for head, text in described:
        kind = head.partition(" : ")[2]
        assert re.match(r"[a-zA-Z]", kind), f"{head!r} names no type"
        assert text.endswith((".", "...")), f"{head!r} has no description"
        if NUMBER.search(kind) and "of bool" not in kind:
            assert UNIT.search(text), f"{head!r} has no unit: {text}"


@pytest.mark.parametrize(("name", "key"), CASES)
def test_returns_are_described_with_their_unit(name: str, key: str):
    found = entries(sections(str(public_functions(name)[key].__doc__)).get("Returns", ""))
    assert found, "no section Returns"
    for head, text in found:
        assert text, f"{head!r} has no description"
        if NUMBER.search(head) and "of bool" not in head:
            assert UNIT.search(text), f"{head!r} has no unit: {text}"


@pytest.mark.parametrize(("name", "key"), CASES)
def test_errors_are_described_if_and_only_if_there_are_any(name: str, key: str):
    described = "Raises" in sections(str(public_functions(name)[key].__doc__))
    if described:
        assert raises(name, key, through_public=True), "Raises is described, but nothing raises"
    else:
        assert not raises(name, key, through_public=False), "no section Raises"


@pytest.mark.parametrize(
    ("name", "key"), [*CASES, *((name, key) for name in PRINTED for key in public_functions(name))]
)
def test_every_formula_has_an_example_and_a_reference(name: str, key: str):
    found = sections(str(public_functions(name)[key].__doc__))
    assert ">>> " in found.get("Examples", "")
    assert re.search(rf"\b{key}\(", found["Examples"]), "the example does not call the function"
    assert "``" in found[""] or name not in PRINTED, "the equation as printed is missing"
    assert found.get("References"), "no section References"


@pytest.mark.parametrize("name", [*FORMULAS, *PRINTED])
def test_references_lead_to_the_documents(name: str):
    keys = set(re.findall(r'<a id="(\w+)"', (DOCS / "references.md").read_text(encoding="utf-8")))
    anchors = {
        page: {anchor.upper() for anchor in re.findall(r'<a id="(\w+)"', (DOCS / page).read_text(encoding="utf-8"))}
        for page in ("physics.md", "articles.md")
    }
    text = Path(str(importlib.import_module(name).__file__)).read_text(encoding="utf-8")
    cited = re.findall(r"^ *\.\. \[\d+\] (.+)$", text, flags=re.MULTILINE)
    assert cited
    for one in cited:
        page = re.match(r"docs/(\w+\.md) ([MAB]\d+(?:, [MAB]\d+)*)", one)
        if page:
            found = {f"{item[0]}{int(item[1:]):02}" if item[0] != "M" else item for item in page[2].split(", ")}
            assert found <= anchors[page[1]], one
        else:
            assert one.split("docs/references.md")[0] != one, f"{one} names no document"
            named = re.findall(r"\b[a-z]+\d{4}\b", one)
            assert set(named) <= keys, one
            assert named or re.match(r"\w+", one)[0] in keys, one


EXAMPLE = """Return x.

Parameters
----------
a, b : float
    Two lengths
    of a [m].

Returns
-------
float
    x [m].
"""


def test_the_parser_sees_what_is_missing():
    found = sections(EXAMPLE)
    assert entries(found["Parameters"]) == [("a, b : float", "Two lengths of a [m].")]
    assert entries(found["Returns"]) == [("float", "x [m].")]
    assert raises("core.physics.consensus", "quorum", through_public=True)
    assert not raises("core.physics.consensus", "quorum", through_public=False)
    assert raises("core.physics.thermal", "respond", through_public=False)
    assert not raises("core.physics.thermal", "modes", through_public=True)
