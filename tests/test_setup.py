"""The set-up script says in one sentence what is missing and how to get it, and does nothing when all is there."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT

SCRIPT = ROOT / "packaging" / "system-libraries.sh"


def stub(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def bare(tmp_path):
    """A PATH with the tools the script needs and nothing else, on a machine without any Qt library."""
    for tool in ("bash", "env", "head", "cat"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    stub(tmp_path, "ldconfig", "echo '0 libs found in cache'")
    stub(tmp_path, "fc-list", "echo 'DejaVu Sans'")
    stub(tmp_path, "python3", "exit 0")
    stub(tmp_path, "id", "echo 1000")
    return tmp_path


def run(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PATH": str(path)}
    return subprocess.run([str(SCRIPT), *words], env=env, capture_output=True, text=True, timeout=120, check=False)


def test_without_permission_it_prints_the_one_command(bare):
    stub(bare, "apt-get", "echo must not run >&2; exit 9")
    stub(bare, "sudo", "exit 1")
    done = run(bare)
    assert done.returncode == 1
    command = done.stderr.splitlines()[1]
    assert command.strip().startswith("sudo apt-get update && sudo apt-get install --yes ")
    assert "libegl1" in command
    assert "libxcb-cursor0" in command
    assert "must not run" not in done.stderr


def test_without_apt_it_names_the_libraries(bare):
    done = run(bare, "offscreen")
    assert done.returncode == 1
    assert "libegl1" in done.stderr
    assert "libxcb-cursor0" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_with_permission_it_installs_what_is_missing_under_the_name_that_exists(bare):
    stub(bare, "id", "echo 0")
    stub(bare, "apt-get", 'echo "$@" >> ' + str(bare / "log"))
    stub(bare, "apt-cache", '[ "$2" != libglib2.0-0 ]')  # as on Ubuntu 24.04
    done = run(bare, "offscreen")
    assert done.returncode == 0, done.stderr
    installed = (bare / "log").read_text().splitlines()[-1].split()
    assert "libglib2.0-0t64" in installed
    assert "libegl1" in installed


def test_tests_need_a_compiler_and_ssh(bare):
    done = run(bare, "tests")
    plain = run(bare, "offscreen")
    for package in ("g++", "openssh-client", "openssl"):
        assert package in done.stderr
        assert package not in plain.stderr


def test_a_python_without_venv_gets_the_package_of_its_own_version(bare):
    stub(bare, "python3.12", 'case "$2" in *ensurepip*) exit 1 ;; *) echo 3.12 ;; esac')
    env = os.environ | {"PATH": str(bare), "PYTHON": "python3.12"}
    done = subprocess.run([str(SCRIPT)], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert " python3.12-venv." in done.stderr


def test_nothing_missing_does_nothing():
    done = subprocess.run([str(SCRIPT), "offscreen"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
