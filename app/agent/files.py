"""Small kernel files: read once as text, or opened once and read again and again."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
from pathlib import Path

AS_ROOT = "attach the board as root@HOST, or start Trilemma on it with sudo"
"""Remedy where only root can read."""

MOST_BYTE = 1 << 20
"""Largest size of a file that somebody writes for the agent."""

_NUMBER_BYTE = 64
_READ_BYTE = 4096  # sysfs never gives more than a page; of /proc/stat the first lines are wanted


def text(path: Path) -> str:
    """Return the content without the blanks, line ends and NUL around it; "" when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip(" \t\r\n\0")
    except OSError:
        return ""


def written(path: Path) -> str:
    """Return the text of a file that somebody wrote for the agent (UTF-8, at most `MOST_BYTE`).

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is no such file; the sentence is one without its name.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("not a file (a folder, a pipe or a device), expected text")
    with path.open("rb") as file:
        data = file.read(MOST_BYTE + 1)
    if len(data) > MOST_BYTE:
        raise ValueError(f"got more than {MOST_BYTE >> 20} MiB, expected a smaller file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("got bytes that are not UTF-8, expected text") from None


def is_virtual(root: Path) -> bool:
    """Return True if the processor reports a hypervisor."""
    return re.search(r"^flags\s*:.*\bhypervisor\b", text(root / "proc/cpuinfo"), re.M) is not None


def parse_int(data: bytes | str) -> int | None:
    """Return the one decimal integer in `data`, or None when it holds anything else."""
    try:
        digits = data.decode("ascii") if isinstance(data, bytes) else data
        digits = digits.strip(" \t\r\n\0")
        return int(digits) if "_" not in digits and len(digits) <= _NUMBER_BYTE else None
    except ValueError:
        return None


class KernelFile:
    """A file whose content the kernel generates at each read.

    The descriptor is kept, which makes a read ten times cheaper. Plain pread, for there are drivers that answer EAGAIN
    for ever, and readers that poll or retry hang on them.

    Raises
    ------
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def read(self) -> bytes | None:
        """Return the content, or None when the driver refuses: powered off (ENODATA, EINVAL), busy (EAGAIN), gone."""
        try:
            return os.pread(self._fd, _READ_BYTE, 0)
        except OSError:
            return None

    def number(self) -> float:
        """Return the integer in it, NaN when there is none. The hot path of the sampler: no call that can be saved."""
        try:
            data = os.pread(self._fd, _NUMBER_BYTE, 0)
            return int(data) if b"_" not in data else math.nan
        except ValueError:  # a NUL at its end, or no number
            value = parse_int(data)
            return math.nan if value is None else float(value)
        except OSError:
            return math.nan

    def close(self) -> None:
        """Close the descriptor; done by itself when the last user is gone."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def why_unreadable(error: OSError, path: Path, rule: str = "") -> str:
    """Say in words why `path` could not be opened, and which `rule` (udev's, or a command) would open it."""
    if error.errno in (errno.EACCES, errno.EPERM):
        opened = f"; this opens it, set up as root: {rule}" if rule else ""
        return f"needs root: {path} is readable by root only{opened}"
    return f"{path} cannot be read: {os.strerror(error.errno or 0)}"
