"""Which runtime of the catalogue a name means, however its authors write it.

A runtime stands in the catalogue under a stem and the unit that it runs on, "llamacpp_cpu" and "llamacpp_gpu". Case,
marks and versions tell nothing: "LLAMA.CPP (CUDA)", "llama-cpp" and "llama_cpp b4321" are one. A word within another
word is not that word: exllamav2 is no llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

OTHER = "other"
"""Stem of the runtimes that the catalogue does not know, and how the keys of those that a table describes begin."""

_STEMS = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z])"), stem)
    for words, stem in (
        (r"rk ?llm|rknn ?llm|rkllama", "rkllm"),
        (r"qnn|genie|qairt", "qnn"),
        (r"mlc|nano ?llm", "mlc"),
        (r"tinychat", "tinychat"),
        (r"vllm", "vllm"),
        (r"tensorrt|trt ?llm", "tensorrt"),
        (r"mlx", "mlx"),
        (r"executorch", "executorch"),
        (r"t ?mac", "tmac"),
        (r"llama ?(?:cpp|file|bench|cli|server|swap|edge)|^llama$", "llamacpp"),
        (r"ollama|lm ?studio|smallthinker|cactus|powerinfer|koboldcpp", "llamacpp"),  # built on it
        (r"pocketpal|gpt ?4 ?all|jan ?ai|msty", "llamacpp"),
    )
)
"""How a runtime and the programs built on it are called -> stem of its keys; the first that fits counts."""

_VERSION = re.compile(r"[vbr]?\d.*")


def runtime_stems(name: str) -> list[str]:
    """Return the stems of the catalogue's keys that a name may mean, the likeliest first; [] where it means none."""
    text = " ".join(re.findall(r"[a-z0-9]+", name.lower()))
    return [stem for pattern, stem in _STEMS if pattern.search(text)]


def runtime_key(name: str, unit: str, known: Collection[str]) -> str:
    """Return the key of the runtime that a name means on a unit ("cpu", "gpu" or "npu"); "" where none is known."""
    return next(iter(runtime_keys(name, (unit,), known)), "")


def runtime_keys(name: str, units: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the keys that a name may mean on some units, those of the first unit first."""
    if name in known:
        return [name]
    stems = runtime_stems(name)
    return [key for unit in units for stem in stems if (key := f"{stem}_{unit}") in known]


def described_key(name: str, unit: str) -> str:
    """Return a key for a runtime that the catalogue does not know; versions of it share one."""
    words = [word for word in re.findall(r"[a-z0-9]+", name.lower()) if not _VERSION.fullmatch(word)]
    return f"{OTHER}-{'-'.join(words) or 'unnamed'}_{unit}"
