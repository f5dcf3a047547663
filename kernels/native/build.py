"""Build the C library once a machine: with the compiler found, into the user's cache folder. Standard library only.

``TRILEMMA_NATIVE=0`` switches the library off, ``TRILEMMA_NATIVE_MARCH`` compiles it for another instruction set than
this processor's (as GCC's ``-march=``), ``CC`` names the compiler.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
    if compiler is None:
        return Build(None, absent="no C compiler: none of " + ", ".join(COMPILERS) + " is installed")
    try:
        version = _run([compiler, "--version"]).splitlines()[0]
        path = _path(compiler, version)
        if not path.is_file():
            _compile(compiler, path)
    except (OSError, RuntimeError, IndexError, subprocess.TimeoutExpired) as error:
        return Build(None, absent=f"{compiler} cannot build it: {_first_line(error)}")
    return Build(path, version)


def cpu_model() -> str:
    """Return the processor's name as the system tells it."""
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


def _compiler() -> str | None:
    named = os.environ.get("CC")
    return next((path for name in ([named] if named else COMPILERS) if (path := shutil.which(name))), None)


def _march() -> str:
    return "-march=" + os.environ.get("TRILEMMA_NATIVE_MARCH", "native")


def _path(compiler: str, version: str) -> Path:
    """Return where the library belongs that is made of just these parts."""
    parts = [cpu_model(), compiler, version, _march(), *FLAGS, str(_torch_openmp()), *_sources().values()]
    return cache_folder() / f"native-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}.so"


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


def _compile(compiler: str, path: Path) -> None:
    """Compile to a temporary folder beside the target, then rename: several processes may do so at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for name, text in _sources().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        units = sorted(Path(folder).glob("*.c"))
        objects = [source.with_suffix(".o") for source in units]
        for unit, compiled in zip(units, objects, strict=True):
            _run([compiler, *FLAGS, _march(), "-c", str(unit), "-o", str(compiled)])
        target = Path(folder) / path.name
        _link(compiler, objects, target)
        target.replace(path)


def _link(compiler: str, objects: Sequence[Path], target: Path) -> None:
    words = [compiler, "-shared", *map(str, objects), "-lm", "-o", str(target)]
    failure: RuntimeError | None = None
    for openmp in _openmp_choices():
        try:
            _run([*words, *openmp])
            return
        except RuntimeError as error:
            failure = failure or error
    raise failure or RuntimeError("nothing to link with")


def _openmp_choices() -> Iterator[list[str]]:
    bundled = _torch_openmp()
    if bundled is not None:
        yield [str(bundled), "-lpthread"]
    yield ["-fopenmp"]


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
