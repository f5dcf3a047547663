"""MindIE on CANN: the file ``config.json`` of its server."""

from __future__ import annotations

from typing import Any

from app.text.settings_files.written import Written, json_text
from core.spec import Catalogue, OperatingPoint

TYPES = {"w8a8": "W8A8", "w4a16": "W4A16", "w4a16_g128": "W4A16"}
"""Weight format -> the type that msModelSlim quantises the folder of weights to."""


def config(point: OperatingPoint, catalogue: Catalogue) -> Written:
    """Return the configuration that serves the point as nearly as MindIE can."""
    missing, tokens = dict[str, str](), int(point.context_tokens)
    if point.weights not in ("fp16", "bf16"):
        made = f"; msModelSlim quantises the folder to {TYPES[point.weights]}" if point.weights in TYPES else ""
        missing["weights"] = f"it is a property of the folder of weights{made}"
    if point.kv == "int8":
        missing["kv"] = "it is a property of the folder of weights; msModelSlim adds its scales (kv_cache_type C8)"
    elif point.kv not in ("fp16", "bf16"):
        missing["kv"] = "MindIE stores the cache in 16-bit floats or int8"
    model = {
        "modelInstanceType": "Standard",
        "modelName": point.model,
        "modelWeightPath": f"/models/{point.model}",
        "worldSize": 1,
        "cpuMemSize": 5,
        "npuMemSize": -1,
        "backendType": "atb",
        "trustRemoteCode": False,
    }
    backend: dict[str, Any] = {
        "backendName": "mindieservice_llm_engine",
        "modelInstanceNumber": 1,
        "npuDeviceIds": [[0]],
        "ModelDeployConfig": {
            "maxSeqLen": tokens,
            "maxInputTokenLen": max(tokens - 1, 1),
            "truncation": False,
            "ModelConfig": [model],
        },
        "ScheduleConfig": {"templateType": "Standard", "templateName": "Standard_LLM", "cacheBlockSize": 128},
    }
    return Written(json_text({"Version": "1.0.0", "BackendConfig": backend}), missing)
