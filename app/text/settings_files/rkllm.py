"""RKLLM: a script of its toolkit that builds the model, and the parameters of its runtime."""

from __future__ import annotations

import math

from app.text.settings_files.written import Written
from core.spec import Catalogue, OperatingPoint

PLATFORMS = {"rk3588": 3, "rk3576": 2}
"""Board -> cores of its NPU."""
TYPES = ("w8a8", "w8a8_g128", "w8a8_g256", "w8a8_g512", "w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")
"""The values of ``quantized_dtype``; the runtime's file has those that a platform lacks."""
MAX_CONTEXT_TOKENS = 16384
"""The largest ``max_context`` that a model is built for."""
CONTEXT_STEP_TOKENS = 32
"""Models are built for a multiple of it, as those of all examples are."""


def script(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the script that builds the point's model as nearly as RKLLM can."""
    missing = dict[str, str]()
    here, takes = catalogue.boards[point.board], catalogue.runtimes["rkllm_npu"].takes_format
    sheet = here.data_sheet or here.key
    platform = sheet if sheet in PLATFORMS else next(iter(PLATFORMS))
    types = [one for one in TYPES if takes("weights", one, catalogue.boards[platform])]
    quantised = point.weights in types
    if not quantised and point.weights != "fp16":
        missing["weights"] = f"RKLLM builds fp16 and {', '.join(types)} for {platform}; the script builds fp16"
    if point.kv != "fp16":
        missing["kv"] = "RKLLM stores the cache in 16-bit floats"
    tokens = min(int(point.context_tokens), MAX_CONTEXT_TOKENS)
    if point.context_tokens > MAX_CONTEXT_TOKENS:
        missing["context_tokens"] = f"RKLLM builds models for at most {MAX_CONTEXT_TOKENS} tokens"
    built_tokens = CONTEXT_STEP_TOKENS * math.ceil(tokens / CONTEXT_STEP_TOKENS)
    algorithm = "grq" if point.weights.startswith("w4a16") else "normal"
    built = f"quantized_dtype={point.weights!r}, quantized_algorithm={algorithm!r}, " if quantised else ""
    data = ", dataset='data_quant.json'" if quantised else ""
    name = f"{point.model}-{point.weights if quantised else 'fp16'}-{platform}.rkllm"
    lines = (
        "from rkllm.api import RKLLM",
        "",
        "llm = RKLLM()",
        f"assert llm.load_huggingface(model={point.model!r}, model_lora=None, device='cpu') == 0",
        f"assert llm.build(do_quantization={quantised}, optimization_level=1, {built}"
        f"target_platform={platform!r}, num_npu_core={PLATFORMS[platform]}{data}, max_context={built_tokens}) == 0",
        f"assert llm.export_rkllm({name!r}) == 0",
        f"# on the board: RKLLMParam.max_context_len = {tokens}, as llm_demo {name} MAX_NEW_TOKENS {tokens} sets it",
    )
    return Written("\n".join(lines), missing)
