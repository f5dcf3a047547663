"""Tools that measure: started from fixed argument lists, read in a thread each, and ended with the agent."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from app.agent.channel import Channel
from app.agent.sensors.reading import Parsed, Reading

MAX_LINE_BYTE = 1 << 16
HANG_S = 5.0
"""A tool that prints nothing for so long hangs, or cannot reach what it measures: it is ended and tried again later."""

RETRY_S = (1.0, 5.0, 30.0)
MAX_CHANNELS = 128
"""Of one tool."""

MAX_UNKNOWN = 8
"""Texts of one tool that are shown as not understood; the same words with other digits are one text."""

NICENESS = 10

_DIGITS = re.compile(r"\d+")
_FOLDERS = (
    *("usr/bin", "bin", "usr/sbin", "sbin", "usr/local/bin", "usr/local/sbin"),
    *("usr/local/neuware/bin", "usr/local/Ascend/driver/tools", "opt/vc/bin", "usr/hobot/bin", "opt/hobot/bin"),
)


class Tool(NamedTuple):
    """How to run a tool and read what it prints.

    Attributes
    ----------
    name
        Prefix of its channels.
    argvs
        What to start; the next one is tried when the tool refuses the last one.
    make_parser
        Makes a parser for one run of the tool.
    every_s
        How often it is started anew; 0 for one that keeps printing.
    block
        What begins each sample of one that prints many lines for each; "" when a line is a sample.
    rows
        Whether a sample is one row of several, so that the values of the others stay.
    """

    name: str
    argvs: Sequence[Sequence[str]]
    make_parser: Callable[[], Callable[[str], Parsed]]
    every_s: float = 0.0
    block: str = ""
    rows: bool = False


def find_tool(name: str, root: Path) -> Optional[Path]:
    """Return the path of a program below `root` (``PATH`` counts on this machine itself), None when there is none."""
    for folder in _FOLDERS:
        path = root / folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(name) if root == Path("/") else None
    return Path(found) if found else None


class ToolSensor:
    """The channels of one tool.

    They are known when it has printed once, and more may come: `outdated` is true then until `refresh` is called. What
    it printed and nobody understood is the reason of an absent channel, so that it can be seen.

    Attributes
    ----------
    answered
        Set when the tool has printed a sample, or failed.
    """

    interval_ns = 10_000_000

    def __init__(self, tool: Tool, path: Path) -> None:
        self.channels: Tuple[Channel, ...] = ()
        self.absent: List[Channel] = []
        self.answered = threading.Event()
        self._tool = tool
        self._path = path
        self._source = " ".join(tool.argvs[0])
        self._columns: Dict[str, int] = {}
        self._units: List[str] = []
        self._values: List[float] = []
        self._seen_ns = 0
        self._stale_ns = int(max(HANG_S, 3 * tool.every_s) * 1e9)
        self._failure = f"{path} has printed nothing yet"
        self._unknown: Tuple[str, ...] = ()
        self._missing: Dict[str, Reading] = {}
        self._shapes: Set[str] = set()
        self._shown: Tuple[object, ...] = ()
        self._closed = threading.Event()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._lock = threading.Lock()
        self._parse: Callable[[str], Parsed] = tool.make_parser()
        self._thread = threading.Thread(target=self._run, name=f"tool {tool.name}", daemon=True)
        self.refresh()

    @property
    def outdated(self) -> bool:
        """Whether `channels` and `absent` lack something that the tool has shown since."""
        return self._shown != (len(self._columns), self._failure, self._unknown, len(self._missing))

    def refresh(self) -> None:
        """Bring `channels` and `absent` up to date: the columns only ever grow."""
        keys, failure, unknown, missing = list(self._columns), self._failure, self._unknown, dict(self._missing)
        name = self._tool.name
        made = [self._channel(key, unit) for key, unit in zip(keys, self._units)]
        self.channels = (*self.channels, *made[len(self.channels) :])
        self.absent = [Channel(name, "1", self._source, absent=failure)] if failure else []
        for key, (_, unit, raw) in missing.items():
            if key not in self._columns:
                channel = self._channel(key, unit)
                channel.absent = f"{self._tool.argvs[0][0]} says that this board has none: {raw}"
                self.absent.append(channel)
        if unknown:
            reason = f"printed, but not understood: {'; '.join(unknown)}"
            self.absent.append(Channel(f"{name}.other", "1", self._source, absent=reason))
        self._shown = (len(keys), failure, unknown, len(missing))

    def _channel(self, key: str, unit: str) -> Channel:
        subject, _, quantity = key.rpartition(".")
        return Channel(f"{self._tool.name}.{subject}.{quantity}", unit, self._source, subject.replace("_", " "))

    def start(self) -> None:
        """Start the tool; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """End the tool."""
        self._closed.set()
        with self._lock:
            _end(self._process)
        if self._thread.is_alive():
            self._thread.join(2.0)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the values of the newest sample; NaN when that is old."""
        n = len(self.channels)
        values = self._values
        return values[:n] if len(values) >= n and t_ns - self._seen_ns <= self._stale_ns else [math.nan] * n

    # ---- in the thread

    def _run(self) -> None:
        lower_priority()
        n_failed = 0
        while not self._closed.is_set():
            before_ns = self._seen_ns
            reason = ""
            for argv in self._tool.argvs:
                reason = self._try([str(self._path), *argv[1:]])
                if self._seen_ns != before_ns or self._closed.is_set():
                    break
            lives = self._seen_ns != before_ns
            n_failed = 0 if lives else n_failed + 1
            if not lives or not self._tool.every_s:
                self._failure = reason
                self.answered.set()
            if n_failed > len(RETRY_S):
                return
            self._closed.wait(self._tool.every_s or RETRY_S[0] if lives else RETRY_S[n_failed - 1])

    def _try(self, argv: Sequence[str]) -> str:
        """Run the tool until it ends; return why it did."""
        env = {**os.environ, "LC_ALL": "C", "LANG": "C"}
        env.pop("LANGUAGE", None)
        try:
            with self._lock:
                if self._closed.is_set():
                    return ""
                self._process = process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=env,
                    bufsize=0,
                    start_new_session=True,
                )
        except OSError as error:
            return f"{argv[0]} cannot start: {error.strerror}"
        self._parse = self._tool.make_parser()
        try:
            hung = self._follow(process)
        finally:
            with self._lock:
                _end(process)
            status = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        said = f" ({self._unknown[0]})" if self._unknown and not self._columns else ""
        return f"{argv[0]} printed nothing for {HANG_S:g} s" if hung else f"{argv[0]} ended with status {status}{said}"

    def _follow(self, process: "subprocess.Popen[bytes]") -> bool:
        """Take what it prints until it ends; True when it was given up. Half a line at the end is no sample."""
        assert process.stdout is not None
        fd, whole = process.stdout.fileno(), self._tool.every_s > 0
        buffer = bytearray()
        while True:
            if not select.select([fd], [], [], HANG_S)[0]:
                return True
            data = os.read(fd, MAX_LINE_BYTE)
            if not data:
                if whole and buffer.endswith(b"\n"):
                    self._take(bytes(buffer))
                return False
            buffer += data
            if not whole:
                self._cut(buffer)
            if len(buffer) > MAX_LINE_BYTE:  # no tool's line is so long
                del buffer[:-1]

    def _cut(self, buffer: bytearray) -> None:
        """Take the samples that are complete out of the buffer."""
        if self._tool.block:
            mark = b"\n" + self._tool.block.encode()
            while (at := buffer.find(mark, 1)) >= 0:
                self._take(bytes(buffer[: at + 1]))
                del buffer[: at + 1]
            return
        while (at := buffer.find(b"\n")) >= 0:
            self._take(bytes(buffer[:at]))
            del buffer[: at + 1]

    def _take(self, data: bytes) -> None:
        """Take one sample: a field that it lacks is NaN, one that is new makes the columns outdated."""
        parsed = self._parse(data.decode("utf-8", "replace"))
        for key, reading in parsed.values.items():
            if key not in self._columns and len(self._columns) < MAX_CHANNELS:
                self._units.append(reading.unit)  # before its key is known: another thread reads both
                self._columns[key] = len(self._columns)
        if len(self._missing) < MAX_CHANNELS:
            self._missing = {**self._missing, **parsed.missing} if parsed.missing else self._missing
        values = [math.nan] * len(self._columns)
        if self._tool.rows:
            values[: len(self._values)] = self._values
        for key, reading in parsed.values.items():
            if key in self._columns:
                values[self._columns[key]] = reading.value
        for note in parsed.notes:
            shape = _DIGITS.sub("#", note)
            if shape not in self._shapes and len(self._shapes) < MAX_UNKNOWN:
                self._shapes.add(shape)
                self._unknown = (*self._unknown, note)
        if parsed.values:
            self._values, self._seen_ns, self._failure = values, time.monotonic_ns(), ""
            self.answered.set()


def lower_priority() -> None:
    """Make this thread nice; on Linux the call changes one thread, elsewhere it would change them all."""
    set_priority: Optional[Callable[..., None]] = getattr(os, "setpriority", None)
    if set_priority is not None and os.uname().sysname == "Linux":
        set_priority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _end(process: "Optional[subprocess.Popen[bytes]]") -> None:
    """End a tool and what it has started."""
    if process is not None and process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
