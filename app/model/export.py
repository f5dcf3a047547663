"""An operating point for a runtime: JSON, or a llama-server command line, and in words what it cannot take."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.library.axes import own_bandwidth_byte_s
from app.library.files import write_whole
from app.model.presets import preset_document
from app.model.store import Store
from core.spec import Catalogue, OperatingPoint

LLAMA_KV = {
    "fp32": "f32",
    "fp16": "f16",
    "bf16": "bf16",
    "int8": "q8_0",
    "int4": "q4_0",
    "q8_0": "q8_0",
    "q5_1": "q5_1",
    "q5_0": "q5_0",
    "q4_1": "q4_1",
    "q4_0": "q4_0",
    "iq4_nl": "iq4_nl",
}
"""KV format -> the types that llama.cpp's ``--cache-type-k`` and ``-v`` take."""

_NEAREST = {"int8": "Q8_0", "int4": "Q4_1", "int4_g64": "Q4_1", "int4_g128": "Q4_1", "int3": "Q3_K_S", "int2": "Q2_K"}
LLAMA_WEIGHTS = {"fp32": "F32", "fp16": "F16", "bf16": "BF16", **_NEAREST}
"""Trilemma's own weight formats -> the GGUF type of the same bits; GGUF types keep their names."""


@dataclass(frozen=True)
class Export:
    """An exported point: `text` to paste or save, and one sentence for each value that the runtime cannot take."""

    text: str
    not_taken: tuple[str, ...]


def json_export(store: Store) -> Export:
    """Return the point with its limits and numbers as one JSON document in SI units. It takes every value."""
    document = {**preset_document(store), "format": "trilemma-export"}
    return Export(msgspec.json.format(msgspec.json.encode(document), indent=2).decode(), ())


def llama_server_export(point: OperatingPoint, catalogue: Catalogue, n_threads: int | None = None) -> Export:
    """Return the llama-server command line that runs the point as nearly as llama.cpp can.

    Parameters
    ----------
    point : OperatingPoint
        Scalars only.
    catalogue : Catalogue
    n_threads : int, optional
        Threads that decode; left to llama-server where unknown.
    """
    weights = _gguf_type(point.weights)
    words = ["llama-server", "-m", f"{point.model}-{weights or 'F16'}.gguf", "-c", str(int(point.context_tokens))]
    not_taken = []
    kv = LLAMA_KV.get(point.kv)
    if kv is None:
        name = catalogue.kv_formats[point.kv].name
        not_taken.append(
            f"KV format {name}: llama.cpp stores the cache as one of {', '.join(dict.fromkeys(LLAMA_KV.values()))}."
        )
    else:
        words += ["-ctk", kv, "-ctv", kv]
        if kv.startswith(("q", "iq")):
            words += ["-fa", "on"]  # llama.cpp quantises the value cache only under flash attention
    if n_threads:
        words += ["-t", str(n_threads)]
    words += ["-np", "1"]  # batch 1, and one slot gets the whole context
    return Export(shlex.join(words), (*not_taken, *_llama_not_taken(point, catalogue, weights)))


def _llama_not_taken(point: OperatingPoint, catalogue: Catalogue, weights: str | None) -> list[str]:
    sentences = []
    name = catalogue.weight_formats[point.weights].name
    if weights is None:
        sentences.append(f"Weight format {name}: no GGUF type holds it; the command names the F16 file.")
    else:
        near = ", the nearest GGUF type," if point.weights in _NEAREST else ","
        made = "convert_hf_to_gguf.py makes of a checkpoint in it" if weights == "NVFP4" else "llama-quantize makes"
        sentences.append(
            f"Weight format {name}: it is a property of the file; -m must name one of type {weights}{near} "
            f"which {made}."
        )
    if point.alpha > 0:
        sentences.append(
            f"KV prune rate {float(point.alpha):g} with policy {point.policy} and layout {point.layout}: "
            f"llama.cpp keeps the whole cache; its latency is that of rate 0."
        )
    if point.beta != 1:
        sentences.append(f"Instruction set factor {float(point.beta):g}: the build of llama.cpp decides it.")
    if point.head:
        sentences.append(f"Output head in {catalogue.weight_formats[point.head].name}: the model file decides it.")
    own = own_bandwidth_byte_s(point, catalogue)
    if point.bandwidth_byte_s is not None and point.bandwidth_byte_s != own:
        sentences.append(
            f"Memory bandwidth {float(point.bandwidth_byte_s):g} byte/s: the memory of the board decides it."
        )
    if point.power_mode:
        sentences.append(f"Power mode {point.power_mode}: the board is set to it outside the runtime.")
    if catalogue.boards[point.board].unit == "npu":
        sentences.append(f"{catalogue.boards[point.board].name}: llama.cpp does not run on its NPU.")
    return sentences


def _gguf_type(weights: str) -> str | None:
    """Return the GGUF type of a weight format, or None where there is none."""
    if weights in LLAMA_WEIGHTS:
        return LLAMA_WEIGHTS[weights]
    return weights.upper() if re.match(r"[it]?q\d_|mxfp4|nvfp4", weights) else None


def save_export(path: Path, export: Export) -> None:
    """Write an export to a file; a command line gets what it cannot take as comments above it.

    Raises
    ------
    FileError
        It cannot be written; a file already there is as it was.
    """
    comments = "".join(f"# not supported: {sentence}\n" for sentence in export.not_taken)
    write_whole(path, (comments + export.text + "\n").encode())
