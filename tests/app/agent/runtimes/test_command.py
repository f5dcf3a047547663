"""Commands and their children."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from app import LAUNCHER
from tests.app.agent.runtimes.stand import ask, drivers_of, entry, run_of, script
from tests.waiting import PATIENCE_S


def test_words_of_a_command_are_filled_in_and_stay_words():
    command = entry("rkllm", argv=("demo", "{model_file}", "-c", "{context}"), name="a b; rm -rf /")
    assert command.command({"context": 99}) == ["demo", "a b; rm -rf /", "-c", "99"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("/no/such/program",), "/no/such/program cannot start: No such file or directory"),
        (
            script("import os; os.kill(os.getpid(), 9)"),
            "was killed (signal 9), as the kernel does when memory runs out",
        ),
        (script("import sys; sys.exit('no NPU here')"), "ended with status 1: no NPU here"),
        (script("import sys; sys.exit('ASSERT(n > 0) failed\\nsee the wiki\\n')"), "status 1: ASSERT(n > 0) failed"),
        (script("print('half a li', end='')"), "printed no table of Prefill and Generate: it needs RKLLM"),
    ],
)
def test_a_command_that_fails_says_how(argv, words):
    drivers, answers, done = drivers_of(entry("rkllm", "", argv=argv))
    ask(drivers, done)
    assert answers[-1]["op"] == "failed"
    assert words in answers[-1]["reason"]


def test_a_command_that_hangs_is_cancelled_with_its_children():
    text = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)'])"
    drivers, answers, done = drivers_of(entry("rkllm", "", argv=script(text)))
    drivers.send({"op": "measure", "id": 7, "point": run_of().point, "what": ["decode"]})
    drivers.send({"op": "cancel", "id": 7})
    assert done.wait(PATIENCE_S)
    assert answers[-1] == {"op": "failed", "id": 7, "kind": "cancelled", "reason": "cancelled"}


@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), 9)", "command.kill()"])
def test_a_server_ends_with_the_agent_however_that_ends(ends):
    text = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from app.agent.runtimes.command import Command\n"
        "command = Command([sys.executable, '-c', 'import time; time.sleep(99)'], guarded=True)\n"
        f"print(command._process.pid, flush=True); {ends}"
    )
    folder = str(Path(LAUNCHER).parent)
    done = subprocess.run([sys.executable, "-c", text, folder], capture_output=True, text=True, timeout=PATIENCE_S)
    assert not done.stderr
    pid, deadline_s = int(done.stdout), time.monotonic() + PATIENCE_S
    while (state := _state_of(pid)) not in ("", "Z") and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert state in ("", "Z")


def _state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
