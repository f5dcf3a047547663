"""Instruction sets of this processor, and the environment that limits a worker process to one of them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """A level of vector instructions.

    Attributes
    ----------
    name : as torch reports it for its own kernels
    flags : required processor flags, as Linux names them
    environment : variables that limit torch, oneDNN, MKL and the C library of a process to the set
    """

    name: str
    flags: frozenset[str]
    environment: Mapping[str, str]


def _limits(aten: str, onednn: str, mkl: str, march: str) -> dict[str, str]:
    return {
        "ATEN_CPU_CAPABILITY": aten,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "TRILEMMA_NATIVE_MARCH": march,
    }


_X86 = (
    InstructionSet("DEFAULT", frozenset(), _limits("default", "SSE41", "SSE4_2", "x86-64-v2")),
    InstructionSet("AVX2", frozenset({"avx2", "fma"}), _limits("avx2", "AVX2", "AVX2", "x86-64-v3")),
    InstructionSet(
        "AVX512",
        frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
        _limits("avx512", "AVX512_CORE", "AVX512", "x86-64-v4"),
    ),
)
_ARM = (
    InstructionSet("DEFAULT", frozenset(), {"ATEN_CPU_CAPABILITY": "default", "TRILEMMA_NATIVE_MARCH": "armv8-a"}),
    InstructionSet(
        "SVE256", frozenset({"sve"}), {"ATEN_CPU_CAPABILITY": "sve256", "TRILEMMA_NATIVE_MARCH": "armv8.2-a+sve"}
    ),
)


def instruction_sets(machine: str | None = None, cpuinfo: str | None = None) -> list[InstructionSet]:
    """Return the instruction sets of a processor, least first.

    Parameters
    ----------
    machine : str, optional
        Value of `platform.machine`; by default that of this machine.
    cpuinfo : str, optional
        Text of ``/proc/cpuinfo``; by default that of this machine. With an empty text only the least set is returned.
    """
    machine = platform.machine() if machine is None else machine
    if cpuinfo is None:
        file = Path("/proc/cpuinfo")
        cpuinfo = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    flags = next((set(value.split()) for key, _, value in lines if key.strip() in ("flags", "Features")), set())
    known = _ARM if machine.lower() in ("aarch64", "arm64") else _X86
    return [each for each in known if each.flags <= flags]
