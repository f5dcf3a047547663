"""Load of the machine between two snapshots: processor time of other programs, and time in which tasks waited.

The busy time of all processors minus that of the agent and its children is the time of other programs, however short
they lived. Pressure-stall information, where the kernel has it, is the time in which at least one task waited for a
processor or for memory.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from app.agent.files import text

_CPU = re.compile(r"^cpu +(\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)(?: (\d+))?", re.M)
_SOME = re.compile(r"^some .*\btotal=(\d{1,18})", re.M)
_STAT = re.compile(r"^(\d+) \((.*)\) \S (\d+)(?: \S+){9} (\d+) (\d+) (-?\d+) (-?\d+) ", re.S)

PRESSED_FRAC = 0.2
"""Share of time in which a task waited for a processor, from which on something else may run."""


class Process(NamedTuple):
    """A process: its parent, its name, and its processor time alone and with that of ended children [s]."""

    parent: int
    name: str
    cpu_s: float
    with_children_s: float


class Snapshot(NamedTuple):
    """Counters at a moment [s]; None where the kernel has none."""

    t_s: float
    busy_s: Optional[float]  # of all processors together
    own_s: float  # of the agent with all its children, ended ones too
    cpu_wait_s: Optional[float]  # some task waited for a processor
    memory_wait_s: Optional[float]


def processes(root: Path) -> Dict[int, Process]:
    """Return all processes."""
    tick_s = 1.0 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
    found: Dict[int, Process] = {}
    for folder in root.glob("proc/[0-9]*"):
        match = _STAT.match(text(folder / "stat"))
        if match:
            pid, name, parent, *times = match.groups()
            user, system, ended_user, ended_system = (max(int(n), 0) * tick_s for n in times)
            own_s = user + system
            found[int(pid)] = Process(int(parent), name, own_s, own_s + ended_user + ended_system)
    return found


def family(pid: int, parents: Dict[int, int]) -> Set[int]:
    """Return a process and all that came from it."""
    found = {pid}
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def snapshot(root: Path, known: Optional[Dict[int, Process]] = None) -> Snapshot:
    """Return the counters now; `known` are the processes where they were read already."""
    known = processes(root) if known is None else known
    ours = family(os.getpid(), {pid: process.parent for pid, process in known.items()})
    own_s = sum(known[pid].with_children_s for pid in ours if pid in known)
    return Snapshot(time.monotonic(), busy_s(root), own_s, waited_s(root, "cpu"), waited_s(root, "memory"))


def busy_s(root: Path) -> Optional[float]:
    """Return the busy time of all processors together since the start [s], that of other virtual machines included."""
    match = _CPU.search(text(root / "proc/stat"))
    if match is None:
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(n or 0) for n in match.groups())
    ticks = user + nice + system + irq + softirq + steal
    return ticks / float(os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)


def waited_s(root: Path, what: str) -> Optional[float]:
    """Return the time in which some task waited for "cpu" or "memory" since the start [s]; None without counters."""
    match = _SOME.search(text(root / "proc/pressure" / what))
    return None if match is None else int(match.group(1)) * 1e-6


def others_cores(before: Snapshot, after: Snapshot) -> Optional[float]:
    """Return the processors that other programs took between two snapshots; None where the kernel does not count."""
    passed_s = after.t_s - before.t_s
    if before.busy_s is None or after.busy_s is None or passed_s <= 0.0:
        return None
    return max((after.busy_s - before.busy_s) - max(after.own_s - before.own_s, 0.0), 0.0) / passed_s


def between(before: Snapshot, after: Snapshot) -> Dict[str, float]:
    """Return the load as shares: ``psi_cpu_frac`` and ``psi_memory_frac`` of the time, where they are known."""
    passed_s = after.t_s - before.t_s
    waits: List[Tuple[str, Optional[float], Optional[float]]] = [
        ("psi_cpu_frac", before.cpu_wait_s, after.cpu_wait_s),
        ("psi_memory_frac", before.memory_wait_s, after.memory_wait_s),
    ]
    return {
        name: round(min(max((end - begin) / passed_s, 0.0), 1.0), 4)
        for name, begin, end in waits
        if begin is not None and end is not None and passed_s > 0.0
    }


class Pressure:
    """Tells quickly whether something else may have begun or ended, from one small file."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last = self._read()

    def _read(self) -> Tuple[float, Optional[float], Optional[float]]:
        return time.monotonic(), waited_s(self._root, "cpu"), busy_s(self._root)

    def changed(self, busy: bool) -> bool:
        """Return True if the load since the last call does not agree with what is known: other programs `busy` or not.

        Without pressure-stall information the busy time of the processors stands for it.
        """
        last, self._last = self._last, self._read()
        passed_s = self._last[0] - last[0]
        for begin, end in zip(last[1:], self._last[1:]):
            if begin is not None and end is not None and passed_s > 0.0:
                return ((end - begin) / passed_s > PRESSED_FRAC) != busy
        return False


def conditions(root: Path, before: Snapshot, after: Snapshot, body_conditions: Dict[str, Any]) -> Dict[str, Any]:
    """Return what is known of other work during a run, as its conditions.

    ``others_frac``, the share of the processors that other programs took, is left out for runs in other programs, such
    as a server of another runtime: their work is not told from that of others.
    """
    found: Dict[str, Any] = dict(between(before, after))
    cores = others_cores(before, after)
    if "runtime" in body_conditions:
        found.pop("psi_cpu_frac", None)
    elif cores is not None:
        n = len(re.findall(r"^cpu\d+ ", text(root / "proc/stat"), re.M)) or os.cpu_count() or 1
        found["others_frac"] = round(min(cores / n, 1.0), 4)
    return found
