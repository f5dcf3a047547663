"""vLLM: the file of ``vllm serve --config``."""

from __future__ import annotations

from typing import Any

from app.text.settings_files.written import Written, yaml_text
from core.spec import Catalogue, OperatingPoint

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
QUANTIZATION = {"fp8": "fp8", "w4a16_g128": "awq", "w8a8": "compressed-tensors", "nf4": "bitsandbytes"}
"""Weight format -> the method of ``--quantization``; the checkpoint must be in it, but for fp8 and bitsandbytes."""
KV = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8_per_token_head", "int4": "int4_per_token_head"}
"""KV format -> the type of ``--kv-cache-dtype``."""


def config(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the configuration that serves the point as nearly as vLLM can."""
    missing, keys = dict[str, str](), dict[str, Any]()
    keys["model"] = point.model
    keys["max-model-len"], keys["max-num-seqs"] = int(point.context_tokens), 1
    if point.weights in DTYPES:
        keys["dtype"] = DTYPES[point.weights]
    elif point.weights in QUANTIZATION:
        keys["quantization"] = QUANTIZATION[point.weights]
    else:
        methods = ", ".join(QUANTIZATION.values())
        missing["weights"] = f"the checkpoint decides it; known methods are {methods}"
    if point.kv in KV:
        keys["kv-cache-dtype"] = KV[point.kv]
    else:
        missing["kv"] = f"vLLM stores the cache as one of {', '.join(KV.values())}"
    return Written(yaml_text(keys), missing)
