"""A process that does nothing but read memory, a set share of the time, to leave less bandwidth to another one.

Started as a program: ``python co_runner.py DUTY_FRAC``. It prints a line once it reads, and ends when its input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

import numpy as np

PERIOD_S = 0.004
CHUNK_BYTE = 1 << 20
BUFFER_BYTE = 256 << 20
START_S = 30.0


class CoRunner:
    """The process, for use in a ``with`` statement; inside, it reads.

    Parameters
    ----------
    duty_frac : float
        Share of the time it reads, 0 < duty_frac <= 1.

    Raises
    ------
    RuntimeError
        On entry, when it does not start.
    """

    def __init__(self, duty_frac: float) -> None:
        if not 0 < duty_frac <= 1:
            raise ValueError(f"duty_frac: got {duty_frac}, expected 0 < duty_frac <= 1")
        self._duty_frac = duty_frac
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        words = [sys.executable, __file__, str(self._duty_frac)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        watchdog = threading.Timer(START_S, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if line.strip() != b"reading":
            self.__exit__(None, None, None)
            raise RuntimeError("the process that reads memory beside the measurement did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # closes its pipes and waits
            self._process = None


def read_for(buffer: np.ndarray[tuple[int], np.dtype[np.uint8]], at: int, busy_s: float) -> int:
    """Read chunks of a buffer for a time, from an offset on, round and round; return the offset behind the last."""
    end_s = time.perf_counter() + busy_s
    while time.perf_counter() < end_s:
        buffer[at : at + CHUNK_BYTE].max()
        at = (at + CHUNK_BYTE) % buffer.size
    return at


def main() -> None:
    """Read memory at the duty given until standard input ends."""
    duty_frac = float(sys.argv[1])
    threading.Thread(target=_end_with_input, daemon=True).start()
    buffer = np.ones(BUFFER_BYTE, np.uint8)
    print("reading", flush=True)
    at, due_s = 0, time.perf_counter()
    while True:
        at = read_for(buffer, at, duty_frac * PERIOD_S)
        due_s = max(due_s + PERIOD_S, time.perf_counter())  # late once is not made up for
        if duty_frac < 1:
            time.sleep(max(0.0, due_s - time.perf_counter()))


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
