"""The import rules of pyproject.toml hold, and each of them is proven to catch a seeded violation."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("app", "core", "kernels", "resources")

SEEDS = {
    "app over core and kernels over resources": ("core/units.py", "import app.protocol"),
    "inside app": ("app/client/events.py", "import app.agent.main"),
    "inside core": ("core/traffic.py", "import core.latency"),
    "Qt only in app.model, app.views, app.gui, app.qt_platform": ("app/client/events.py", "import PySide6"),
    "torch only in kernels and the agent's worker": ("app/model/store.py", "import torch"),
    "the agent needs the standard library and kernels only": ("app/agent/sensors/sysfs.py", "import core.units"),
    "views talk to the model only": ("app/views/theme.py", "import core.scenario"),
}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as c; c()"
    words = [sys.executable, "-c", command, "--no-cache"]
    return subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=120, check=False)


def copied(tmp_path: Path) -> Path:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=lambda _d, names: [n for n in names if n == "__pycache__"])
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def broken(output: str) -> set[str]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return {line.rsplit(" ", 1)[0].strip() for line in plain.splitlines() if line.rstrip().endswith("BROKEN")}


def test_contracts_hold():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("contract", SEEDS)
def test_contract_catches_a_violation(contract, tmp_path):
    root = copied(tmp_path)
    name, line = SEEDS[contract]
    seeded = root / name
    seeded.write_text(seeded.read_text() + f"\n{line}\n")
    done = lint(root)
    assert done.returncode == 1, done.stdout
    assert contract in broken(done.stdout), done.stdout


@pytest.mark.parametrize("name", ["app/stray.py", "core/stray.py"])
def test_file_outside_every_layer_is_caught(name, tmp_path):
    root = copied(tmp_path)
    (root / name).write_text('"""A file that nobody placed."""\n')
    done = lint(root)
    assert done.returncode == 1
    assert "stray" in done.stdout


def test_every_contract_has_a_seed():
    names = re.findall(r'^name = "(.+)"$', (ROOT / "pyproject.toml").read_text(), flags=re.M)
    assert set(names) - {"trilemma"} == set(SEEDS)


def test_folders_that_must_not_be_packages():
    assert not (ROOT / "packaging" / "__init__.py").exists()
    assert not (ROOT / "tests" / "__init__.py").exists()


def test_nothing_opens_a_second_entry():
    """Child processes start through the launcher; `python -m app` would find another distribution's modules first."""
    for path in [*ROOT.glob("app/**/*.py"), *ROOT.glob("core/**/*.py"), *ROOT.glob("kernels/**/*.py")]:
        assert not re.search(r'"-m",\s*"(app|core|kernels)\b', path.read_text()), path
