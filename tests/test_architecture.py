"""The import rules of pyproject.toml hold, and each of them is proven to catch a seeded violation."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import grimp
import networkx as nx
import pytest

from tests.places import ROOT

ROOMS = ("app", "core", "kernels", "resources")

SEEDS = {
    "app over core and kernels over resources": ("core/units.py", "import app.protocol"),
    "inside app": ("app/client/events.py", "import app.agent.main"),
    "inside core": ("core/spec/interval_scale.py", "import core.predict.scenario"),
    "subjects of physics do not import each other": ("core/physics/traffic.py", "import core.physics.latency"),
    "Qt only in app.model, app.views, app.gui, app.qt_platform": ("app/client/events.py", "import PySide6"),
    "torch only in kernels and the agent's worker": ("app/model/store.py", "import torch"),
    "the agent needs the standard library and kernels only": ("app/agent/sensors/sysfs.py", "import core.units"),
    "views talk to the model only": ("app/views/widgets/theme.py", "import core.catalogue.load"),
    "core knows no clock, process, thread or network": ("core/units.py", "import time"),
    "pandas only in core.tables, app.library and app.cli": ("core/predict/sweep.py", "import pandas"),
}


STRAYS = {"app/stray.py": "inside app", "core/stray.py": "inside core"}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as c; c()"
    words = [sys.executable, "-c", command, "--no-cache"]
    return subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=120, check=False)


def violations(root: Path, seeds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Seed a copy of the program with lines; return what the linter says of each contract that they break."""
    for file in [file for room in ROOMS for file in ROOT.glob(f"{room}/**/*.py")]:
        copy = root / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    shutil.copy(ROOT / "pyproject.toml", root)
    for name, line in seeds:
        with (root / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    done = lint(root)
    assert done.returncode == 1, done.stdout
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    parts = re.split(r"^(.+)\n-+$", plain.partition("Broken contracts")[2], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return violations(tmp_path_factory.mktemp("seeded"), SEEDS.values())


def test_contracts_hold():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("contract", SEEDS)
def test_contract_catches_a_violation(contract, broken):
    name, line = SEEDS[contract]
    importer, imported = name.removesuffix(".py").replace("/", "."), line.split()[1]
    assert re.search(rf"^- +{re.escape(importer)} -> {re.escape(imported)}", broken[contract], re.M), broken[contract]


def test_files_outside_every_layer_are_caught(tmp_path):
    broken = violations(tmp_path, [(name, '"""A file that nobody placed."""') for name in STRAYS])
    for name, contract in STRAYS.items():
        assert f"- {name.removesuffix('.py').replace('/', '.')}" in broken[contract]


def test_every_contract_has_a_seed():
    names = re.findall(r'^name = "(.+)"$', (ROOT / "pyproject.toml").read_text(), flags=re.M)
    assert set(names) - {"trilemma"} == set(SEEDS)


def test_rooms_say_in_a_few_lines_what_they_hold():
    for init in [path for room in ROOMS for path in ROOT.glob(f"{room}/**/__init__.py")]:
        assert len(ast.get_docstring(ast.parse(init.read_text("utf-8"))) or "") > 30, init


def test_no_folder_holds_more_than_a_reader_can_hold():
    for folder in {path.parent for room in (*ROOMS, "tests") for path in ROOT.glob(f"{room}/**/*.py")}:
        assert len([*folder.glob("*.py")]) <= 28, folder


CROSSING = {
    "core/test_docstrings.py",  # every formula
    "core/test_formula_tables.py",
    "core/physics/test_discharge_pybamm.py",  # an oracle that is not installed everywhere
    "core/catalogue/test_models_by_header.py",  # names and files
    "core/physics/test_request_energy.py",  # power and latency together
    "core/tables/test_elsewhere.py",  # a table
}
"""Tests of core that are of no single module."""


def test_tests_are_in_the_rooms_of_what_they_test():
    tests = ROOT / "tests"
    for folder in {path.parent.relative_to(tests) for room in ROOMS for path in tests.glob(f"{room}/**/test_*.py")}:
        assert (ROOT / folder / "__init__.py").is_file(), folder


def test_tests_of_core_have_the_names_of_its_modules():
    tests = ROOT / "tests"
    found = {path.relative_to(tests) for path in tests.glob("core/**/test_*.py")}
    strays = {str(p) for p in found if not (ROOT / p.with_name(p.name.removeprefix("test_"))).is_file()}
    assert strays == CROSSING


def test_tests_that_texts_name_are_there():
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml", *ROOT.glob("docs/**/*.md")]
    named = {name for text in texts for name in re.findall(r"\btests/[\w/]+\.py\b", text.read_text("utf-8"))}
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_files_of_tests_are_as_short_as_those_of_the_program():
    for path in ROOT.glob("tests/**/*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 400, path


def test_folders_that_must_not_be_packages():
    assert not (ROOT / "packaging" / "__init__.py").exists()
    assert not (ROOT / "tests" / "__init__.py").exists()


def test_nothing_opens_a_second_entry():
    """Child processes start through the launcher; `python -m app` would find another distribution's modules first."""
    for path in [*ROOT.glob("app/**/*.py"), *ROOT.glob("core/**/*.py"), *ROOT.glob("kernels/**/*.py")]:
        assert not re.search(r'"-m",\s*"(app|core|kernels)\b', path.read_text()), path


def test_no_modules_import_each_other_in_a_circle():
    graph = grimp.build_graph(*ROOMS)
    arrows = [(one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)]
    circles = nx.strongly_connected_components(nx.DiGraph(arrows))
    assert [sorted(circle) for circle in circles if len(circle) > 1] == []
