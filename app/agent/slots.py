"""The parameter sets that lie on a board: two slots, and the name of the live one. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Iterator, Optional, Tuple

from app.parameter_set import MAGIC

_SLOT = struct.Struct("<4sQII")  # magic, epoch, length, crc of the set behind it


def parameters_folder() -> Path:
    """Return the folder of a board's parameter sets."""
    named = os.environ.get("TRILEMMA_DATA_DIR")
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return (Path(named) if named else Path(home) / "trilemma") / "parameters"


class Slots:
    """Two files and the name of the live one; every write is on the disk before the next begins.

    Parameters
    ----------
    folder
        Made when the first set is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def live(self) -> Tuple[int, int, Optional[bytes]]:
        """Return slot, epoch and bytes of the live set; ``(1, 0, None)`` when there is none that is whole."""
        try:
            record = json.loads((self._folder / "live").read_text(encoding="ascii"))
            slot, epoch = int(record["slot"]), int(record["epoch"])
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return 1, 0, None
        found = self.read(slot) if slot in (0, 1) else None
        return (slot, epoch, found[1]) if found is not None and found[0] == epoch else (1, 0, None)

    def read(self, slot: int) -> Optional[Tuple[int, bytes]]:
        """Return epoch and bytes of a slot, None when it is not whole."""
        try:
            content = (self._folder / f"set-{slot}").read_bytes()
            magic, epoch, length, crc = _SLOT.unpack_from(content)
        except (OSError, struct.error):
            return None
        data = content[_SLOT.size :]
        whole = magic == MAGIC and len(data) == length and zlib.crc32(content[4:12] + data) == crc
        return (epoch, data) if whole else None

    def write(self, slot: int, epoch: int, data: bytes) -> None:
        """Put a set into a slot."""
        crc = zlib.crc32(struct.pack("<Q", epoch) + data)
        self._replace(f"set-{slot}", _SLOT.pack(MAGIC, epoch, len(data), crc) + data)

    def before(self) -> int:
        """Return the epoch of the set that was live before the live one, 0 for none."""
        try:
            return int(json.loads((self._folder / "live").read_text(encoding="ascii"))["before"])
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return 0

    def point(self, slot: int, epoch: int, before: int = 0) -> None:
        """Make a slot the live one; `before` is the epoch of the one that was."""
        self._replace("live", json.dumps({"slot": slot, "epoch": epoch, "before": before}).encode("ascii"))

    def clear(self) -> None:
        """Make no slot the live one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder / "live")
        self._flush_folder()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other agents on this board from writing meanwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:  # Windows: one agent at a time there
            yield
            return
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _replace(self, name: str, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f".{name}.new"
        with open(new, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._folder / name)
        self._flush_folder()

    def _flush_folder(self) -> None:
        if os.name != "posix":  # a folder cannot be flushed there
            return
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
