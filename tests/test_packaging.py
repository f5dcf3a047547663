"""The wheel puts our folders into one private place and runs from anywhere."""

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

from app.client.agent_file import EMBEDDED, build_agent
from tests.places import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a copy of the tracked files, built without a network."""
    out = tmp_path_factory.mktemp("wheel")
    code = f"import sys; sys.path.insert(0, 'packaging'); import backend; print(backend.build_wheel({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert not EMBEDDED.exists()  # only while the wheel is built
    assert done.returncode == 0, done.stderr
    return out / done.stdout.split()[-1]


def test_wheel_holds_one_private_folder(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"trilemma.py", "trilemma_lib", "trilemma-0.1.0.dist-info"}


def test_wheel_holds_every_tracked_file_of_the_rooms(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", "app", "core", "kernels", "resources"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    there = [name for name in tracked if name and (ROOT / name).exists()]
    assert set(there) <= {n.removeprefix("trilemma_lib/") for n in zipfile.ZipFile(wheel).namelist()}


def test_wheel_runs_from_another_folder(wheel, tmp_path):
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    env = os.environ | {"PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-m", "trilemma", "boards", "--json"],
        cwd=elsewhere, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "this" in {board["key"] for board in json.loads(done.stdout)}


def test_wheel_holds_the_agent_that_a_checkout_builds(wheel):
    with zipfile.ZipFile(wheel) as archive:
        embedded = archive.read("trilemma_lib/resources/trilemma-agent.pyz")
    inside = zipfile.ZipFile(io.BytesIO(embedded))
    built = zipfile.ZipFile(io.BytesIO(build_agent()))
    assert inside.namelist() == built.namelist()
    assert "app/agent/main.py" in inside.namelist()


def test_an_installed_program_sends_the_agent_of_its_wheel(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    embedded = tmp_path / "trilemma_lib" / "resources" / "trilemma-agent.pyz"
    argv = [sys.executable, "-m", "trilemma", "agent", "--save", str(tmp_path / "saved.pyz"), "--json"]
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert (tmp_path / "saved.pyz").read_bytes() == embedded.read_bytes()
    assert json.loads(done.stdout)["sha256"] == hashlib.sha256(embedded.read_bytes()).hexdigest()
