"""Limits on memory bandwidth: fewer threads, and co-runners that read memory during the measurement.

The remaining bandwidth is measured while both are in place; nothing is assumed of the hardware. A processor whose
memory is not saturated by some of its cores cannot be limited far this way, and the limit reports so.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from kernels.machine.co_runner import CoRunner

CLOSE_FRAC = 0.04
"""A bandwidth this near to what was asked for is taken."""
FAR_FRAC = 0.10
"""One further off is refused."""
MOST_TRIES = 6
MORE_FRAC = 1.05
"""Up to this share of the machine's own, the machine as it is serves."""
FRESH_S = 60.0
"""What was tried longer ago is tried again: a shared memory is not always as fast."""
_PROBE_BYTE = 128 << 20
_PROBE_REPEATS = 15


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on bandwidth, and the bandwidth measured under it.

    Attributes
    ----------
    n_threads : threads of the measurement
    duty_frac : share of the time that a process on each of the other processors reads, 0 for none
    read_byte_s : read bandwidth of the measurement's threads meanwhile [byte/s]
    """

    n_threads: int
    duty_frac: float
    read_byte_s: float

    @property
    def words(self) -> str:
        """Say it, as in "co-runner at 40 % duty, 1 thread, read 8.1 GB/s beside it"."""
        threads = f"{self.n_threads} thread{'s' if self.n_threads > 1 else ''}"
        read = f"read {self.read_byte_s / 1e9:.1f} GB/s"
        if not self.duty_frac:
            return f"{threads}, {read}"
        return f"co-runner at {100 * self.duty_frac:.0f} % duty, {threads}, {read} beside it"


class Limiter:
    """Finds limits for bandwidths; what was found for one is remembered.

    Parameters
    ----------
    probe : callable, optional
        Returns the read bandwidth of torch's threads [byte/s]; a measurement when missing.
    """

    def __init__(self, probe: Callable[[], float] | None = None) -> None:
        self._probe = probe or read_byte_s
        self._n_threads = torch.get_num_threads()
        self._tried: list[Limit] = []
        self._tried_at_s = 0.0

    @contextmanager
    def limited(self, wanted_byte_s: float, step: Callable[[float, str], None]) -> Iterator[Limit]:
        """Leave about so much bandwidth to the threads of this process inside the ``with`` block.

        Parameters
        ----------
        wanted_byte_s : float
            The bandwidth wanted, at most the machine's own [byte/s].
        step : callable
            Called between probes with the share done and what runs; may raise to stop.

        Raises
        ------
        ValueError
            When the machine has less, or cannot be held down so far; one sentence.
        """
        limit = self._find(wanted_byte_s, step)
        with self._applied(limit.n_threads, limit.duty_frac):
            yield Limit(limit.n_threads, limit.duty_frac, self._probe())

    def _find(self, wanted: float, step: Callable[[float, str], None]) -> Limit:
        if time.monotonic() - self._tried_at_s > FRESH_S:
            self._tried.clear()
        self._tried_at_s = time.monotonic()
        text = f"limiting the memory bandwidth to {wanted / 1e9:.1f} GB/s"
        step(0.0, text)
        full = self._try(self._n_threads, 0.0)
        if wanted > MORE_FRAC * full.read_byte_s:
            raise ValueError(
                f"bandwidth_byte_s: got {wanted:.4g}, expected at most {full.read_byte_s:.4g}: "
                "this machine reads no more, and only less can be set"
            )
        if wanted >= (1 - CLOSE_FRAC) * full.read_byte_s:
            return full
        for n_threads in sorted({max(1, self._n_threads - 1), max(1, self._n_threads // 2), 1}, reverse=True):
            low = self._try(n_threads, 1.0)
            if wanted >= (1 - CLOSE_FRAC) * low.read_byte_s:
                break
        else:
            raise ValueError(
                f"bandwidth_byte_s: got {wanted:.4g}, expected at least {low.read_byte_s:.4g}: that is what processes "
                "reading memory all the time leave to one thread here"
            )
        found = self._between(wanted, low, self._try(n_threads, 0.0), lambda done: step(done, text))
        if abs(found.read_byte_s / wanted - 1) > FAR_FRAC:
            raise ValueError(
                f"bandwidth_byte_s: got {wanted:.4g}, which cannot be set here: the nearest is {found.read_byte_s:.4g}"
            )
        return found

    def _between(self, wanted: float, low: Limit, high: Limit, step: Callable[[float], None]) -> Limit:
        """Search for a duty between two limits of the same threads; return the nearest of all that was tried."""

        def error(limit: Limit) -> float:
            return abs(limit.read_byte_s / wanted - 1)

        for number in range(MOST_TRIES):
            if error(min(self._tried, key=error)) <= CLOSE_FRAC or high.read_byte_s <= low.read_byte_s:
                break
            step(number / MOST_TRIES)
            share = (high.read_byte_s - wanted) / (high.read_byte_s - low.read_byte_s)
            duty = high.duty_frac + min(max(share, 0.1), 0.9) * (low.duty_frac - high.duty_frac)
            found = self._try(low.n_threads, duty)
            low, high = (found, high) if found.read_byte_s < wanted else (low, found)
        return min(self._tried, key=error)

    def _try(self, n_threads: int, duty_frac: float) -> Limit:
        for known in self._tried:
            if (known.n_threads, known.duty_frac) == (n_threads, duty_frac):
                return known
        with self._applied(n_threads, duty_frac):
            limit = Limit(n_threads, duty_frac, self._probe())
        self._tried.append(limit)
        return limit

    @contextmanager
    def _applied(self, n_threads: int, duty_frac: float) -> Iterator[None]:
        torch.set_num_threads(n_threads)
        try:
            with ExitStack() as beside:
                for _ in range(self._n_threads - n_threads or 1) if duty_frac else ():
                    beside.enter_context(CoRunner(duty_frac))
                yield
        finally:
            torch.set_num_threads(self._n_threads)


def read_byte_s() -> float:
    """Measure the read bandwidth of torch's threads [byte/s]: the median of some sums over a large buffer."""
    buffer = torch.ones(_PROBE_BYTE // 4)
    with torch.inference_mode():
        buffer.sum()
        return _PROBE_BYTE / statistics.median(_timed(buffer) for _ in range(_PROBE_REPEATS))


def _timed(buffer: torch.Tensor) -> float:
    start_s = time.perf_counter()
    buffer.sum()
    return time.perf_counter() - start_s
