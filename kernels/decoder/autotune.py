"""The fastest variant of a kernel on this machine: verified, timed in alternation once, remembered in the user's cache.

``TRILEMMA_AUTOTUNE=0`` takes the first variant offered instead. What is remembered belongs to a processor, a torch, a
build of the C library and a number of threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from kernels.bench.harness import Case
from kernels.machine.timing import timed
from kernels.native import library
from kernels.native.build import cache_folder, cpu_model

N_REPEATS = 25


def choose(kernel: str, dtype: str, shape: Sequence[int], names: Sequence[str], cases: Iterable[Case]) -> str:
    """Return the name of the fastest variant.

    Parameters
    ----------
    kernel, dtype, shape
        What is computed; with the machine, the key under which the choice is remembered.
    names : sequence of str
        The variants, of which the first is taken when nothing is to be measured.
    cases : iterable of Case
        The variants as cases, only made when nothing is remembered. A trap is never chosen, nor a variant that fails
        its check.

    Raises
    ------
    ValueError
        When no variant computes what its reference does.
    """
    if os.environ.get("TRILEMMA_AUTOTUNE") == "0":
        return names[0]
    key = f"{kernel} {dtype} {'x'.join(map(str, shape))}"
    file = _file()
    chosen = _read(file).get(key, "")
    if chosen in names:
        return chosen
    fastest, undisturbed = _fastest([case for case in cases if not case.trap], key)
    if undisturbed:
        _remember(file, key, fastest)
    return fastest


def _fastest(cases: Sequence[Case], key: str) -> tuple[str, bool]:
    sound, failure = [], "there is no variant"
    for case in cases:
        try:
            case.check()
            sound.append(case)
        except ValueError as error:
            failure = f"{case.variant}: {error}"
    if not sound:
        raise ValueError(f"{key}: no variant computes what its reference does ({failure})")
    with torch.inference_mode():
        timings = timed([case.run for case in sound], lambda: 1.0, n_repeats=N_REPEATS)
    fastest = min(zip(timings, sound, strict=True), key=lambda pair: pair[0].duration_s)[1]
    return fastest.variant, not any(timing.disturbed for timing in timings)


def _file() -> Path:
    build = library.status().path
    parts = (cpu_model(), torch.__version__, build.name if build else "", str(torch.get_num_threads()))
    return cache_folder() / f"fastest-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}.json"


def _read(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(file: Path, key: str, name: str) -> None:
    """Add a choice; a cache that cannot be written costs the next start some time, no more."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as target:
            json.dump({**_read(file), key: name}, target)
        Path(target.name).replace(file)
