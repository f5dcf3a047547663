"""Locks of open files and folders, which end with their process; `files` uses them."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

BUSY = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
"""Errors of a lock that another process or thread holds."""
UNSUPPORTED = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of a file system without locks."""

if sys.platform == "win32":
    import msvcrt

    def opened(folder: Path) -> int:
        """Return a descriptor by which a folder can be locked."""
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)

    def take(descriptor: int) -> None:
        """Lock an open file without waiting; closing it unlocks it."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:

    def opened(folder: Path) -> int:
        """Return a descriptor by which a folder can be locked."""
        return os.open(folder, os.O_RDONLY)

    def take(descriptor: int) -> None:
        """Lock an open file or folder without waiting; closing it unlocks it."""
        try:
            import fcntl
        except ImportError as error:  # neither Windows nor a system of the Unix kind
            raise OSError(errno.ENOSYS, "no locks") from error
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
