"""Signals to a server, heard whenever they come. What they do to it is tested with the server."""

import subprocess
import sys

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


def test_a_signal_that_comes_while_it_is_prepared_is_heard():
    argv = [sys.executable, "-c", AT_ONCE, str(LAUNCHER.parent)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
