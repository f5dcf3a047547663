import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.names.runtimes import described_key, runtime_key

KNOWN = load_catalogue().runtimes


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (
            "llamacpp_gpu",
            "llama.cpp|LLAMA.CPP (CUDA)|llama-cpp|llama_cpp b4321|ik_llama.cpp|Ollama 0.5|LM Studio|lmstudio",
        ),
        ("llamacpp_gpu", "llama-bench|llamafile|llama.cpp (yzma)|SmallThinker (llama.cpp fork)|koboldcpp|llamacpp_gpu"),
        ("llamacpp_gpu", "PocketPal AI|GPT4All|Jan AI"),
        ("mlc_gpu", "nano_llm|MLC-LLM|mlc_llm|NanoLLM (MLC)|MLC LLM (Vulkan)"),
        ("vllm_gpu", "vLLM|vllm 0.6"),
        ("tensorrt_gpu", "TensorRT-LLM|TRT-LLM|TensorRT-Edge-LLM"),
        ("tinychat_gpu", "AWQ TinyChat"),
        ("mlx_gpu", "mlx-lm|Apple MLX"),
        ("", "exllamav2|HF Transformers (Llama)|Llama-3 demo (PyTorch)|mlcommons|MNN|OpenVINO|other|cactusfarm"),
    ],
)
def test_a_runtime_is_known_however_it_is_spelled(key, names):
    assert {name: runtime_key(name, "gpu", KNOWN) for name in names.split("|")} == dict.fromkeys(names.split("|"), key)


def test_the_unit_counts():
    assert [runtime_key("ExecuTorch (QNN)", unit, KNOWN) for unit in ("cpu", "gpu", "npu")] == [
        "executorch_cpu", "", "qnn_npu",
    ]  # fmt: skip
    assert [runtime_key(name, "npu", KNOWN) for name in ("rknn-llm v1.2", "RKLLM 1.2", "rkllama", "Genie SDK")] == [
        "rkllm_npu", "rkllm_npu", "rkllm_npu", "qnn_npu",
    ]  # fmt: skip
    assert runtime_key("QAIRT 2.3", "npu", KNOWN) == "qnn_npu"
    assert [runtime_key(name, "cpu", KNOWN) for name in ("T-MAC", "tmac", "vLLM")] == ["tmac_cpu", "tmac_cpu", ""]


def test_versions_of_an_unknown_runtime_share_a_key():
    keys = {described_key(name, "cpu") for name in ("MNN", "mnn 3.0", "MNN v2.9.5", "MNN b123")}
    assert keys == {"other-mnn_cpu"}
    assert described_key("3.0", "npu") == "other-unnamed_npu"
    assert described_key("exllamav2", "gpu") != described_key("exllama", "gpu")
