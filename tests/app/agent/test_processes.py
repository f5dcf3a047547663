"""Other programs that disturb a measurement."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from app.agent import load, processes
from app.agent.processes import Processes
from tests.processes import running
from tests.waiting import attempts, wait_until


def test_other_programs_are_found_and_ours_are_not():
    watched = Processes(Path("/"))
    watched.look()
    argv = [sys.executable, "-c", "while True: pass"]
    subprocess.run(["setsid", "--fork", *argv], stdin=subprocess.DEVNULL, check=True)
    try:
        wait_until(lambda: busy_python(argv))
        for _ in attempts(pause_s=0.2):
            watched.look()
            if watched.entry.get("value", {}).get("cores", 0.0) > 0.05:
                break
    finally:
        found = busy_python(argv)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
    assert found
    with running(argv) as own:
        family = load.family(os.getpid(), {own.pid: os.getpid(), 1: 0, 2: 1})
    assert family == {os.getpid(), own.pid}


def busy_python(argv):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[:-1] == [word.encode() for word in argv]:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_what_disturbs_is_warned_about_by_name():
    entry = processes._entry({"chrome": 1.2, "sshd": 0.01}, ["2.50"])
    assert entry["value"]["most"] == [{"name": "chrome", "cores": 1.2}, {"name": "sshd", "cores": 0.01}]
    assert entry["warning"] == "other programs take 1.2 cores (chrome 1.2): timings will be worse"
    assert "warning" not in processes._entry({"sshd": 0.01}, [])
