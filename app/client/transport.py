"""Ways to reach an agent: a pair of byte streams. Here: a child process on this machine.

The others: `app.client.ssh`, `app.client.sockets`. `app.client.target` makes one of what a user writes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import platformdirs

from app import LAUNCHER

READ_BYTE = 65536
MAX_LOG_BYTE = 1 << 20
ASKED_WRONGLY = 2  # the exit status of our commands where the words are wrong
START_S = 60.0  # for the first word of an agent of this machine, however busy that is
GRACE_S = 5.0  # for an agent of this machine to end after its input has ended
AGENT_ARGV = (sys.executable, str(LAUNCHER), "agent")


class Ended(NamedTuple):
    """Why a link ended, in one sentence, and whether another try can only end the same way (a login refused)."""

    reason: str
    final: bool = False


class OpenError(OSError):
    """A link that cannot be opened; `final` as in `Ended`."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class Transport(Protocol):
    """Both directions of one link. One thread reads, one writes, any closes.

    A transport that knows more than that its link has ended says it in a method ``ended() -> Ended | None``, asked for
    after `read` has returned b"". One whose first byte may take long has an attribute ``patience_s``; one that may
    need a person before that, a method ``unanswered() -> str`` that returns what the person is asked. One whose other
    end may print text in place of frames has a method ``printed() -> str`` that returns it. The player of a recording
    has an attribute ``role``, "recording": it may say what no agent may (`app.client.messages`).
    """

    def read(self) -> bytes:
        """Return bytes that arrived, waiting for at least one; b"" when the link has ended."""

    def write(self, data: bytes) -> None:
        """Send all of `data`.

        Raises
        ------
        OSError
            If the link has ended.
        """

    def close(self) -> None:
        """End the link: a `read` that waits returns. May be called again."""


def agent_log_file() -> Path:
    """Return the file of a local agent's standard error (``TRILEMMA_DATA_DIR``, or the platform's folder for logs)."""
    named = os.environ.get("TRILEMMA_DATA_DIR")
    return (Path(named) if named else Path(platformdirs.user_log_dir("trilemma", appauthor=False))) / "agent.log"


class LocalTransport:
    """An agent as a child process of this Python, in a session of its own so that Ctrl-C reaches only us.

    Parameters
    ----------
    argv
        What to start.
    log_file
        Takes its standard error, that of earlier runs too until it has `MAX_LOG_BYTE`.

    Attributes
    ----------
    patience_s
        How long the first byte may take.

    Raises
    ------
    OSError
        If it cannot start.
    """

    patience_s = START_S

    def __init__(self, argv: Sequence[str] = AGENT_ARGV, log_file: Path | None = None) -> None:
        self._log_file = log_file or agent_log_file()
        with open_log(self._log_file) as log:
            self._log_at = log.tell()
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True, bufsize=0
            )

    @property
    def pid(self) -> int:
        """The process id of the agent."""
        return self._process.pid

    def read(self) -> bytes:
        """Return the bytes that arrived; b"" when the agent has ended."""
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return b""
        data = os.read(self._process.stdout.fileno(), READ_BYTE)
        if not data:
            self._process.stdout.close()  # here, not in `close`: another thread may be reading then
        return data

    def ended(self) -> Ended | None:
        """Return the message of an agent that refused to start, such as an unknown simulated board; else None."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)
        if self._process.returncode != ASKED_WRONGLY:
            return None
        with contextlib.suppress(OSError), self._log_file.open("rb") as log:
            log.seek(self._log_at)
            lines = log.read(READ_BYTE).decode("utf-8", "replace").strip().splitlines()
            if lines:
                return Ended(lines[-1].partition(": ")[2].removeprefix("error: ") or lines[-1], final=True)
        return None

    def write(self, data: bytes) -> None:
        """Send all of `data`."""
        assert self._process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) :]

    def close(self) -> None:
        """Let the agent end by closing its input; kill it if it does not."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def open_log(path: Path) -> IO[bytes]:
    """Open the log; without a place for it, its lines are lost, not the measurement."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        full = path.exists() and path.stat().st_size > MAX_LOG_BYTE
        return path.open("wb" if full else "ab")
    except OSError:
        return open(os.devnull, "wb")
