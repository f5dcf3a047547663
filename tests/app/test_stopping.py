"""Signals end the program with their status, at any stage: while it is imported, in Qt's loops, in a finalizer."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from app import LAUNCHER, stopping
from tests.processes import running

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

PREPARED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
number = int(sys.argv[2])
from app import gui, stopping
from app.cli import main
def send(*_):
    os.kill(os.getpid(), number)
"""

WHILE_IMPORTED = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            send()
import trilemma
sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["predict"]
sys.exit(trilemma.main())
"""

BEFORE_THE_WINDOW = """
from PySide6.QtWidgets import QMainWindow
QMainWindow.resizeEvent = send  # called by Qt, where an exception of Python has no way out
sys.exit(main(["gui"]))
"""

BEFORE_THE_LOOP = """
gui._when_painted = lambda widget, then: send()  # the last that comes before Qt's loop
sys.exit(main(["gui"]))
"""

IN_A_DIALOG = """
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QDialog
def ask():
    QTimer.singleShot(0, send)
    QDialog().exec()
gui._when_painted = lambda widget, then: QTimer.singleShot(0, ask)
sys.exit(main(["gui"]))
"""

IN_A_SCREENSHOT = """
from PySide6.QtCore import QTimer
gui.Dashboard.attach = lambda self: QTimer.singleShot(0, send)
sys.exit(main(["gui", "--screenshot", sys.argv[3], "--json"]))
"""

WHILE_CLOSING = """
from PySide6.QtCore import QTimer
gui._when_painted = lambda widget, then: QTimer.singleShot(0, send)
gui.Dashboard.close = send
sys.exit(main(["gui"]))
"""


def ended(program, number, tmp_path):
    """Return the exit status of a program that sends itself a signal; it must print one line at most."""
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    argv = [sys.executable, "-c", PREPARED + program, str(LAUNCHER.parent), str(int(number)), str(tmp_path / "x.png")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr in ("", "trilemma: stopped\n")
    assert done.stdout == ""
    return done.returncode


@pytest.mark.parametrize("program", [WHILE_IMPORTED, BEFORE_THE_WINDOW, IN_A_SCREENSHOT, WHILE_CLOSING])
def test_ctrl_c_ends_the_program_at_any_stage(program, tmp_path):
    assert ended(program, signal.SIGINT, tmp_path) == 130
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(("program", "number"), [(BEFORE_THE_LOOP, signal.SIGTERM), (IN_A_DIALOG, signal.SIGHUP)])
def test_a_signal_ends_the_loops_of_the_dashboard_and_keeps_its_settings(program, number, tmp_path):
    assert ended(program, number, tmp_path) == 128 + number
    assert (tmp_path / "settings.json").exists()  # as when the window is closed by hand


@pytest.fixture
def as_before():
    """Bring the handlers of the tests back."""
    before = {number: signal.getsignal(number) for number in stopping.SIGNALS}
    yield before
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_command_is_interrupted_once_and_ended_by_the_second_signal():
    handlers = set()

    def interrupted():
        with stopping.raised():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                handlers.update(map(signal.getsignal, stopping.SIGNALS))

    with pytest.raises(stopping.Stopped) as stopped:
        interrupted()
    assert handlers == {stopping.end_at_once}
    assert stopped.value.status == 143


def test_the_handlers_of_before_come_back(as_before):
    with contextlib.suppress(stopping.Stopped), stopping.raised():
        os.kill(os.getpid(), signal.SIGINT)
    assert {number: signal.getsignal(number) for number in stopping.SIGNALS} == as_before


def test_what_was_ignored_stays_ignored(as_before):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stopping.raised():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_signal_in_a_finalizer_is_not_lost():
    program = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from app import stopping
class Ended:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
with stopping.raised():
    Ended()
    print("lost")
"""
    argv = [sys.executable, "-c", program, str(LAUNCHER.parent)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "trilemma: stopped\n")


def test_a_stopped_and_continued_command_goes_on(tmp_path):
    argv = [sys.executable, str(LAUNCHER), "predict", "--json"]
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(tmp_path)}
    with running(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        command.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(command.pid, os.WUNTRACED)[1])
        command.send_signal(signal.SIGCONT)
        out, err = command.communicate(timeout=60)
    assert (command.returncode, err) == (0, b"")
    assert out
