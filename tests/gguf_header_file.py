"""GGUF files that are all header: metadata and a tensor table as llama.cpp writes them, over data that is one hole."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from core.catalogue.gguf_header import BLOCK_LAYOUT

TYPE = {name: kind for kind, (name, _, _) in BLOCK_LAYOUT.items()}
_ALIGNMENT = 32


class Row(NamedTuple):
    """One tensor, its fastest dimension first."""

    name: str
    type_name: str
    shape: tuple[int, ...]


def write_header(path: Path, metadata: Mapping[str, Any], rows: Sequence[Row]) -> Path:
    """Write the file; whole numbers are written in 32 bits."""
    table, at = b"", 0
    for row in rows:
        _, block, block_byte = BLOCK_LAYOUT[TYPE[row.type_name]]
        table += _text(row.name) + struct.pack("<I", len(row.shape)) + struct.pack(f"<{len(row.shape)}Q", *row.shape)
        table += struct.pack("<IQ", TYPE[row.type_name], at)
        size = block_byte
        for n in row.shape:
            size *= n
        at += -(-size // block // _ALIGNMENT) * _ALIGNMENT
    entries = b"".join(_text(key) + _value(value) for key, value in metadata.items())
    head = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(metadata)) + entries + table
    start = -(-len(head) // _ALIGNMENT) * _ALIGNMENT
    with path.open("wb") as file:
        file.write(head)
        file.truncate(start + at)
    return path


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    items = [_value(item) for item in value]
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(item[4:] for item in items)


def decoder(
    arch: str, *, n_layers: int, hidden: int, heads: int, kv_heads: Any, inner: int, context: int, **more: Any
) -> dict[str, Any]:
    """Return the metadata of a decoder; further keys without the architecture's name, `__` in place of a dot."""
    own = {"block_count": n_layers, "context_length": context, "embedding_length": hidden}
    own |= {"feed_forward_length": inner, "attention.head_count": heads, "attention.head_count_kv": kv_heads}
    own |= {key.replace("__", "."): value for key, value in more.items()}
    return {"general.architecture": arch, "general.name": arch} | {f"{arch}.{key}": v for key, v in own.items()}


def tables(hidden: int, vocabulary: int, kind: str, *, tied: bool) -> list[Row]:
    """Return the embedding, and the head where it has a table of its own."""
    names = ["token_embd.weight"] if tied else ["token_embd.weight", "output.weight"]
    return [Row(name, kind, (hidden, vocabulary)) for name in names]


def block(i: int, hidden: int, q: int, k: int, v: int, inner: int, kind: str) -> list[Row]:
    """Return the tensors of a layer with attention and a gated feed-forward part, widths of queries, keys, values."""
    matrices = {"attn_q": (hidden, q), "attn_k": (hidden, k), "attn_v": (hidden, v), "attn_output": (q, hidden)}
    matrices |= {"ffn_gate": (hidden, inner), "ffn_up": (hidden, inner), "ffn_down": (inner, hidden)}
    return [Row(f"blk.{i}.{name}.weight", kind, shape) for name, shape in matrices.items()]
