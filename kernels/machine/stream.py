"""Memory bandwidth: STREAM copy, triad and read on buffers far larger than the last-level cache."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernels.machine.timing import Clock, Stopwatch, cpu_clock

_CACHE_MULTIPLE = 8
_MIN_BYTE, _MAX_BYTE = 64 << 20, 512 << 20
_N_REPEATS = 15


def last_level_cache_byte(device: str = "cpu") -> int | None:
    """Size of a CUDA device's L2 cache, else of the largest that Linux reports for processor 0, None where of none."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        sizes.append(int(text.rstrip("KMG")) * unit)
    return max(sizes, default=None)


def buffer_byte(cache_multiple: int = _CACHE_MULTIPLE, device: str = "cpu") -> int:
    """Size of one buffer: so many times the last-level cache, 64 MiB to 512 MiB, and at most a sixteenth of the free
    memory.
    """
    wanted = min(max(cache_multiple * (last_level_cache_byte(device) or 32 << 20), _MIN_BYTE), _MAX_BYTE)
    return max(min(wanted, _available_byte() // 16), 1 << 20) // 64 * 64


def _available_byte() -> int:
    """Memory that can be had without swapping: Linux's own estimate, which counts reclaimable file pages, else free
    pages.
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def measure(step_done: Callable[[float, str], None]) -> dict[str, Any]:
    """Measure copy, triad and read bandwidth with torch's threads.

    Parameters
    ----------
    step_done : callable
        Called with the share done and what runs, between steps of some milliseconds; may raise to stop.

    Returns
    -------
    dict
        ``copy_byte_s`` (2 bytes moved per byte), ``triad_byte_s`` (a = b + s c: 3), ``read_byte_s`` (a sum: 1), each a
        measured record, and ``quiet_share``. A store that first reads its cache line is not counted as traffic, as in
        STREAM.
    """
    n = buffer_byte() // 4
    step_done(0.0, "memory bandwidth: buffers")
    a, b, c = torch.zeros(n), torch.full((n,), 1.5), torch.full((n,), 0.5)
    kernels: dict[str, tuple[int, Callable[[], object]]] = {
        "copy": (2, lambda: a.copy_(b)),
        "triad": (3, lambda: torch.add(b, c, alpha=3.0, out=a)),
        "read": (1, lambda: b.sum()),
    }
    result: dict[str, Any] = {}
    quiet = []
    with torch.inference_mode():
        for index, (name, (passes, kernel)) in enumerate(kernels.items()):
            kernel()
            watch = Stopwatch()
            for repeat in range(_N_REPEATS):
                step_done((index + repeat / _N_REPEATS) / len(kernels), f"memory bandwidth: {name}")
                watch.time(kernel)
            result[f"{name}_byte_s"] = _as_rate(watch.record(), passes * n * 4)
            quiet.append(watch.quiet_share)
    return {**result, "quiet_share": min(quiet)}


class ReadProbe:
    """Reads a buffer far larger than the last-level cache, as fast as torch can: what a kernel can hope for right now.

    Parameters
    ----------
    device : str
        "cpu", or a device of torch.
    cache_multiple : int
        Size of the buffer in last-level caches.
    n_reads : int
        Reads whose median a probe is.
    """

    def __init__(self, device: str = "cpu", cache_multiple: int = _CACHE_MULTIPLE, n_reads: int = 3) -> None:
        self._clock = clock_of(device)
        self._buffer = torch.ones(buffer_byte(cache_multiple, device) // 4, device=device)
        self._n_reads = n_reads
        self()  # fault the pages in

    def __call__(self) -> float:
        """Return the read bandwidth in byte/s: the median of `n_reads`."""
        with torch.inference_mode():
            durations_s = [self._clock(self._buffer.sum, 1) for _ in range(self._n_reads)]
        return self._buffer.nbytes / statistics.median(durations_s)


def clock_of(device: str) -> Clock:
    """Return the timer of calls on a device: events on CUDA, whose calls return before they are done."""
    if torch.device(device).type != "cuda":
        return cpu_clock

    def clock(call: Callable[[], object], n: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        stream = torch.cuda.current_stream(device)  # that of the device, which need not be the current one
        start.record(stream)
        for _ in range(n):
            call()
        end.record(stream)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return clock


def _as_rate(duration: dict[str, Any], byte: int) -> dict[str, Any]:
    return {
        **duration,
        "median": byte / duration["median"],
        "q05": byte / duration["q95"],
        "q95": byte / duration["q05"],
    }
