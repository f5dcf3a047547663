"""The table of writers: which runtime of the catalogue has which settings, and the source of their keys."""

from __future__ import annotations

from app.text.settings_files import genie, llama_cpp, mindie, mlc, rkllm, tensorrt_llm, vllm
from app.text.settings_files.written import Settings, Writer, settings
from core.spec import Catalogue, OperatingPoint

_LLAMA = ("llamacpp_cpu", "llamacpp_gpu")

WRITERS = {
    one.key: one
    for one in (
        Writer(
            "llama-server",
            "llama.cpp",
            _LLAMA,
            "llama-server.sh",
            "#",
            "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            llama_cpp.llama_server,
        ),
        Writer(
            "ollama",
            "Ollama",
            _LLAMA,
            "Modelfile",
            "#",
            "https://github.com/ollama/ollama/blob/037a28b/docs/modelfile.md",
            llama_cpp.modelfile,
        ),
        Writer(
            "vllm",
            "vLLM",
            ("vllm_gpu",),
            "vllm.yaml",
            "#",
            "https://github.com/vllm-project/vllm/blob/002f10e/vllm/config/cache.py",
            vllm.config,
        ),
        Writer(
            "tensorrt-llm",
            "TensorRT-LLM",
            ("tensorrt_gpu",),
            "trtllm.yaml",
            "#",
            "https://github.com/NVIDIA/TensorRT-LLM/blob/0076e93/docs/source/features/kvcache.md",
            tensorrt_llm.config,
        ),
        Writer(
            "mlc",
            "MLC",
            ("mlc_gpu",),
            "mlc-chat-config.json",
            "",
            "https://github.com/mlc-ai/mlc-llm/blob/404f896/docs/deploy/mlc_chat_config.rst",
            mlc.config,
        ),
        Writer(
            "rkllm",
            "RKLLM",
            ("rkllm_npu",),
            "build_rkllm.py",
            "#",
            "https://github.com/airockchip/rknn-llm/blob/71773f0/rkllm-toolkit/examples/test.py",
            rkllm.script,
        ),
        Writer(
            "genie",
            "Genie",
            ("qnn_npu",),
            "genie_config.json",
            "",
            "https://docs.qualcomm.com/bundle/publicresource/80-63442-10/topics/dialog_json.md",
            genie.config,
        ),
        Writer(
            "mindie",
            "MindIE",
            ("mindie_npu",),
            "config.json",
            "",
            "https://www.hiascend.com/document/detail/zh/mindie/21RC1/mindiellm/llmdev/mindie_llm0004.html",
            mindie.config,
        ),
    )
}
"""Writer by key."""


def writer_of(runtime: str) -> Writer | None:
    """Return the writer of a runtime of the catalogue; None where it has none."""
    return next((one for one in WRITERS.values() if runtime in one.runtimes), None)


def settings_of(point: OperatingPoint, catalogue: Catalogue, key: str = "") -> Settings:
    """Return the settings of a point (scalars only), for its runtime or by the writer with a key.

    Raises
    ------
    ValueError
        There is no such writer, or the runtime of the point has none; one sentence.
    """
    if key and key not in WRITERS:
        raise ValueError(f"settings: got {key!r}, expected one of {', '.join(WRITERS)}")
    writer = WRITERS[key] if key else writer_of(point.runtime)
    if writer is None:
        name = catalogue.runtimes[point.runtime].name
        raise ValueError(f"settings: {name} has no settings file: expected one of {', '.join(WRITERS)}")
    return settings(writer, point, catalogue)
