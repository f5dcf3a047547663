"""Commands without a screen: none but the dashboard's own imports Qt's GUI, which needs libEGL."""

import json
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.cli import COMMANDS, GROUPS

WITHOUT_QT = """
import runpy, sys

class NoQt:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("PySide6.QtGui", "PySide6.QtWidgets", "pyqtgraph")):
            raise ImportError("libEGL.so.1: cannot open shared object file: No such file or directory")

sys.meta_path.insert(0, NoQt())
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
NAMES = [(name,) for name in (*COMMANDS, "bench")] + [(group, name) for group in GROUPS for name in GROUPS[group][1]]


def without_qt(*words):
    argv = [sys.executable, "-c", WITHOUT_QT, str(LAUNCHER), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_help_of_every_command(name):
    done = without_qt(*name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"usage: trilemma {' '.join(name)}" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "--board", "raspberry_pi_5", "--runtime", "llamacpp_cpu", "--model", "qwen2.5-0.5b"),
        ("measure", "--attach", "sim:raspberry_pi_5", "--runtime", "llamacpp_cpu", "--model", "qwen2.5-0.5b"),
        ("simulate", "--board", "raspberry_pi_5", "--runtime", "llamacpp_cpu", "--model", "qwen2.5-0.5b"),
        ("lab", "knee", "--table", "mlu370"),
    ],
    ids=lambda words: words[0],
)
def test_commands_that_a_board_without_a_screen_needs(words, tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    weights = () if words[0] == "lab" else ("--weights", "q4_k_m")
    done = without_qt(*words, *weights, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
