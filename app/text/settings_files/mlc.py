"""MLC LLM: keys of ``mlc-chat-config.json``."""

from __future__ import annotations

from typing import Any

from app.text.settings_files.written import N_SINKS, Written, json_text, window_tokens
from core.spec import Catalogue, OperatingPoint

QUANTIZATION = {"fp16": "q0f16", "fp32": "q0f32", "int3": "q3f16_1", "q4f16": "q4f16_1", "w4a16_g128": "q4f16_awq"}
"""Weight format -> the code of MLC's quantisation."""


def config(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the keys that run the point as nearly as MLC can; ``mlc_llm gen_config`` writes the other ones."""
    missing, window = dict[str, str](), window_tokens(point)
    keys: dict[str, Any] = {}
    code = QUANTIZATION.get(point.weights)
    if code is None:
        missing["weights"] = f"MLC has {', '.join(QUANTIZATION.values())}"
    else:
        keys["quantization"] = code
    keys["context_window_size"] = int(point.context_tokens) if window is None else -1
    keys["sliding_window_size"] = -1 if window is None else window
    keys["attention_sink_size"] = -1 if window is None else N_SINKS
    keys |= {"tensor_parallel_shards": 1, "max_batch_size": 1}
    if point.kv not in ("fp16", "fp32"):
        missing["kv"] = "MLC stores the cache in the type of the activations, f16 or f32"
    return Written(json_text(keys), missing, frozenset(() if window is None else ("alpha",)))
