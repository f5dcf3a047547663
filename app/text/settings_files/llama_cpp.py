"""llama.cpp: a command line of llama-server, and a Modelfile of Ollama."""

from __future__ import annotations

import re
import shlex

from app.text.settings_files.written import Written
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
OLLAMA_KV = ("f16", "q8_0", "q4_0")
"""The types of ``OLLAMA_KV_CACHE_TYPE``, which is of the server, not of a Modelfile."""

_NEAREST = {"int8": "Q8_0", "int4": "Q4_1", "int4_g64": "Q4_1", "int4_g128": "Q4_1", "int3": "Q3_K_S", "int2": "Q2_K"}
LLAMA_WEIGHTS = {"fp32": "F32", "fp16": "F16", "bf16": "BF16", **_NEAREST}
"""Trilemma's own weight formats -> the GGUF type of the same bits; GGUF types keep their names."""


def llama_server(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the llama-server command line that runs the point as nearly as llama.cpp can."""
    file, missing = _file(point)
    words = ["llama-server", "-m", file, "-c", str(int(point.context_tokens))]
    kv = LLAMA_KV.get(point.kv)
    if kv is None:
        missing["kv"] = f"llama.cpp stores the cache as one of {', '.join(dict.fromkeys(LLAMA_KV.values()))}"
    else:
        words += ["-ctk", kv, "-ctv", kv]
        if kv.startswith(("q", "iq")):
            words += ["-fa", "on"]  # llama.cpp quantises the value cache only under flash attention
    words += ["-np", "1"]  # batch 1, and one slot gets the whole context
    return Written(shlex.join(words), missing)


def modelfile(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the Modelfile that runs the point as nearly as Ollama can."""
    file, missing = _file(point)
    lines = [f"FROM ./{file}", f"PARAMETER num_ctx {int(point.context_tokens)}"]
    kv = LLAMA_KV.get(point.kv, "")
    if kv not in OLLAMA_KV:
        missing["kv"] = f"Ollama stores the cache as one of {', '.join(OLLAMA_KV)}"
    elif kv != OLLAMA_KV[0]:
        setting = f"OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE={kv} ollama serve"
        missing["kv"] = f"a Modelfile has no key for it; the server is started with it: {setting}"
    return Written("\n".join(lines), missing)


def _file(point: OperatingPoint) -> tuple[str, dict[str, str]]:
    """Return the name of the GGUF file, and why the weight format is not a setting."""
    weights = gguf_type(point.weights)
    name = f"{point.model}-{weights or 'F16'}.gguf"
    if weights is None:
        return name, {"weights": "no GGUF type holds it; the command names the F16 file"}
    near = ", the nearest GGUF type," if point.weights in _NEAREST else ","
    made = "convert_hf_to_gguf.py makes of a checkpoint in it" if weights == "NVFP4" else "llama-quantize makes"
    return name, {"weights": f"it is a property of the file, which must be one of type {weights}{near} which {made}"}


def gguf_type(weights: str) -> str | None:
    """Return the GGUF type of a weight format, or None where there is none."""
    if weights in LLAMA_WEIGHTS:
        return LLAMA_WEIGHTS[weights]
    return weights.upper() if re.match(r"[it]?q\d_|mxfp4|nvfp4", weights) else None
