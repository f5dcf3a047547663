"""Folders of Trilemma's files, their locks, and atomic writes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import platformdirs

from app.library import locks
from core.catalogue.text_files import read_bytes_of

MAX_BYTE = 1 << 20
"""Largest size of a preset or settings file; real ones have a few kilobytes."""
PIPE_SILENCE_S = 120.0
"""How long the program at a pipe may print nothing: a benchmark prints when a test has ended."""


MAX_WAIT_S = 20.0
"""How long a writer waits for another one."""
_POLL_S = 0.005
_LEFT_S = 2.0  # age of a temporary file that nobody has locked and that is therefore left over
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}")
_OURS = re.compile(r"boards|.+\.(json|jsonl|csv)")
_held = threading.local()

BINARY = getattr(os, "O_BINARY", 0)
"""For `os.open`: keeps line ends on Windows."""


class FileError(Exception):
    """A file cannot be read or written; the message is one sentence with the file and the reason."""


class DamagedFile(FileError):
    """A file can be read, but its content is invalid."""


def data_dir() -> Path:
    """Return the folder of the measurements: ``TRILEMMA_DATA_DIR``, or the platform's for user data."""
    named = os.environ.get("TRILEMMA_DATA_DIR")
    return Path(named) if named else Path(platformdirs.user_data_dir("trilemma", appauthor=False))


def config_dir() -> Path:
    """Return the folder of the settings: ``TRILEMMA_DATA_DIR`` too, or the platform's for user settings."""
    named = os.environ.get("TRILEMMA_DATA_DIR")
    return Path(named) if named else Path(platformdirs.user_config_dir("trilemma", appauthor=False))


def reason(error: OSError) -> str:
    """Return the operating system's message in lower case: "no space left on device"."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read_whole(path: Path, max_byte: int = MAX_BYTE, *, pipes: bool = False) -> bytes:
    """Return the bytes of a file; with `pipes`, all that a pipe gives until its end.

    Raises
    ------
    FileError
        The file cannot be read, is no file or is larger than `max_byte`.
    """
    try:
        if not pipes and path.exists() and not path.is_file():
            kind = "a folder" if path.is_dir() else "a device or a pipe"
            raise FileError(f"{path}: cannot be read: expected a file, it is {kind}")
        return read_bytes_of(path, max_byte, PIPE_SILENCE_S)
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {reason(error)}") from error
    except ValueError as error:
        raise DamagedFile(f"{path}: {error}") from None


@contextlib.contextmanager
def alone(folder: Path, say: Callable[[str], object] = lambda sentence: None) -> Iterator[None]:
    """Keep other writers of a folder's documents out during a block; a block inside another does not wait for it.

    The lock holds among processes and threads, and ends with its process.

    Parameters
    ----------
    folder
        Made if missing.
    say
        Takes the sentence that the file system of the folder has no locks; the block then runs without one.

    Raises
    ------
    FileError
        The folder cannot be made or opened, or another writer holds it for longer than `MAX_WAIT_S`.
    """
    mine: set[str] = _held.__dict__.setdefault("folders", set())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        key = str(folder.resolve())
        descriptor = None if key in mine else locks.opened(folder)
    except OSError as error:
        raise FileError(f"{folder}: cannot be written: {reason(error)}") from error
    if descriptor is None:
        yield
        return
    try:
        _wait_for_lock(descriptor, folder, say)
        mine.add(key)
        yield
    finally:
        mine.discard(key)
        os.close(descriptor)


def _wait_for_lock(descriptor: int, path: Path, say: Callable[[str], object]) -> None:
    end_s = time.monotonic() + MAX_WAIT_S
    while True:
        try:
            locks.take(descriptor)
            return
        except OSError as error:
            if error.errno in locks.UNSUPPORTED:
                say(f"{path}: the file system has no locks ({reason(error)}): write to it with one program at a time")
                return
            if error.errno not in locks.BUSY:
                raise FileError(f"{path}: cannot be locked: {reason(error)}") from error
        if time.monotonic() > end_s:
            raise FileError(f"{path}: another program has written to it for {MAX_WAIT_S:g} s: end it and try again")
        time.sleep(_POLL_S)


def append(path: Path, line: bytes) -> None:
    """Append a line to a file and flush it to the disk; a line torn by an earlier crash is ended first.

    Raises
    ------
    OSError, FileError
        It cannot be written; the earlier lines are unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY | getattr(os, "O_NONBLOCK", 0)
    is_new = not path.exists()
    _refuse_device(path, path)
    descriptor = os.open(path, flags, 0o644)
    try:
        _wait_for_lock(descriptor, path, lambda sentence: None)  # without locks, O_APPEND still keeps lines apart
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
        torn = size > 0 and os.read(descriptor, 1) != b"\n"
        rest = memoryview((b"\n" if torn else b"") + line + b"\n")
        try:
            while rest:  # a disk that is nearly full takes a part, and says why at the next
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    if is_new:
        _flush_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders of writers that were killed; those of a living writer are locked."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            named = _TEMPORARY.fullmatch(entry.name)
            if named and _OURS.fullmatch(named[1]):
                with contextlib.suppress(OSError):
                    _remove_left(Path(entry.path))


def _remove_left(path: Path) -> None:
    kind = path.lstat()
    if not (stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode)) or abs(time.time() - kind.st_mtime) < _LEFT_S:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        locks.take(descriptor)
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(kind.st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: write a temporary file, flush it to the disk, and rename it.

    Raises
    ------
    FileError
        The file cannot be written, or is no regular file; the earlier content is unchanged and no temporary file stays.
    """
    target = path.resolve()  # a link stays a link
    _refuse_device(path, target)
    beside: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = _staged(target, content)
        os.replace(beside, target)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        kept = "; the file there is as it was" if target.exists() else ""
        raise FileError(f"{path}: cannot be saved: {reason(error)}{kept}") from error
    _flush_folder(target.parent)


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files in a folder by relative name, all or none: every content is on the disk before the first rename.

    Raises
    ------
    FileError
        One cannot be written; no file is changed, and no temporary file or new folder stays.
    """
    targets = {(folder / name).resolve(): content for name, content in contents.items()}
    staged, made = dict[Path, Path](), list[Path]()
    try:
        for target, content in targets.items():
            _refuse_device(target, target)
            missing = [one for one in (target.parent, *target.parent.parents) if not one.exists()]
            target.parent.mkdir(parents=True, exist_ok=True)
            made += missing
            staged[target] = _staged(target, content)
        for target, beside in staged.items():
            os.replace(beside, target)
    except (OSError, FileError) as error:
        for beside in staged.values():
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        for one in sorted(made, key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):
                one.rmdir()
        said = reason(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"{folder}: cannot be written: {said}; nothing in it was changed") from error
    for parent in {target.parent for target in targets}:
        _flush_folder(parent)


def _refuse_device(path: Path, target: Path) -> None:
    if target.exists() and not target.is_file():  # root can rename over a device
        kind = "a folder" if target.is_dir() else "a device or a pipe"
        raise FileError(f"{path}: cannot be saved: expected a file, it is {kind}")


def _staged(target: Path, content: bytes) -> Path:
    """Write a temporary file beside a target, with its mode, flush it to the disk and return it."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                locks.take(descriptor)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.utime(name)  # it is young until it is renamed
        os.chmod(name, _mode(target))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return Path(name)


def write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Make a folder with files by name atomically: write a temporary folder, then rename it.

    Raises
    ------
    FileError
        The folder cannot be made, or exists; no temporary folder stays.
    """
    beside: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        with alone(beside):
            for name, content in contents.items():
                write_whole(beside / name, content)
            os.chmod(beside, 0o777 & ~_mask())
            os.utime(beside)
        os.rename(beside, path)
    except (OSError, FileError) as error:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
        said = reason(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"{path}: cannot be made: {said}") from error
    _flush_folder(path.parent)


def put_aside(path: Path) -> str:
    """Rename an unreadable file, replacing an earlier one, and return a description of the new name."""
    if not path.is_file():
        return "it was left where it is"
    aside = path.with_name(f"{path.stem}.unreadable{path.suffix}")
    try:
        os.replace(path, aside)
    except OSError:
        return "it was left where it is"
    return f"it was kept as {aside.name}"


def _mode(target: Path) -> int:
    if target.exists():
        return target.stat().st_mode & 0o777
    return 0o666 & ~_mask()


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Flush the rename to the disk, if the system can flush a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
