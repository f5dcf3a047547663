"""Bench of the kernels: what each variant makes of the memory bandwidth that the machine has at that moment.

A subject is a module ``kernels/bench_<subject>.py`` with ``cases(quick, device) -> Iterator[Case]``. A case is checked
against its float64 reference, then timed between two read probes (`kernels.timing.timed`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kernels.stream import last_level_cache_byte

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """One variant of a kernel on one shape.

    Parameters
    ----------
    name : str
        What is computed, as in "linear int8".
    variant : str
        Who computes it, as in "torch _int_mm" or "native".
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


def n_copies(byte: float) -> int:
    """Count the copies of a working set of `byte` that together exceed the last-level cache three times."""
    return max(1, -(-3 * (last_level_cache_byte() or 32 << 20) // max(1, int(byte))))


def rotating(copies: Sequence[T], call: Callable[[T], object]) -> Callable[[], object]:
    """Return a function without arguments that calls `call` with the next of the copies each time."""
    turn = itertools.cycle(copies)
    return lambda: call(next(turn))
