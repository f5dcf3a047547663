"""Persistent settings: window, docks, last point and preset, theme. Losing them loses no data.

Two generations are kept. An unreadable file is renamed, never overwritten, and the generation before it or the defaults
are used instead; one line of the log reports it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.files import (
    DamagedFile,
    FileError,
    alone,
    config_dir,
    put_aside,
    read_whole,
    remove_leftovers,
    write_whole,
)
from app.library.records import LimitsRecord, PointRecord, limits_record, point_record
from app.model.state import PLAIN, MarkerPair
from app.model.store import Store

VERSION = 1
N_RECENT = 10
KEPT = (
    "point",
    "limits",
    "axis",
    "theme",
    "auto_measure",
    "preset",
    "curves",
    "energy",
    "schedule",
    "lab",
    "scenario",
    "trade",
    "markers",
)
"""The paths of the store, by their first part, that the settings hold."""

_OF_VIEWS = tuple(
    path for path in PLAIN if path.split(".")[0] in ("curves", "energy", "schedule", "lab", "scenario", "trade")
)


class Settings(msgspec.Struct):
    """The settings file. `geometry` and `docks` are what Qt saves, in base64."""

    version: int = VERSION
    theme: str = "system"
    auto_measure: bool = True
    axis: str = "point.alpha"
    point: PointRecord | None = None
    limits: LimitsRecord | None = None
    preset: str = ""
    views: dict[str, Any] = {}  # what `_OF_VIEWS` hold
    markers: tuple[float, float] | None = None  # where they float, in seconds before the right edge
    recent: list[str] = []
    boards: list[str] = []  # targets that were attached, newest first
    geometry: str = ""
    docks: str = ""

    def add_recent(self, path: Path) -> None:
        """Put a preset in front of the recent ones and make it the last."""
        self.preset = str(path)
        self.recent = [self.preset, *(other for other in self.recent if other != self.preset)][:N_RECENT]


def settings_file() -> Path:
    """Return the file of settings."""
    return config_dir() / "settings.json"


def load_settings(path: Path) -> tuple[Settings, list[str]]:
    """Read the settings, or the generation before them, or the defaults.

    Returns
    -------
    settings : Settings
    notes : list of str
        One sentence for each unusable file, with its new name.
    """
    notes: list[str] = []
    remove_leftovers(path.parent)
    for candidate in (path, _earlier(path)):
        if not candidate.exists():
            continue
        try:
            return _read(candidate), notes
        except FileError as error:
            notes.append(f"{error}; {put_aside(candidate)}")
    return Settings(), notes


def save_settings(path: Path, settings: Settings) -> None:
    """Write the settings; the ones there become the earlier generation.

    Raises
    ------
    FileError
        They cannot be written; both generations are as they were.
    """
    content = msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n"
    with alone(path.parent):
        if path.exists():
            try:
                before = read_whole(path)
            except DamagedFile:  # larger than any settings
                put_aside(path)
            else:
                if before == content:
                    return
                write_whole(_earlier(path), before)
        write_whole(path, content)


def apply(settings: Settings, store: Store) -> list[str]:
    """Put the store where it was; a part that no longer holds is left out and named in the sentences returned."""
    notes = []
    for path, value in (
        ("point", settings.point and settings.point.point()),
        ("limits", settings.limits and settings.limits.limits()),
        ("axis", settings.axis),
        ("theme", settings.theme),
        ("auto_measure", settings.auto_measure),
        ("preset", settings.preset),
        ("markers", settings.markers and MarkerPair(*settings.markers, shown=True)),
        *((path, settings.views.get(path)) for path in _OF_VIEWS),
    ):
        if value is None:
            continue
        try:
            store.set(path, value)
        except ValueError as error:
            notes.append(f"Setting not restored: {error}")
    return notes


def capture(settings: Settings, store: Store) -> None:
    """Take over what the store holds now."""
    settings.point = PointRecord(**point_record(store.point))
    settings.limits = LimitsRecord(**limits_record(store.limits))
    settings.axis, settings.theme = store.axis, store.get("theme")
    settings.auto_measure, settings.preset = store.get("auto_measure"), store.get("preset")
    pair = store.get("markers")
    settings.markers = (pair.a_s, pair.b_s) if pair.shown and not pair.pinned else None
    settings.views = {path: store.get(path) for path in _OF_VIEWS}


def _read(path: Path) -> Settings:
    document = schema.decode_object(read_whole(path), path.name)
    if document.get("version") != VERSION:
        raise FileError(f"{path.name}: $.version: expected {VERSION}, got {document.get('version')!r}")
    return schema.convert(document, Settings, path.name)


def _earlier(path: Path) -> Path:
    return path.with_name(f"{path.stem}.before{path.suffix}")
