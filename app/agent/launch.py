"""Start of the measuring process: from a checkout, a zipapp or memory, as the agent itself was started."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import site
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional

import app

CLEAR_S = 1.0
SCRATCH = "TRILEMMA_SCRATCH"
"""Variable of the measuring process: the folder that goes with its agent."""
_SCRATCH_NAME = re.compile(r"trilemma-(\d{1,10})-[0-9a-f]{16}")
NOT_HERE = "this board's system has no files in memory (memfd): measuring there needs trilemma installed on it"


def archive_bytes() -> Optional[bytes]:
    """Return the zipapp that this agent runs from; None in a checkout or an installation."""
    loader = _loader()
    data = getattr(loader, "data", None)
    if data is None and getattr(loader, "archive", None):
        with open(loader.archive, "rb") as file:
            data = file.read()
    return data


def worker_argv() -> List[str]:
    """Return the command of the measuring process.

    An archive in memory becomes a file without a name, which ends with this process; nothing touches the disk.

    Raises
    ------
    OSError
        If the system has no such files; one sentence.
    """
    loader = _loader()
    if getattr(loader, "archive", None):  # zipimport's: the path of the zipapp
        return [sys.executable, str(loader.archive), "worker"]
    data = getattr(loader, "data", None)
    if data is None:
        return [sys.executable, str(app.LAUNCHER), "agent", "--worker"]
    memfd_create = getattr(os, "memfd_create", None)
    if memfd_create is None:
        raise OSError(0, NOT_HERE)
    fd = memfd_create("trilemma-agent.pyz")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    return [sys.executable, f"/proc/{os.getpid()}/fd/{fd}", "worker"]


class Scratch:
    """Folder for files that the measuring process builds once and reuses, such as a compiled library.

    The user's cache folder, unless this agent came over the link: then a folder that goes with it. The agent removes it
    when it ends or is told to, the measuring process when its agent is gone (`SCRATCH` names it there), and the next
    agent of the user when both were killed.
    """

    def __init__(self) -> None:
        in_memory = getattr(_loader(), "data", None) is not None
        name = f"trilemma-{os.getpid()}-{secrets.token_hex(8)}"
        self._folder = os.path.join(tempfile.gettempdir(), name) if in_memory else ""
        if in_memory:
            remove_left(tempfile.gettempdir())

    def environment(self) -> Dict[str, str]:
        """Return the variables that name it."""
        return {"XDG_CACHE_HOME": self._folder, SCRATCH: self._folder} if self._folder else {}

    def clear(self) -> None:
        """Remove the folder after the process that uses it was asked to end."""
        remove_scratch(self._folder)


def remove_scratch(folder: str) -> None:
    """Remove a folder, and what is still written into it within `CLEAR_S`."""
    deadline_s = time.monotonic() + CLEAR_S
    while folder and os.path.isdir(folder) and time.monotonic() < deadline_s:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.02)


def remove_left(where: str) -> None:
    """Remove the scratch folders of this user whose agents have ended without removing them."""
    with contextlib.suppress(OSError), os.scandir(where) as found:
        for entry in found:
            match = _SCRATCH_NAME.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False) and _is_ours(entry) and not _lives(int(match[1])):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_ours(entry: "os.DirEntry[str]") -> bool:
    return os.name != "posix" or entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def _lives(pid: int) -> bool:
    if os.name != "posix":  # there a signal of 0 ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def see_site_packages() -> None:
    """Make what pip installed visible to ``importlib``, where Python was started without it (``-I -S``).

    It goes to the end of the path: nothing of it can stand in for the standard library or for the agent.
    """
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    own = site.getsitepackages([prefix]) if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else []
    for folder in [*own, *site.getsitepackages(), site.getusersitepackages()]:
        if folder not in sys.path and os.path.isdir(folder):
            sys.path.append(folder)


def _loader() -> Any:
    return getattr(app.__spec__, "loader", None)
