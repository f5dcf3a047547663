"""The agent's zipapp: the same bytes from the same sources, alive alone in a file, and in words where Python is old."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from app import LAUNCHER, VERSION
from app.agent.launch import SCRATCH, remove_left
from app.client.agent_file import BOOTSTRAP, ROOT, agent_bytes, agent_hash, build_agent
from app.protocol import CONTROL, Decoder, decode_control
from tests.processes import running

ISOLATED = (sys.executable, "-I", "-S")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "trilemma-agent.pyz"
    path.write_bytes(build_agent())
    return path


def first_messages(argv, count=2, **more):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False, **more)
    assert done.returncode == 0, done.stderr
    return [decode_control(frame.body) for frame in Decoder().feed(done.stdout) if frame.kind == CONTROL][:count]


def test_equal_sources_give_equal_bytes_wherever_and_whenever(tmp_path):
    for folder in ("app", "kernels"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in tmp_path.rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(0o600)
    assert build_agent(tmp_path) == build_agent()
    (tmp_path / "app" / "protocol.py").write_text("# another\n")
    assert build_agent(tmp_path) != build_agent()
    assert len(agent_hash()) == 64


def test_it_holds_the_agent_and_nothing_of_the_desktop(archive):
    names = zipfile.ZipFile(archive).namelist()
    assert {"__main__.py", "app/protocol.py", "app/agent/main.py", "kernels/workload.py"} <= set(names)
    assert not [name for name in names if name.startswith(("app/client", "app/model", "app/views", "app/cli", "core"))]
    assert zipfile.ZipFile(archive).read("__main__.py") == (ROOT / BOOTSTRAP).read_bytes()


def test_it_serves_from_a_file_with_the_standard_library_alone(archive):
    hello, catalogue = first_messages([*ISOLATED, str(archive)])
    assert hello["agent"] == VERSION
    assert catalogue["channels"]


def test_it_serves_from_memory_and_touches_no_file(tmp_path):
    code = (
        "import io, sys, zipfile; ARCHIVE = open(sys.argv.pop(1), 'rb').read();"
        "exec(zipfile.ZipFile(io.BytesIO(ARCHIVE)).read('__main__.py'))"
    )
    (tmp_path / "a.pyz").write_bytes(agent_bytes())
    (tmp_path / "home").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "home")}
    hello, _ = first_messages([*ISOLATED, "-c", code, str(tmp_path / "a.pyz")], env=env, cwd=tmp_path / "home")
    assert hello["agent"] == VERSION
    assert [*(tmp_path / "home").iterdir()] == []


IN_MEMORY = (
    "import io, secrets, sys, zipfile; secrets.token_hex = lambda n: '0' * 2 * n;"
    "ARCHIVE = open(sys.argv.pop(1), 'rb').read();"
    "exec(zipfile.ZipFile(io.BytesIO(ARCHIVE)).read('__main__.py'))"
)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_it_and_its_folder(archive, tmp_path, number):
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    argv = [*ISOLATED, "-c", IN_MEMORY, str(archive)]
    with running(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as agent:
        assert agent.stdout.read(1)
        folder = tmp_path / f"trilemma-{agent.pid}-{'0' * 16}"
        (folder / "trilemma").mkdir(parents=True)
        agent.send_signal(getattr(signal, number))
        assert agent.wait(60) == 0
    assert [*tmp_path.iterdir()] == []


def test_the_measuring_process_removes_the_folder_of_an_agent_that_was_killed(tmp_path):
    folder = tmp_path / "scratch"
    (folder / "trilemma").mkdir(parents=True)
    argv = [sys.executable, str(LAUNCHER), "agent", "--worker"]
    subprocess.run(argv, env={**os.environ, SCRATCH: str(folder)}, stdin=subprocess.DEVNULL, check=True, timeout=60)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_agent_removes_the_folders_that_killed_ones_left_and_no_other(tmp_path):
    with running([sys.executable, "-c", ""]) as ended:
        ended.wait(60)
    left = tmp_path / f"trilemma-{ended.pid}-{'a' * 16}"
    lives = tmp_path / f"trilemma-{os.getpid()}-{'a' * 16}"
    for folder in (left, lives, tmp_path / "trilemma-mine"):
        (folder / "inside").mkdir(parents=True)
    link = tmp_path / f"trilemma-{ended.pid}-{'b' * 16}"
    link.symlink_to(tmp_path / "trilemma-mine")
    remove_left(str(tmp_path))
    assert {*tmp_path.iterdir()} == {lives, tmp_path / "trilemma-mine", link}
    assert (tmp_path / "trilemma-mine" / "inside").is_dir()


def test_a_traceback_of_code_in_memory_names_its_file_and_line(tmp_path):
    code = (
        "import io, sys, zipfile; ARCHIVE = open(sys.argv.pop(1), 'rb').read(); __name__ = 'x';"
        "exec(zipfile.ZipFile(io.BytesIO(ARCHIVE)).read('__main__.py'));"
        "sys.meta_path.insert(0, MemoryImporter(ARCHIVE));"
        "from app.protocol import encode_frame; encode_frame(1, 0, b'x' * 99999)"
    )
    (tmp_path / "a.pyz").write_bytes(agent_bytes())
    done = subprocess.run([*ISOLATED, "-c", code, str(tmp_path / "a.pyz")], capture_output=True, text=True, check=False)
    assert re.search(r'File "trilemma-agent.pyz/app/protocol.py", line \d+, in encode_frame', done.stderr)


@pytest.mark.parametrize("version", [(3, 0, 1), (3, 6, 9), (3, 7, 17)])
def test_an_old_python_is_named_in_one_sentence(archive, version):
    code = (
        f"import sys, runpy; sys.version_info = {(*version, 'final', 0)}; runpy.run_path(sys.argv[1], None, '__main__')"
    )
    done = subprocess.run([*ISOLATED, "-c", code, str(archive)], capture_output=True, text=True, check=False)
    assert done.returncode == 79
    words = ".".join(map(str, version))
    assert done.stderr == f"trilemma: Python is {words} here: expected 3.8 or newer\n"


def test_every_python_that_a_board_has_can_parse_the_bootstrap():
    command = [sys.executable, "-c", "import vermin; vermin.main()", "--no-tips", "-t=3.4-", "--violations"]
    done = subprocess.run([*command, str(ROOT / BOOTSTRAP)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_command_saves_it(tmp_path):
    path = tmp_path / "agent.pyz"
    argv = [sys.executable, str(LAUNCHER), "agent", "--save", str(path), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"file": str(path), "sha256": agent_hash()}
    assert path.read_bytes() == agent_bytes()
    argv[-2] = str(tmp_path / "no" / "\0")
    done = subprocess.run([*argv[:-2], "/proc/none/x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_measuring_process_of_a_zipapp_is_the_zipapp(archive):
    code = "import sys; sys.path.insert(0, sys.argv[1]); from app.agent.launch import worker_argv; print(worker_argv())"
    done = subprocess.run([*ISOLATED, "-c", code, str(archive)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([sys.executable, str(archive), "worker"])


def test_what_pip_installed_comes_last_on_the_path(archive):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = [*sys.path]\n"
        "from app.agent.launch import see_site_packages; see_site_packages()\n"
        "assert sys.path[: len(before)] == before; print(sys.path[len(before) :])"
    )
    done = subprocess.run([*ISOLATED, "-c", code, str(archive)], capture_output=True, text=True, check=True)
    assert str(Path(sys.prefix)) in done.stdout
