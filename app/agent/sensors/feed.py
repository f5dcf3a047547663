"""A tool that measures: started from a fixed argument list, read in a thread, ended with its last user."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from app.agent.sensors.reading import CORE_CLOCK, Parsed, Reading, importance, room

MAX_LINE_BYTE = 1 << 16
HANG_S = 5.0
"""A tool that prints nothing for so long hangs, or cannot reach what it measures: it is ended and tried again later."""

RETRY_S = (1.0, 5.0, 30.0)
MAX_CHANNELS = 192
"""Of one tool; `room` says what has places beyond them, and what is left out first."""

MAX_LEFT_OUT = 4096

MAX_UNKNOWN = 8
"""Texts of one tool that are shown as not understood; the same words with other digits are one text."""

NICENESS = 10
_DIGITS = re.compile(r"\d+")


class Tool(NamedTuple):
    """How to run a tool and read what it prints.

    Attributes
    ----------
    name
        Prefix of its channels.
    argvs
        Commands; the next one is tried when the tool refuses the last one.
    make_parser
        Makes a parser for one run of the tool.
    every_s
        Restart period [s]; 0 for a tool that keeps printing.
    block
        First words of each sample of a tool that prints many lines for each; "" when a line is a sample.
    rows
        Whether a sample is one row of several, so that the values of the others stay.
    refusals
        Patterns in what it prints where it cannot work, each with the reason and what to type; ``{0}`` is the match.
    """

    name: str
    argvs: Sequence[Sequence[str]]
    make_parser: Callable[[], Callable[[str], Parsed]]
    every_s: float = 0.0
    block: str = ""
    rows: bool = False
    refusals: Sequence[Tuple[str, str]] = ()


class Feed:
    """The newest sample of one tool, for all who read it.

    Attributes
    ----------
    columns, units
        Its fields in the order in which they first came, and their units. They only ever grow.
    values
        Of the newest sample.
    seen_ns
        When that came; 0 before the first one.
    failure
        Why there are no values; "" when there are.
    unknown, missing, left_out
        What was printed and not understood, what the tool says that this board does not have, and fields that found no
        room among the columns.
    answered
        Set when the tool has printed a sample, or failed.
    """

    def __init__(self, tool: Tool, path: Path) -> None:
        self.columns: Dict[str, int] = {}
        self.units: List[str] = []
        self.values: List[float] = []
        self.seen_ns = 0
        self.failure = f"{path} has printed nothing yet"
        self.unknown: Tuple[str, ...] = ()
        self.missing: Dict[str, Reading] = {}
        self.left_out: Set[str] = set()
        self.answered = threading.Event()
        self.n_users = 0
        self._tool = tool
        self._path = path
        self._shapes: Set[str] = set()
        self._refusal = ""
        self._closed = threading.Event()
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._lock = threading.Lock()
        self._parse: Callable[[str], Parsed] = tool.make_parser()
        self._thread = threading.Thread(target=self._run, name=f"tool {tool.name}", daemon=True)

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

    def _run(self) -> None:
        lower_priority()
        n_failed = 0
        while not self._closed.is_set():
            before_ns = self.seen_ns
            reason = ""
            for argv in self._tool.argvs:
                reason = self._try([str(self._path), *argv[1:]])
                if self.seen_ns != before_ns or self._closed.is_set():
                    break
            lives = self.seen_ns != before_ns
            n_failed = 0 if lives else n_failed + 1
            if not lives or not self._tool.every_s:
                self.failure = reason
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
        if self._refusal and not hung:
            return self._refusal
        said = f" ({self.unknown[0]})" if self.unknown and not self.columns else ""
        return f"{argv[0]} printed nothing for {HANG_S:g} s" if hung else f"{argv[0]} ended with status {status}{said}"

    def _follow(self, process: "subprocess.Popen[bytes]") -> bool:
        """Take what it prints until it ends; True when it was given up. Half a line at the end is no sample."""
        assert process.stdout is not None
        fd, whole, block = process.stdout.fileno(), self._tool.every_s > 0, self._tool.block.encode()
        buffer = bytearray()
        while True:
            if not select.select([fd], [], [], HANG_S)[0]:
                return True
            data = os.read(fd, MAX_LINE_BYTE)
            if not data:
                refused = block and block not in buffer  # it has ended before its first sample
                if (whole or refused) and buffer.endswith(b"\n"):
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
        self._add_columns(parsed)
        if len(self.missing) < MAX_CHANNELS:
            self.missing = {**self.missing, **parsed.missing} if parsed.missing else self.missing
        values = [math.nan] * len(self.columns)
        if self._tool.rows:
            values[: len(self.values)] = self.values
        for key, reading in parsed.values.items():
            if key in self.columns:
                values[self.columns[key]] = reading.value
        if parsed.values:
            self._refusal = ""
        for note in parsed.notes:
            self._refusal = self._refusal or self._refused(note)
            if self._refusal:  # what else it prints then is its own advice
                break
            shape = _DIGITS.sub("#", note)
            if shape not in self._shapes and len(self._shapes) < MAX_UNKNOWN:
                self._shapes.add(shape)
                self.unknown = (*self.unknown, note)
        if parsed.values:
            self.values, self.seen_ns, self.failure = values, time.monotonic_ns(), ""
            self.answered.set()

    def _add_columns(self, parsed: Parsed) -> None:
        """Make columns of the fields that are new, in their order, as far as there is room for what matters more.

        One quantity of the single cores has all of its columns or none.
        """
        new = {key: reading.unit for key, reading in parsed.values.items() if key not in self.columns}
        if not new and not parsed.left_out:
            return
        groups: Dict[Tuple[int, str], List[str]] = {}
        for key, unit in new.items():
            rank = importance(key, unit)
            groups.setdefault((rank, _DIGITS.sub("#", key) if rank >= CORE_CLOCK else key), []).append(key)
        chosen: Set[str] = set()
        for _, keys in sorted(groups.items(), key=lambda item: item[0][0]):
            if len(self.columns) + len(chosen) + len(keys) <= room(keys[0], new[keys[0]], MAX_CHANNELS):
                chosen.update(keys)
        for key, unit in new.items():
            if key in chosen:
                self.units.append(unit)  # before its key is known: another thread reads both
                self.columns[key] = len(self.columns)
        if len(self.left_out) < MAX_LEFT_OUT:
            self.left_out = self.left_out | (new.keys() - chosen) | parsed.left_out

    def _refused(self, note: str) -> str:
        """Return the reason that a line of the tool means that it cannot work, or ""."""
        if self.columns:
            return ""
        for pattern, reason in self._tool.refusals:
            match = re.search(pattern, note)
            if match is not None:
                return reason.format(match.group())
        return ""


_feeds: Dict[Path, Feed] = {}
_feeds_lock = threading.Lock()


def open_feed(tool: Tool, path: Path) -> Feed:
    """Return the feed of a tool, started by its first user; each user calls `release` once."""
    with _feeds_lock:
        feed = _feeds.get(path)
        if feed is None:
            feed = _feeds[path] = Feed(tool, path)
            feed.start()
        feed.n_users += 1
        return feed


def release(path: Path, feed: Feed) -> None:
    """Give a feed back; the last user's call ends the tool."""
    with _feeds_lock:
        feed.n_users -= 1
        if feed.n_users > 0:
            return
        if _feeds.get(path) is feed:
            del _feeds[path]
    feed.close()


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
