"""RKLLM: a script of its toolkit that builds the model, and the parameters of its runtime."""

from __future__ import annotations

from app.text.settings_files.written import Written
from core.spec import Catalogue, OperatingPoint

PLATFORMS = {"rk3588": 3, "rk3576": 2}
"""Board -> cores of its NPU."""
TYPES = ("w8a8", "w8a8_g128", "w8a8_g256", "w8a8_g512", "w4a16", "w4a16_g32", "w4a16_g64", "w4a16_g128")
"""The values of ``quantized_dtype``."""


def script(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the script that builds the point's model as nearly as RKLLM can."""
    missing = dict[str, str]()
    platform = point.board if point.board in PLATFORMS else next(iter(PLATFORMS))
    quantised = point.weights in TYPES
    if not quantised and point.weights != "fp16":
        missing["weights"] = f"RKLLM builds fp16 and {', '.join(TYPES)}; the script builds fp16"
    if point.kv != "fp16":
        missing["kv"] = "RKLLM stores the cache in 16-bit floats"
    built = f"quantized_dtype={point.weights!r}, quantized_algorithm='normal', " if quantised else ""
    data = ", dataset='data_quant.json'" if quantised else ""
    name = f"{point.model}-{point.weights if quantised else 'fp16'}-{platform}.rkllm"
    tokens = int(point.context_tokens)
    lines = (
        "from rkllm.api import RKLLM",
        "",
        "llm = RKLLM()",
        f"assert llm.load_huggingface(model={point.model!r}, model_lora=None, device='cpu') == 0",
        f"assert llm.build(do_quantization={quantised}, optimization_level=1, {built}"
        f"target_platform={platform!r}, num_npu_core={PLATFORMS[platform]}{data}) == 0",
        f"assert llm.export_rkllm({name!r}) == 0",
        f"# on the board: RKLLMParam.max_context_len = {tokens}, as llm_demo {name} MAX_NEW_TOKENS {tokens} sets it",
    )
    return Written("\n".join(lines), missing)
