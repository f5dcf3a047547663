"""Timing on a machine that is never quite quiet: quantiles, and a count of the steps that something else disturbed.

A step during which the kernel took the processor away (an involuntary context switch of any of our threads) measures
the machine's other work, not ours. Such steps are counted and, as long as enough undisturbed ones remain, not used.
"""

from __future__ import annotations

import resource
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
