"""The document of a machine: data sheet, bandwidth, bench of kernels, betas and targets, in one JSON file.

Measurements are in a separate append-only file (`app.library.measurements`). The documents of version 0.1 held one
subject for all machines; `older_documents` reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from app.library import schema
from app.library.files import DamagedFile, FileError, read_whole

VERSION = 1
_SLUG_CHARACTERS = 60


class Interval(msgspec.Struct):
    """A measured positive quantity: median and 90 % interval."""

    median: float
    q05: float
    q95: float

    def __post_init__(self) -> None:
        if not 0.0 < self.q05 <= self.median <= self.q95 < math.inf:
            got = ", ".join(f"{value:g}" for value in (self.q05, self.median, self.q95))
            raise ValueError(f"expected 0 < q05 <= median <= q95, got {got}")


class Bandwidth(Interval):
    """The read bandwidth of a machine [byte/s] and the quiet share of its repeats."""

    quiet_share: float = 1.0


class BenchRow(msgspec.Struct):
    """A kernel's share of the read bandwidth, see `core.calibrate.bench_priors`."""

    name: str
    dtype: str
    shape: list[int]
    read_share: float
    trap: bool = False


class Target(msgspec.Struct):
    """A machine attached as a target; `data_sheet` is "" if there is none, for the reason in `data_sheet_by`.

    `number` orders the targets of all machines by their first attachment.
    """

    name: str
    time_utc: str
    simulated: bool = False
    data_sheet: str = ""
    data_sheet_by: str = ""
    power_mode: str = ""
    number: int = 0


class BoardDocument(msgspec.Struct):
    """The record of one machine; `data_sheet` is the key chosen by hand, "" without a choice."""

    machine: str
    version: int = VERSION
    data_sheet: str = ""
    bandwidth: Bandwidth | None = None
    bench: list[BenchRow] = []
    betas: dict[str, Interval] = {}  # by instruction set, relative to the machine's own
    targets: dict[str, Target] = {}  # what it was attached as


REMEDIES = {
    "data_sheet": "--board-as chooses the data sheet again",
    "bandwidth": "`trilemma calibrate` measures the bandwidth again",
    "bench": "`trilemma bench kernels` measures it again",
    "betas": "`trilemma bench beta` measures it again",
    "targets": "`trilemma attach` remembers the board again",
}
"""Part of a document -> the command that writes an unreadable one again."""


def document_name(machine: str) -> str:
    """Return the file name of a machine's document: safe on every system and unique for each machine."""
    slug = re.sub(r"[^a-z0-9]+", "-", machine.lower())[:_SLUG_CHARACTERS].strip("-")
    import hashlib

    return f"{slug}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}.json"


def encoded(document: BoardDocument, before: bytes = b"{}") -> bytes:
    """Return a document as the content of its file; members of the content `before` that no version here has stay."""
    whole = schema.merged(msgspec.json.decode(before), msgspec.to_builtins(document), BoardDocument)
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def decoded(content: bytes, name: str) -> tuple[BoardDocument, list[str]]:
    """Return the valid parts of a document, and a sentence for each invalid part.

    Raises
    ------
    DamagedFile
        The content is no JSON object, has another version, or names no machine.
    """
    raw = schema.decode_object(content, name)
    if raw.get("version", VERSION) != VERSION:
        got = f"got {raw['version']!r}; from another version of Trilemma"
        raise DamagedFile(f"{name}: $.version: expected {VERSION}, {got}")
    understood: dict[str, Any] = {"machine": schema.convert(raw.get("machine"), str, f"{name}: machine")}
    problems = []
    types = {part.name: part.type for part in msgspec.structs.fields(BoardDocument)}
    for part, remedy in REMEDIES.items():
        if part not in raw:
            continue
        try:
            understood[part] = schema.convert(raw[part], types[part], f"{name}: {part}")
        except DamagedFile as error:
            problems.append(f"{error}; {remedy}")
    return BoardDocument(**understood), problems


# --- version 0.1 ------------------------------------------------------------------------------------------------------


class _Chosen(msgspec.Struct):
    board: str


class _Attached(Target, kw_only=True):
    machine: str


OLDER: Mapping[str, tuple[str, Any]] = {
    "data_sheets.json": ("data_sheet", _Chosen),
    "bandwidth.json": ("bandwidth", Bandwidth),
    "bench.json": ("bench", list[BenchRow]),
    "beta.json": ("betas", dict[str, Interval]),
    "attached.json": ("targets", _Attached),
}
"""Documents of version 0.1 -> the part of a machine's document that they held, and the type of an entry.

They were keyed by machine, `attached.json` by target.
"""


@dataclass(frozen=True)
class Older:
    """Content of the documents of version 0.1.

    Attributes
    ----------
    documents : by machine
    damaged : by file, the sentences on its invalid parts
    unread : the reasons why files could not be read
    """

    documents: dict[str, BoardDocument] = field(default_factory=dict)
    damaged: dict[Path, list[str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def older_documents(folder: Path) -> Older:
    """Read the documents of version 0.1 in a folder without changing them."""
    older = Older()
    for name, (part, entry_type) in OLDER.items():
        path = folder / name
        if not path.exists():
            continue
        try:
            entries = schema.decode_object(read_whole(path), name)
        except DamagedFile as error:
            older.damaged[path] = [f"{error}; {REMEDIES[part]}"]
            continue
        except FileError as error:
            older.unread.append(str(error))
            continue
        for number, (key, raw) in enumerate(entries.items()):
            try:
                _place(older.documents, part, key, number, schema.convert(raw, entry_type, f"{name}: {key}"))
            except DamagedFile as error:
                older.damaged.setdefault(path, []).append(f"{error}; {REMEDIES[part]}")
    return older


def _place(documents: dict[str, BoardDocument], part: str, key: str, number: int, entry: Any) -> None:
    machine = entry.machine if isinstance(entry, _Attached) else key
    document = documents.setdefault(machine, BoardDocument(machine))
    if isinstance(entry, _Attached):
        target = Target(*(getattr(entry, name) for name in Target.__struct_fields__))
        document.targets[key] = msgspec.structs.replace(target, number=number)
    else:
        setattr(document, part, entry.board if isinstance(entry, _Chosen) else entry)
