"""Commands that the board's owner allowed: run to their end, or kept as a server; never through a shell."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from typing import Deque, Dict, List, Optional, Sequence

from app.agent.runtimes.outcome import Cancelled, Failed, Run, now_s, one_line

POLL_S = 0.05
MAX_OUTPUT_BYTE = 8 << 20
LAST_WORDS_BYTE = 4096
LAST_OUTPUT_S = 5.0
_TELLING = re.compile(r"error|fail|assert|invalid|cannot|unable|out of memory|bad_alloc", re.I)


class Command:
    """A process of our own session, its output taken by threads so that it never waits for us.

    A guarded one, which would not end by itself, ends with this program however that ends.

    Raises
    ------
    Failed
        It cannot start.
    """

    def __init__(
        self, argv: Sequence[str], env: Optional[Dict[str, str]] = None, text: str = "", guarded: bool = False
    ) -> None:
        self.name = os.path.basename(argv[0])
        environment = {**os.environ, "LC_ALL": "C", **(env or {})}
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Failed(f"{argv[0]} cannot start: {getattr(error, 'strerror', None) or error}") from None
        self._guard = _guard(self._process.pid) if guarded else None
        self._lock = threading.Lock()  # of the guard
        self.output = bytearray()
        self._words: Deque[bytes] = deque(maxlen=64)
        self.last_output_s = now_s()
        self._threads = [
            threading.Thread(target=target, name=self.name, daemon=True)
            for target in (self._take_output, self._take_words, lambda: self._write(text))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def status(self) -> Optional[int]:
        """Exit status, None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> bool:
        """Wait; True when it has ended and all of its output is here."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        for thread in self._threads[:2]:
            thread.join(LAST_OUTPUT_S)  # a grandchild may hold the pipe
        return True

    def kill(self) -> None:
        """End it and its children at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        with self._lock:
            guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(b".")  # nothing is left to watch

    def why_ended(self) -> str:
        """Return the exit in words, with the last informative line of the output."""
        status = self.status
        if status == -9:
            return f"{self.name} was killed (signal 9), as the kernel does when memory runs out"
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        words = [line.decode("utf-8", "replace").strip() for line in self._words]
        said = [line for line in words if line]
        telling = [line for line in said if _TELLING.search(line)]
        last = (telling or said or [""])[-1]
        return f"{self.name} {how}" + (f": {one_line(last, 200)}" if last else "")

    def words(self) -> List[str]:
        """Return the last lines of its standard error."""
        return [line.decode("utf-8", "replace").rstrip() for line in self._words]

    def _take_output(self) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        for data in iter(lambda: os.read(descriptor, 65536), b""):
            self.last_output_s = now_s()
            if len(self.output) < MAX_OUTPUT_BYTE:
                self.output += data[: MAX_OUTPUT_BYTE - len(self.output)]
        self._process.stdout.close()

    def _take_words(self) -> None:
        assert self._process.stderr is not None
        stream = self._process.stderr
        for line in iter(lambda: stream.readline(LAST_WORDS_BYTE), b""):
            self.last_output_s = now_s()
            self._words.append(line)
        self._process.stderr.close()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(text.encode("utf-8"))
            self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()


def _guard(group: int) -> subprocess.Popen[bytes]:
    """Start a process that kills a group as soon as this program is gone, unless it ended the group itself."""
    watch = f"import os, sys; sys.stdin.buffer.read() or os.killpg({group}, 9)"
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", watch], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def run_to_end(
    argv: Sequence[str], run: Run, timeout_s: float, env: Optional[Dict[str, str]] = None, text: str = ""
) -> Command:
    """Run a command to its end and return it, whatever its status.

    Raises
    ------
    Failed
        It cannot start, or was silent for `timeout_s`.
    Cancelled
        The run was given up; the command is dead.
    """
    command = Command(argv, env, text)
    try:
        while not command.wait(POLL_S):
            run.check()
            if now_s() - command.last_output_s > timeout_s:
                raise Failed(f"{command.name} was silent for {timeout_s:g} s")
    except (Failed, Cancelled):
        command.kill()
        raise
    return command
