"""SIGTERM and Ctrl-C, heard whenever they come. What they do to a server is tested with the server."""

import os
import signal
import subprocess
import sys

import pytest

from app import LAUNCHER

AT_ONCE = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from app.agent.signals import when_told_to_end
real, told = signal.signal, threading.Event()
def install(number, handler):
    real(number, handler)
    os.kill(os.getpid(), number)  # as soon as it does not end the process any more
signal.signal = install
when_told_to_end(told.set)
sys.exit(0 if told.wait(60) else 1)
"""

BEFORE_THE_LOOP = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from app import gui
gui._when_painted = lambda widget, then: os.kill(os.getpid(), int(sys.argv[2]))  # the last that comes before Qt's loop
sys.exit(gui.run(gui.Options()))
"""


def ended(program, tmp_path, *words):
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(tmp_path)}
    argv = [sys.executable, "-c", program, str(LAUNCHER.parent), *map(str, words)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.returncode


def test_a_signal_that_comes_while_it_is_prepared_is_heard(tmp_path):
    assert ended(AT_ONCE, tmp_path) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_before_the_loop_of_the_dashboard_ends_it(tmp_path, number):
    assert ended(BEFORE_THE_LOOP, tmp_path, int(number)) == 0
    assert (tmp_path / "settings.json").exists()  # kept, as when the window is closed by hand
