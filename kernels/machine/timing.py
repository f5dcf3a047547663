"""Timing on a machine that is never quite quiet: quantiles, and a count of the steps that something else disturbed.

A step during which the kernel took the processor away (an involuntary context switch of any of our threads) measures
the machine's other work, not ours. Such steps are counted and, as long as enough undisturbed ones remain, not used.

A kernel's time says little without the bandwidth that the machine had at that moment: `timed` brackets its repeats by
two read probes, and gives a verdict instead of a number when the machine was not quiet enough.
"""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MIN_QUIET_STEPS = 8
"""Fewer undisturbed steps than this, and the statistics are taken over all steps."""


def involuntary_switches() -> int:
    """Count the involuntary context switches of this process so far, all threads together."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def record(samples: Sequence[float]) -> dict[str, Any]:
    """Describe samples of one quantity by its median, 5 % and 95 % quantiles and their number.

    Parameters
    ----------
    samples : sequence of float
        At least one value.

    Returns
    -------
    dict
        ``{"median", "q05", "q95", "n", "provenance": "measured"}``, in the unit of the samples.
    """
    if len(samples) == 0:
        raise ValueError("samples: got none, expected at least one")
    q05, median, q95 = (float(q) for q in np.quantile(np.asarray(samples, dtype=np.float64), [0.05, 0.5, 0.95]))
    return {"median": median, "q05": q05, "q95": q95, "n": len(samples), "provenance": "measured"}


@dataclass
class Stopwatch:
    """Durations in seconds of repeated steps, each marked disturbed or quiet."""

    durations_s: list[float] = field(default_factory=list)
    quiet: list[bool] = field(default_factory=list)

    def time(self, step: Callable[[], object]) -> float:
        """Run one step and note how long it took."""
        switches = involuntary_switches()
        start_s = time.perf_counter()
        step()
        duration_s = time.perf_counter() - start_s
        self.durations_s.append(duration_s)
        self.quiet.append(involuntary_switches() == switches)
        return duration_s

    @property
    def quiet_share(self) -> float:
        """Share of the steps that nothing disturbed, 0..1."""
        return sum(self.quiet) / len(self.quiet) if self.quiet else 1.0

    def record(self) -> dict[str, Any]:
        """Describe the undisturbed steps; all steps when fewer than `MIN_QUIET_STEPS` were undisturbed."""
        quiet = [d for d, ok in zip(self.durations_s, self.quiet, strict=True) if ok]
        return record(quiet if len(quiet) >= MIN_QUIET_STEPS else self.durations_s)


N_REPEATS = 15
QUIET_SHARE_NEEDED = 0.5
PROBE_AGREEMENT = 0.2
"""The two probes around a timing may differ by this share of their mean."""
_SAMPLE_S = 0.5e-3  # a shorter call is repeated within a sample


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of a call, and the state of the machine during it.

    Parameters
    ----------
    duration_s : float
        Median of one call over the undisturbed samples.
    quiet_share : float
        Share of the samples that nothing disturbed, 0..1.
    read_byte_s : float
        Read bandwidth, mean of the probes before and after.
    disturbed : str
        Reason that the machine was not quiet enough for the number to count; "" when it was.
    """

    duration_s: float
    quiet_share: float
    read_byte_s: float
    disturbed: str


Clock = Callable[[Callable[[], object], int], float]
"""Runs a call so many times and returns the seconds that all of them took."""


def cpu_clock(call: Callable[[], object], n: int) -> float:
    """Time n calls on the CPU."""
    start_s = time.perf_counter()
    for _ in range(n):
        call()
    return time.perf_counter() - start_s


def timed(
    calls: Sequence[Callable[[], object]],
    probe: Callable[[], float],
    clock: Clock = cpu_clock,
    n_repeats: int = N_REPEATS,
) -> list[Timing]:
    """Time calls in alternation, so that drift of the machine affects all alike.

    Parameters
    ----------
    calls : sequence of callable
        Calls to compare. Each works on another copy of its data every time, or its data stays in the cache.
    probe : callable
        Returns the read bandwidth in byte/s; asked before and after.
    clock : callable
        Times a number of calls.
    n_repeats : int
        Samples of each call, at least 1.

    Returns
    -------
    list of Timing
        In the order of the calls.
    """
    if n_repeats < 1:
        raise ValueError(f"n_repeats: got {n_repeats}, expected at least 1")
    n_inner = [max(1, math.ceil(_SAMPLE_S / max(_warm_up(call, clock), 1e-7))) for call in calls]
    before = probe()
    watches = [Stopwatch() for _ in calls]
    for _ in range(n_repeats):
        for call, n, watch in zip(calls, n_inner, watches, strict=True):
            switches = involuntary_switches()
            watch.durations_s.append(clock(call, n) / n)
            watch.quiet.append(involuntary_switches() == switches)
    after = probe()
    return [_timing(watch, before, after) for watch in watches]


def _warm_up(call: Callable[[], object], clock: Clock) -> float:
    return min(clock(call, 1) for _ in range(3))


def _timing(watch: Stopwatch, before: float, after: float) -> Timing:
    quiet = [d for d, ok in zip(watch.durations_s, watch.quiet, strict=True) if ok]
    mean = (before + after) / 2
    disturbed = ""
    if watch.quiet_share < QUIET_SHARE_NEEDED:
        disturbed = f"not quiet enough: something else ran during {1 - watch.quiet_share:.0%} of the repeats"
    elif abs(after - before) > PROBE_AGREEMENT * mean:
        disturbed = f"not quiet enough: the read bandwidth went from {before / 1e9:.1f} to {after / 1e9:.1f} GB/s"
    return Timing(statistics.median(quiet or watch.durations_s), watch.quiet_share, mean, disturbed)
