"""Build the C library once a machine: with the compiler found, into the user's cache folder. Standard library only.

``TRILEMMA_NATIVE=0`` switches the library off, ``TRILEMMA_NATIVE_MARCH`` compiles it for another instruction set than
this processor's (as GCC's ``-march=``), ``CC`` names the compiler, with options if need be.

A library's name ends in a digest of its bytes: one that a full disk or a power cut has cut short is built again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu99", "-O3", "-fopenmp", "-ffp-contract=fast", "-fno-math-errno", "-fPIC", "-Wno-psabi")
_PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Build:
    """A library ready to be loaded, or why there is none.

    Parameters
    ----------
    path : Path, optional
        The library.
    compiler : str
        What compiled it, with its version; "" when there is none.
    absent : str
        Why there is no library; "" when there is one.
    """

    path: Path | None
    compiler: str = ""
    absent: str = ""


@functools.cache
def build() -> Build:
    """Return the library of this machine, compiling it when the cache has none (some seconds)."""
    if os.environ.get("TRILEMMA_NATIVE") == "0":
        return Build(None, absent="switched off by TRILEMMA_NATIVE=0")
    compiler = _compiler()
    if not compiler:
        named = os.environ.get("CC")
        why = f"CC is {named!r}, which is not" if named else f"none of {', '.join(COMPILERS)} is"
        return Build(None, absent=f"no C compiler: {why} installed")
    try:
        version = _run([*compiler, "--version"]).splitlines()[0]
        stem = _stem(compiler, version)
        path = _whole(stem) or _compile(compiler, stem)
    except (OSError, RuntimeError, IndexError, subprocess.TimeoutExpired) as error:
        return Build(None, absent=f"{' '.join(compiler)} cannot build it: {_first_line(error)}")
    return Build(path, version)


def cpu_model() -> str:
    """Return the processor's name as the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cache_folder() -> Path:
    """Return the folder for what can be made again, as the system has it."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trilemma"


def _compiler() -> list[str]:
    """Return the compiler's path and options; nothing where there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    found = next((path for name in (named[:1] or COMPILERS) if (path := shutil.which(name))), None)
    return [found, *named[1:]] if found else []


def _marches() -> list[list[str]]:
    """Return the options that choose the instruction set, to be tried in turn: not every compiler knows "native"."""
    named = os.environ.get("TRILEMMA_NATIVE_MARCH")
    return [[f"-march={named}"]] if named else [["-march=native"], []]


def _stem(compiler: Sequence[str], version: str) -> Path:
    """Return the path of a library built of these parts, without the digest of its content."""
    options = [*compiler, version, *_marches()[0], *FLAGS]
    parts = [cpu_model(), *options, str(_torch_openmp()), *_sources().values()]
    return cache_folder() / f"native-{_digest(chr(0).join(parts).encode())}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:20]


def _whole(stem: Path) -> Path | None:
    """Return the library that was built there and is as it was built; damaged ones are removed."""
    for path in sorted(stem.parent.glob(f"{stem.name}-*.so")):
        with contextlib.suppress(FileNotFoundError):  # another process may have removed it meanwhile
            if path.stem == f"{stem.name}-{_digest(path.read_bytes())}":
                return path
            path.unlink()
    return None


def _sources() -> dict[str, str]:
    files = [file for file in resources.files(__package__).iterdir() if file.name.endswith((".c", ".h"))]
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(files, key=lambda file: file.name)}


def _torch_openmp() -> Path | None:
    """Find the OpenMP library that torch brings along.

    Two libraries would mean two pools of threads, of which one spins while the other computes.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    places = (folder / "lib", folder.parent / "torch.libs")
    return next((file for place in places for file in sorted(place.glob("libgomp*.so*"))), None)


def _compile(compiler: Sequence[str], stem: Path) -> Path:
    """Compile in a temporary folder next to the target, then rename: several processes may do so at once."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=stem.parent) as folder:
        for name, text in _sources().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        units = sorted(Path(folder).glob("*.c"))
        objects = [source.with_suffix(".o") for source in units]
        commands = [[*compiler, *FLAGS, "-c", str(u), "-o", str(o)] for u, o in zip(units, objects, strict=True)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda words: _run_first(words, _marches()), commands))
        target = Path(folder) / "native.so"
        _run_first([*compiler, "-shared", *map(str, objects), "-lm", "-o", str(target)], _openmp_choices())
        return target.replace(stem.with_name(f"{stem.name}-{_digest(target.read_bytes())}.so"))


def _openmp_choices() -> list[list[str]]:
    bundled = _torch_openmp()
    return [*([] if bundled is None else [[str(bundled), "-lpthread"]]), ["-fopenmp"]]


def _run_first(words: Sequence[str], choices: Sequence[Sequence[str]]) -> None:
    """Run the command with the first set of further options that works; report the first failure."""
    failures = list[RuntimeError]()
    for further in choices:
        try:
            _run([*words, *further])
            return
        except RuntimeError as error:
            failures.append(error)
    raise failures[0]


def _run(words: Sequence[str]) -> str:
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(_first_line(done.stderr.strip() or f"status {done.returncode}"))
    return done.stdout


def _first_line(what: object) -> str:
    return (str(what).splitlines() or [type(what).__name__])[0]
