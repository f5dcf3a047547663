"""The command line's own behaviour: what it says when its output or its user goes away."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import trilemma
from app import LAUNCHER
from app.cli import COMMANDS, _module, _parsed
from app.cli.output import print_json

FULL = Path("/dev/full")


def command(*words, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [sys.executable, str(LAUNCHER), *words],
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("command_name", ["predict", "boards"])
def test_output_to_a_full_disk_is_one_sentence(command_name):
    with FULL.open("wb") as full:
        done = command(command_name, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode() == f"trilemma {command_name}: no space left on device for the output\n"


def test_a_terminal_without_our_characters_is_still_told_the_numbers():
    done = command("predict", "--context", "2048", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"2?048 tokens of context" in done.stdout


def test_json_keeps_all_characters_in_any_encoding(monkeypatch):
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, encoding="ascii"))
    print_json({"board": "Gerät 派"})
    sys.stdout.flush()
    assert held.getvalue().isascii()
    assert json.loads(held.getvalue()) == {"board": "Gerät 派"}


def test_control_c_before_the_command_began_is_no_traceback(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.main", interrupted)
    assert trilemma.main() == 130
    assert capsys.readouterr().err == "trilemma: stopped\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_in_the_help_of_a_command_can_be_typed(name):
    lines = re.findall(r"^  trilemma (.*?)(?: {3,}.*| > .*)?$", _module(name).EXAMPLES, re.M)
    assert any(line.split()[0] == name for line in lines)
    for line in lines:
        words = shlex.split(line)
        assert _parsed(words[0], words).command == words[0]
