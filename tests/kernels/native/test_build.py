"""The C library is built once a machine, by whoever comes first, and its absence is a sentence, not an error."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.processes import running

SAY = "from kernels.native.build import build; b = build(); print(b.path); print(b.compiler); print(b.absent)"


def said(env, script=SAY):
    """Run a script in a process of its own with a cache folder of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def clean(folder):
    ours = ("TRILEMMA_NATIVE", "TRILEMMA_NATIVE_MARCH", "CC")
    return {**{k: v for k, v in os.environ.items() if k not in ours}, "XDG_CACHE_HOME": str(folder)}


@pytest.fixture
def env(tmp_path):
    """An environment in which nothing has been built."""
    return clean(tmp_path / "cache")


@pytest.fixture
def stub(tmp_path):
    """A compiler that writes the same words into whatever it is told to make, and takes its time."""
    path = tmp_path / "stub-cc"
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo stub 1.0; exit 0; }\nwhile [ $# -gt 0 ]; do case $1 in\n'
        '-o) printf "half a " > "$2"; sleep 0.3; echo library >> "$2"; shift;;\n# refuse\nesac; shift; done\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def built(env, stub):
    """An environment in which two processes have built the library at the same time, and what they said."""
    env = {**env, "CC": str(stub)}
    words = [sys.executable, "-c", SAY]
    with contextlib.ExitStack() as both:
        started = [running(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        processes = [both.enter_context(process) for process in started]
        said = [process.communicate(timeout=250)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return env, said


def test_switched_off_by_the_environment(env):
    assert said({**env, "TRILEMMA_NATIVE": "0"}) == ["None", "", "switched off by TRILEMMA_NATIVE=0"]


def test_no_compiler_is_said(env, tmp_path):
    path, _, absent = said({**env, "PATH": str(tmp_path)})
    assert path == "None"
    assert absent == "no C compiler: none of cc, gcc, clang is installed"


def test_a_compiler_that_fails_is_named_with_its_first_words(env, tmp_path):
    broken = tmp_path / "broken-cc"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo broken 1.0; exit 0; }\necho "no luck today" >&2\nexit 1\n'
    )
    broken.chmod(0o755)
    path, _, absent = said({**env, "CC": str(broken)})
    assert path == "None"
    assert absent == f"{broken} cannot build it: no luck today"
    assert list((tmp_path / "cache" / "trilemma").iterdir()) == []  # nothing half-built is left


def test_a_folder_that_cannot_be_written_is_said(env, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    path, _, absent = said(env)
    assert path == "None"
    assert "Not a directory" in absent or "exists" in absent


def test_processes_that_build_at_the_same_time_get_one_whole_library(built):
    env, told = built
    (path,) = {Path(lines[0]) for lines in told}
    assert list(path.parent.iterdir()) == [path]
    assert path.read_text() == "half a library\n"
    assert path.parent == Path(env["XDG_CACHE_HOME"]) / "trilemma"


def test_a_library_that_is_there_is_not_built_again(built):
    env, ((path, *_), *_) = built
    built_at = Path(path).stat().st_mtime_ns
    assert said(env)[0] == path
    assert Path(path).stat().st_mtime_ns == built_at


def test_another_instruction_set_is_another_library(env):
    script = "from kernels.native import build; print(build._stem(build._compiler(), '1.0'))"
    assert said(env, script) == said(env, script)
    assert said({**env, "TRILEMMA_NATIVE_MARCH": "x86-64-v2"}, script) != said(env, script)


@pytest.mark.parametrize("damage", [lambda whole: whole[:7], lambda whole: b"", lambda whole: whole + b"\0"])
def test_a_damaged_library_is_built_again(env, stub, damage):
    (path, *_) = said({**env, "CC": str(stub)})
    whole = Path(path).read_bytes()
    Path(path).write_bytes(damage(whole))
    assert said({**env, "CC": str(stub)})[0] == path
    assert Path(path).read_bytes() == whole
    assert list(Path(path).parent.iterdir()) == [Path(path)]


def test_a_compiler_with_options_is_taken_and_one_that_is_not_there_named(env):
    script = "from kernels.native import build; print(build._compiler()[1:])"
    assert said({**env, "CC": "cc -m64"}, script) == ["['-m64']"]
    assert said({**env, "CC": "tcc --fast"})[2] == "no C compiler: CC is 'tcc --fast', which is not installed"


def test_a_compiler_that_does_not_know_native_builds_for_all_of_its_kind(env, stub):
    stub.write_text(stub.read_text().replace("# refuse", "-march=native) echo 'bad -march' >&2; exit 1;;"))
    assert said({**env, "CC": str(stub)})[1:] == ["stub 1.0", ""]
    stub.write_text(stub.read_text().replace("-march=native)", "-march=mine)"))
    assert said({**env, "CC": str(stub), "TRILEMMA_NATIVE_MARCH": "mine"})[2] == f"{stub} cannot build it: bad -march"


def test_torch_and_the_library_share_one_pool_of_threads():
    script = (
        "import torch; from kernels.native import library; assert library.available(), library.status().absent;"
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libgomp' in line}))"
    )
    assert said(dict(os.environ), script) == ["1"]
