"""Which runtime of the catalogue a name means, however its authors write it.

The file of a runtime has regular expressions of what it is called. Case, marks and versions tell nothing: "LLAMA.CPP
(CUDA)", "llama-cpp" and "llama_cpp b4321" are one. A word within another word is not that word: exllamav2 is no
llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from core.spec import Runtime

OTHER = "other"
"""How the keys of runtimes begin that the catalogue does not know, and of those that tables describe."""

_VERSION = re.compile(r"[vbr]?\d.*")


def runtime_key(name: str, unit: str, known: Mapping[str, Runtime]) -> str:
    """Return the key of the runtime that a name means on a unit ("cpu", "gpu" or "npu"); "" where none is known."""
    return next(iter(runtime_keys(name, (unit,), known)), "")


def runtime_keys(name: str, units: Sequence[str], known: Mapping[str, Runtime]) -> list[str]:
    """Return the keys that a name may mean on some units, those of the first unit first, then the likeliest."""
    if name in known:
        return [name]
    text = " ".join(re.findall(r"[a-z0-9]+", name.lower()))
    found = sorted((one for one in known.values() if _is_called(one, text)), key=lambda one: one.others_build_on_it)
    return [one.key for unit in units for one in found if one.unit == unit]


def _is_called(runtime: Runtime, text: str) -> bool:
    pattern = rf"(?<![a-z0-9])(?:{'|'.join(runtime.called)})(?![a-z])"
    return bool(runtime.called) and re.search(pattern, text) is not None


def described_key(name: str, unit: str) -> str:
    """Return a key for a runtime that the catalogue does not know; versions of it share one."""
    words = [word for word in re.findall(r"[a-z0-9]+", name.lower()) if not _VERSION.fullmatch(word)]
    return f"{OTHER}-{'-'.join(words) or 'unnamed'}_{unit}"
