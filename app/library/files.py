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
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
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
