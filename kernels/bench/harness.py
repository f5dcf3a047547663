"""Bench of the kernels: what each variant makes of the memory bandwidth that the machine has at that moment.

A subject is a module ``kernels/bench_<subject>.py`` with ``cases(quick, device) -> Iterator[Case]``. A case is checked
against its float64 reference, then timed between two read probes (`kernels.machine.timing.timed`).
"""

from __future__ import annotations

import copy
import importlib
import itertools
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

import kernels.bench
from kernels.machine.stream import ReadProbe, clock_of, last_level_cache_byte
from kernels.machine.timing import Clock, Timing, timed

T = TypeVar("T")
FAST_BYTE_S = 30e9
_NOT_SUBJECTS = ("against_llama", "harness")


@dataclass(frozen=True, slots=True)
class Case:
    """One variant of a kernel on one shape.

    Parameters
    ----------
    name : str
        Computation, as in "linear int8".
    variant : str
        Implementation, as in "torch _int_mm" or "native".
    shape : tuple of int
        Sizes, in the order that the subject's module explains.
    dtype : str
        Format of what is read.
    floor_byte : float
        Bytes that an ideal kernel has to move in one call; waste of the real one lowers its share.
    run : callable
        One call. It works on another copy of its data each time (`rotating`), so that nothing stays in a cache.
    check : callable
        Compares with a float64 reference and raises ValueError when that disagrees.
    goal_share : tuple of float, optional
        Shares of the read probe to be reached where memory is slow and where it is fast beside the processor.
    trap : bool
        A variant that is shown for its cost and never chosen.
    baseline : callable, optional
        What `run` should be faster than, as the unpruned attention; timed in alternation with it.
    goal_speedup : float, optional
        Time of `baseline` over time of `run` to be reached.
    untimed : str
        Why no time is given, as for a format that exists for its accuracy only; "" when there is one.
    """

    name: str
    variant: str
    shape: tuple[int, ...]
    dtype: str
    floor_byte: float
    run: Callable[[], object]
    check: Callable[[], None]
    goal_share: tuple[float, float] | None = None
    trap: bool = False
    baseline: Callable[[], object] | None = None
    goal_speedup: float | None = None
    untimed: str = ""


_MOST_COPIES = 512


def n_copies(byte: float, device: str = "cpu") -> int:
    """Count the copies of a working set of `byte` that together exceed the device's last-level cache three times.

    At most 512: of what is so small that more were needed the call takes the time, not the memory.
    """
    wanted = -(-3 * (last_level_cache_byte(device) or 32 << 20) // max(1, int(byte)))
    return max(1, min(wanted, _MOST_COPIES))


def duplicate(made: T) -> T:
    """Copy what a kernel reads to other memory."""
    return copy.deepcopy(made)


def rotating(copies: Sequence[T], call: Callable[[T], object]) -> Callable[[], object]:
    """Return a function without arguments that calls `call` with the next of the copies each time."""
    turn = itertools.cycle(copies)
    return lambda: call(next(turn))


def subjects() -> list[str]:
    """List the subjects: the modules ``kernels.bench.<subject>``."""
    return sorted({m.name for m in pkgutil.iter_modules(kernels.bench.__path__)} - set(_NOT_SUBJECTS))


def check_device(device: str) -> None:
    """Raise `ValueError`, in a sentence, unless a device is "cpu", or "cuda" or "cuda:N" and there."""
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise ValueError(f"device: got {device!r}, expected cpu, cuda or cuda:N")
    if not torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        raise ValueError(f"device: got {device}, expected cpu: torch {torch.__version__} is built without CUDA")
    n = torch.cuda.device_count()
    if not n:
        raise ValueError(f"device: got {device}, expected cpu: torch finds no CUDA device on this machine")
    if int(device.partition(":")[2] or 0) >= n:
        raise ValueError(f"device: got {device}, expected at most cuda:{n - 1}")


def run(
    names: Sequence[str],
    quick: bool = False,
    device: str = "cpu",
    progress: Callable[[float, str], None] = lambda _done, _text: None,
) -> list[dict[str, Any]]:
    """Check and time cases.

    Parameters
    ----------
    names : sequence of str
        Subjects, or SUBJECT/WORD for those of its cases whose name holds the word; all subjects when empty.
    quick : bool
        Fewer shapes.
    device : str
        "cpu", "cuda" or "cuda:N".
    progress : callable
        Called with the share done, 0..1, and what is timed; may raise to stop.

    Returns
    -------
    list of dict
        Per case ``name, variant, shape, dtype, us, gb_s, read_share, quiet, goal, holds``, ``trap`` where it is one,
        and ``speedup`` where the goal is one. What has no value is ``{"absent": reason}``; `holds` is None where there
        is no goal or no number to hold against it.

    Raises
    ------
    ValueError
        When names fit no case, there is no such device, or a kernel computes something else than its reference.
    """
    check_device(device)
    known = subjects()
    wanted = [name.partition("/") for name in names or known]
    for subject, _, _ in wanted:
        if subject not in known:
            raise ValueError(f"names: got {subject}, expected some of {', '.join(known)}, or SUBJECT/WORD")
    probe, clock = ReadProbe(device), clock_of(device)
    rows: list[dict[str, Any]] = []
    with torch.inference_mode():
        for index, (subject, _, word) in enumerate(wanted):
            for case in importlib.import_module(f"kernels.bench.{subject}").cases(quick, device):
                if word in case.name:
                    progress(index / len(wanted), f"{case.name}, {case.variant}, {'x'.join(map(str, case.shape))}")
                    rows.append(_row(case, probe, clock))
    if not rows:
        raise ValueError(f"names: got {', '.join(names)}, expected words that the names of some cases hold")
    return rows


def regime(read_byte_s: float, n_threads: int) -> int:
    """Return the index of the goal that counts: 0 where memory is slow against the processor, 1 where it is fast.

    Where a thread reads more than `FAST_BYTE_S`, unpacking rather than memory limits the packed formats.
    """
    return int(read_byte_s / n_threads > FAST_BYTE_S)


def _row(case: Case, probe: Callable[[], float], clock: Clock) -> dict[str, Any]:
    row: dict[str, Any] = {"name": case.name, "variant": case.variant, "shape": list(case.shape), "dtype": case.dtype}
    try:
        case.check()
    except ValueError as error:
        raise ValueError(f"{case.name}, {case.variant}, {case.shape}: wrong result: {error}") from error
    if case.trap:
        row["trap"] = True
    if case.untimed:
        return row | _without_number(case.untimed, None)
    calls = [case.run] if case.baseline is None else [case.run, case.baseline]
    timing, *others = timed(calls, probe, clock)
    if timing.disturbed:  # once more; a machine that stays busy gets no number
        timing, *others = timed(calls, probe, clock)
    if timing.disturbed:
        return row | _without_number(timing.disturbed, timing.quiet_share) | _goal(case, timing)
    share = case.floor_byte / timing.duration_s / timing.read_byte_s
    row |= {
        "us": timing.duration_s * 1e6,
        "gb_s": case.floor_byte / timing.duration_s / 1e9,
        "read_share": share,
        "quiet": timing.quiet_share,
        **_goal(case, timing),
    }
    if others and case.goal_speedup is not None:
        row["speedup"] = others[0].duration_s / timing.duration_s
        row["holds"] = row["speedup"] >= case.goal_speedup
    elif case.goal_share is not None:
        row["holds"] = share >= row["goal"]
    return row


def _goal(case: Case, timing: Timing) -> dict[str, Any]:
    goal: Any = None
    if case.goal_speedup is not None:
        goal = case.goal_speedup
    elif case.goal_share is not None:
        goal = case.goal_share[regime(timing.read_byte_s, torch.get_num_threads())]
    return {"goal": goal, "holds": None}


def _without_number(reason: str, quiet_share: float | None) -> dict[str, Any]:
    absent = {"absent": reason}
    quiet: Any = absent if quiet_share is None else quiet_share
    return {"us": absent, "gb_s": absent, "read_share": absent, "quiet": quiet, "goal": None, "holds": None}
