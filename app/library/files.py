"""Folders of Trilemma's files, and atomic writes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from core.catalogue.text_files import read_bytes_of

MAX_BYTE = 1 << 20
"""Largest size of a preset or settings file; real ones have a few kilobytes."""
PIPE_SILENCE_S = 120.0
"""How long the program at a pipe may print nothing: a benchmark prints when a test has ended."""


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


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically: write a temporary file, flush it to the disk, and rename it.

    Raises
    ------
    FileError
        The file cannot be written, or is no regular file; the earlier content is unchanged and no temporary file stays.
    """
    target = path.resolve()  # a link stays a link
    if target.exists() and not target.is_file():  # root can rename over a device
        kind = "a folder" if target.is_dir() else "a device or a pipe"
        raise FileError(f"{path}: cannot be saved: expected a file, it is {kind}")
    beside: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, _mode(target))
        os.replace(beside, target)
    except OSError as error:
        if beside is not None:
            with contextlib.suppress(OSError):
                os.unlink(beside)
        kept = "; the file there is as it was" if target.exists() else ""
        raise FileError(f"{path}: cannot be saved: {reason(error)}{kept}") from error
    _flush_folder(target.parent)


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
        for name, content in contents.items():
            write_whole(beside / name, content)
        os.chmod(beside, 0o777 & ~_mask())
        os.rename(beside, path)
    except (OSError, FileError) as error:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
        said = reason(error) if isinstance(error, OSError) else str(error)
        raise FileError(f"{path}: cannot be made: {said}") from error
    _flush_folder(path.parent)


def put_aside(path: Path) -> str:
    """Rename an unreadable file, replacing an earlier one, and return a description of the new name."""
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
