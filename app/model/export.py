"""An operating point to copy or to save: as JSON, or as the settings of a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.library.files import write_whole
from app.model.presets import preset_document
from app.model.store import Store
from app.text.settings_files.writers import WRITERS, settings_of, writer_of


@dataclass(frozen=True)
class Export:
    """An exported point: `text` to paste, one sentence for each value that is not in it, and the file's name and text.

    A file has the sentences as comments where its format has comments.
    """

    text: str
    not_taken: tuple[str, ...]
    file: str
    content: str


def json_export(store: Store) -> Export:
    """Return the point with its limits and numbers as one JSON document in SI units. It takes every value."""
    document = {**preset_document(store), "format": "trilemma-export"}
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return Export(text, (), "export.json", f"{text}\n")


def runtime_exports() -> list[tuple[str, str]]:
    """Return the key and the name of each runtime that a point can be exported for."""
    return [(key, f"{writer.name}: {writer.file}") for key, writer in WRITERS.items()]


def usual_export(store: Store) -> str:
    """Return the key of the settings of the point's runtime; "" where it has none."""
    writer = writer_of(store.point.runtime)
    return "" if writer is None else writer.key


def runtime_export(store: Store, key: str = "") -> Export:
    """Return the settings of the point for a runtime, by default its own.

    Raises
    ------
    ValueError
        The runtime has no settings file; one sentence.
    """
    made = settings_of(store.point, store.catalogue, key)
    return Export(made.text, made.not_expressed, made.writer.file, made.content)


def save_export(path: Path, export: Export) -> None:
    """Write an export to a file.

    Raises
    ------
    FileError
        It cannot be written; a file already there is as it was.
    """
    write_whole(path, export.content.encode())
