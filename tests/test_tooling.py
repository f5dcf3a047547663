"""Style, types and the Python floor of the agent are checked with the tests, so that they cannot rot."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT


@pytest.mark.parametrize(
    "tool", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=["style", "format", "types"]
)
def test_tool_finds_nothing(tool):
    done = subprocess.run([sys.executable, "-m", *tool], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_dependency_is_pinned():
    """`make run` and `make test` install only what packaging/constraints.txt names."""
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "packaging" / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    wanted = re.findall(r'^\s*"([A-Za-z0-9_.-]+)[><=]', (ROOT / "pyproject.toml").read_text(), flags=re.M)
    assert {name.lower().replace("_", "-") for name in wanted} <= pinned


def test_repository_names_no_machine():
    """No path of a workplace, no registry host: the repository speaks of Trilemma only."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    here = Path(__file__).name
    for name in tracked:
        path = ROOT / name
        if not name or path.suffix in {".png", ".csv", ".gguf"} or path.name == here or not path.is_file():
            continue
        assert not re.search(rb"/work/|/root/|extra-index|index-url|/simple/", path.read_bytes()), name
