"""TensorRT-LLM: the file of ``trtllm-serve --config``, formerly ``--extra_llm_api_options``."""

from __future__ import annotations

from typing import Any

from app.text.settings_files.written import N_SINKS, Written, window_tokens, yaml_text
from core.spec import Catalogue, OperatingPoint

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
CHECKPOINTS = {"fp8": "FP8", "nvfp4": "NVFP4", "w4a16_g128": "W4A16_AWQ", "w8a8": "W8A8_SQ_PER_CHANNEL"}
"""Weight format -> the algorithm that the checkpoint was quantised with."""


def config(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the options that serve the point as nearly as TensorRT-LLM can."""
    missing, cache = dict[str, str](), dict[str, Any]()
    keys: dict[str, Any] = {"max_batch_size": 1, "max_seq_len": int(point.context_tokens)}
    if point.weights in DTYPES:
        keys["dtype"] = DTYPES[point.weights]
    else:
        algorithm = CHECKPOINTS.get(point.weights)
        made = f"; quantise it to {algorithm} by the Model Optimizer" if algorithm else ""
        missing["weights"] = f"it is a property of the checkpoint{made}"
    if point.kv in ("fp16", "bf16"):
        cache["dtype"] = "auto"  # that of the model
    else:
        missing["kv"] = "TensorRT-LLM stores the cache in the type of the model, in fp8 or in nvfp4"
    window = window_tokens(point)
    if window is not None:
        cache |= {"max_attention_window": [window], "sink_token_length": N_SINKS}
    cache["enable_block_reuse"] = False  # each prompt is processed
    keys["kv_cache_config"] = cache
    return Written(yaml_text(keys), missing, frozenset(() if window is None else ("alpha",)))
