"""What Windows and macOS lack is missing here too: everything is imported, and what cannot be ends in a sentence.

A process of its own takes away what those systems do not have, after the standard library has been imported.
"""

import subprocess
import sys

import pytest

from app import LAUNCHER

WINDOWS = """
import asyncio, concurrent.futures, ctypes, logging, multiprocessing, os, platform, select, shutil, signal, socket, ssl
import subprocess, sys, tempfile, threading, uuid, zipfile
import numpy, platformdirs, msgspec
for module, names in (
    (os, "pread setsid O_CLOEXEC sched_getaffinity setpriority getloadavg sysconf fork "
         "memfd_create nice waitid"),
    (socket, "AF_UNIX socketpair MSG_DONTWAIT SO_REUSEPORT"),
    (signal, "SIGKILL SIGSTOP SIGCONT SIGHUP SIGUSR1 SIGALRM"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "pty", "termios", "tty", "pwd", "grp", "syslog"):
    sys.modules[name] = None
"""
"""What is used behind a look at os.name only stays: the name itself decides what paths are."""

MACOS = """
import os, sys
for name in "sched_getaffinity setpriority memfd_create posix_fadvise pidfd_open".split():
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "darwin"
"""

PROGRAM = """
sys.path.insert(0, "@root")
import importlib, pkgutil
from pathlib import Path
import app
folder = Path(sys.argv[1])
os.environ["TRILEMMA_DATA_DIR"] = str(folder / "data")
"""

IMPORTS = """
skipped = {"app.agent.worker", "app.cli.shared.otlp", "app.agent.bootstrap"}
for found in pkgutil.walk_packages(app.__path__, "app."):
    if found.name.startswith(("app.agent", "app.client", "app.model", "app.cli", "app.simulator")):
        if found.name not in skipped and "__main__" not in found.name:
            importlib.import_module(found.name)
"""

CLIENT = """
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.recorder import Recorder
from app.client.recording import Recording
from app.client.target import open_target
from app.client.askpass import can_ask
from app.library.measurements import Measurement, append_measurement, load_measurements
from app.secure import read_private, write_private
from core.spec import OperatingPoint

file = folder / "m.jsonl"
for i in range(3):
    append_measurement(file, Measurement(OperatingPoint(), {}, "2026-01-01T00:00:00+00:00", "m"))
assert len(load_measurements(file, "m")[0]) == 3
made = Recorder(folder / "x.trilemma")
made.note({"op": "log", "level": "info", "text": "a line\\n"})
made.close()
with Recording(folder / "x.trilemma") as recording:
    assert not recording.scan.n_damaged and recording.bytes_of(0, 1)
write_private(folder / "secret", "x")
assert read_private(folder / "secret") == "x"
for text, words in (("unix:" + str(folder / "s"), "has no Unix sockets"), ("locked", "cannot ask in a window")):
    try:
        with AttachedBoard(open_target(text, ssh_config=Path(sys.argv[2]), ask=lambda prompt, secret: "x")):
            raise AssertionError("attached")
    except LinkError as error:
        assert words in str(error) and "\\n" not in str(error), error
"""

AGENT = """
from app.agent import board
from app.agent.sensors import discover
from app.agent.state import BoardState
empty = folder / "root"
empty.mkdir()
sensors, absent = discover(empty)
assert any(channel.key == "board.power_w" and channel.absent for channel in absent), absent
assert board.describe(empty)["n_threads"] > 0
assert BoardState(empty).read() is not None
"""


def run(tmp_path, *parts, words=()):
    argv = [sys.executable, "-c", "".join(parts).replace("@root", str(LAUNCHER.parent)), str(tmp_path), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize("part", [IMPORTS, CLIENT], ids=["imports", "client"])
def test_the_client_runs_on_a_system_like_windows(tmp_path, ssh_server, part):
    done = run(tmp_path, WINDOWS, PROGRAM, part, words=[str(ssh_server.config)])
    assert not done.stderr, done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("system", [WINDOWS, MACOS], ids=["windows", "macos"])
def test_the_agent_looks_around_on_a_system_without_proc(tmp_path, system):
    done = run(tmp_path, system, PROGRAM, AGENT)
    assert not done.stderr, done.stderr
    assert done.returncode == 0
