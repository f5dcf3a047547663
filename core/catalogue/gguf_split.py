"""The header of a model in one GGUF file or in a set of shards, as ``llama-gguf-split`` writes them.

The first shard has the metadata; each has a part of the tensors, ``split.no``, ``split.count`` and
``split.tensors.count``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from core.catalogue.gguf_header import Header, read_header, readable

_SHARD = re.compile(r"(?P<set>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)
_MOST_SHARDS = 4096


def set_name(path: Path) -> str:
    """Return the name of the model that a file belongs to: without suffix, and without the number of a shard."""
    shard = _SHARD.fullmatch(path.name)
    return shard["set"] if shard else path.stem


def read_set(path: Path) -> Header:
    """Read the header of a GGUF file; of a shard, that of the whole set in its folder.

    Raises
    ------
    ValueError
        One sentence for a file that cannot be read, and for a shard whose set is incomplete: which shard it is, and
        how many of the tensors it has.
    """
    header = read_header(path)
    count = _number(header, "split.count", 1)
    if count == 1:
        return header
    place = (
        f"{path.name}: shard {_number(header, 'split.no', 0) + 1} of {count}; "
        f"{len(header.tensors)} of {_number(header, 'split.tensors.count', 0)} tensors"
    )
    shards = [header if one == path else read_header(one) for one in _shards(path, count, place)]
    return _joined(shards, place)


def _shards(path: Path, count: int, place: str) -> list[Path]:
    """Return the files of a set in order, all of which exist."""
    name = _SHARD.fullmatch(path.name)
    if name is None or int(name["count"]) != count or count > _MOST_SHARDS:
        raise ValueError(f"{place}; expected shards named NAME-00001-of-{count:05}.gguf in one folder")
    files = [path.with_name(f"{name['set']}-{i:05}-of-{count:05}{name['suffix']}") for i in range(1, count + 1)]
    missing = [one.name for one in files if not one.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{place}; got no {readable(missing[0])}{more}, expected every shard in one folder")
    return files


def _joined(shards: list[Header], place: str) -> Header:
    first, total = shards[0], _number(shards[0], "split.tensors.count", 0)
    for number, shard in enumerate(shards):
        if _number(shard, "split.no", 0) != number or _number(shard, "split.count", 1) != len(shards):
            raise ValueError(f"{place}; got another file as shard {number + 1}, expected the shards of one set")
    tensors = tuple(tensor for shard in shards for tensor in shard.tensors)
    if len(tensors) != total or len({tensor.name for tensor in tensors}) != total:
        raise ValueError(f"{place}; got {len(tensors)} tensors in the set, expected {total}, each once")
    return replace(first, tensors=tensors)


def _number(header: Header, key: str, default: int) -> int:
    value = header.metadata.get(key, default)
    return value if isinstance(value, int) and value >= 0 else default
