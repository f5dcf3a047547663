import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.names.models import KnownNames, model_name

MODELS = load_catalogue().models
NAMES = KnownNames(MODELS)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("qwen2.5-1.5b", ["Qwen2.5 1.5B Instruct", "qwen2.5:1.5b", "Qwen2_5-1_5B", "Qwen2.5-1.5B (chat)"]),
        ("qwen2.5-1.5b", ["Qwen/Qwen2.5-Coder-1.5B-Instruct-GPTQ-Int4", "Qwen2.5-1.5B_W8A8_RK3588.rkllm"]),
        ("qwen2.5-1.5b", ["qwen2.5-1.5b-instruct-q4f16_1-MLC", "Qwen2.5 (1.5B)"]),
        ("qwen2.5-1.5b", ["Qwen_Qwen2.5-1.5B-Instruct-Q4_K_M.gguf", "Qwen__Qwen2.5-1.5B-Instruct"]),
        ("qwen2.5-7b", ["Qwen2.5-7B-Instruct-1M"]),
        ("qwen2.5-vl-7b", ["Qwen2.5-VL-7B-Instruct-AWQ"]),
        ("qwen3-4b", ["hf.co/unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M", "qwen3:4b"]),
        ("qwen3-30b-a3b", ["Qwen3 30B A3B (limited memory)", "qwen3:30b", "Qwen3-Coder-30B-A3B-Instruct"]),
        ("qwen3.6-27b", ["Qwen3.6-27B-UD-MLX-4bit"]),
        ("llama-3.2-3b", ["llama3.2:3b-instruct-q4_K_M", "Llama 3.2 3B", "Llama-3_2-3B", "Llama-v3.2-3B-Chat"]),
        ("llama-3.2-1b", ["models--meta-llama--Llama-3.2-1B-Instruct", "Llama-3.2-1B-Instruct-SpinQuant_INT4_EO8"]),
        ("llama-3.1-8b", ["Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama3.1:8b-instruct-fp16"]),
        ("llama-3.1-8b", [r"C:\models\Meta-Llama-3.1-8B-Instruct-Q4_K_M-00001-of-00002.gguf"]),
        ("llama-3-8b", ["Llama-3-8B-Instruct-32k-v0.1", "Llama-v3-ELYZA-JP-8B"]),
        ("llama-2-7b", ["Llama-2-7b-chat-hf", "Llama-2-7B (W4)", "TheBloke/Llama-2-7B-Chat-GGUF", "Vicuna-7B"]),
        ("deepseek-r1-distill-qwen-1.5b", ["DeepSeek_R1_Distill_Qwen_1.5B", "deepseek-r1:1.5b"]),
        ("deepseek-r1-distill-qwen-14b", ["DeepSeek-R1-14B (Qwen2.5-14B)"]),
        ("deepseek-r1-distill-llama-8b", ["unsloth/DeepSeek-R1-Distill-Llama-8B-GGUF"]),
        ("phi-2", ["Phi-2 (2.7B)", "phi-2.Q4_K_M.gguf", "phi-2"]),
        ("phi-3-mini", ["Phi-3-mini-4k-instruct", "phi3:3.8b-mini-4k-instruct-q4_K_M", "Phi-3-3.8B"]),
        ("phi-3-medium", ["Phi-3-medium-128k-instruct", "Phi-3 (14B)"]),
        ("phi-4-mini", ["microsoft/Phi-4-mini-instruct"]),
        ("gemma-2b", ["gemma:2b", "Gemma-2B-it"]),
        ("gemma-2-2b", ["gemma2:2b", "google/gemma-2-2b-it"]),
        ("gemma-3-4b", ["gemma-3-4b-it-qat-q4_0", "gemma3:4b"]),
        ("gemma-4-26b-a4b", ["gemma-4-26b-a4b-it-4bit"]),
        ("mistral-7b", ["Mistral-7B-Instruct-v0.3", "mistral:7b"]),
        ("mistral-nemo-12b", ["Mistral-Nemo-Instruct-2407"]),
        ("mistral-small-24b", ["Mistral-Small-3.2-24B-Instruct-2506"]),
        ("mixtral-8x7b", ["Mixtral-8x7B-Instruct-v0.1"]),
        ("gpt-oss-20b", ["gpt-oss:20b", "ggml-org/gpt-oss-20b-GGUF"]),
        ("granite-3.1-8b", ["IBM-Granite-v3.1-8B-Instruct", "granite3.1-dense:8b", "granite-3.3-8b-instruct"]),
        ("granite-4.0-h-tiny", ["ibm-granite_granite-4.0-h-tiny-Q4_K_M.gguf", "granite4:tiny-h"]),
        ("granite-4.0-micro", ["granite-4.0-micro-GGUF", "granite4:micro"]),
        ("lfm2-8b-a1b", ["LiquidAI/LFM2-8B-A1B-GGUF"]),
        ("olmoe-1b-7b", ["OLMoE-1B-7B-0924-Instruct"]),
        ("jamba-mini", ["ai21labs/AI21-Jamba-Mini-1.7"]),
        ("mistral-small-24b", ["Devstral-Small-2507", "devstral:24b", "magistral-small-2506"]),
        ("llama-3.1-8b", ["NousResearch/Hermes-3-Llama-3.1-8B-GGUF"]),
        ("llama-2-13b", ["vicuna-13b-v1.5.Q4_K_M.gguf"]),
        ("olmo-2-7b", ["OLMo-2-1124-7B-Instruct", "allenai_OLMo-2-1124-7B-Instruct-Q4_K_M.gguf"]),
        ("falcon3-7b", ["tiiuae_Falcon3-7B-Instruct"]),
        (
            "tinyllama-1.1b",
            ["TinyLlama-1.1B-Chat-v1.0", "tiny_llama_1.1b", "TinyLlama-1.1B-intermediate-step-1431k-3T"],
        ),
        ("tinyllama-1.1b", ["tinyllama-1.1b-1t-openorca.Q4_K_M.gguf"]),
        ("internlm2-1.8b", ["internlm2-chat-1_8b", "internlm2_5-1_8b-chat"]),
        ("stablelm-3b", ["stablelm-3b-4e1t", "stablelm-zephyr-3b"]),
        ("minicpm-v-2.6", ["MiniCPM-V-2_6", "openbmb/MiniCPM-V-2_6-int4"]),
        ("smollm2-135m", ["SmolLM2-135M-Instruct-Q8_0", "SmolLM2 0.135B"]),
        ("rwkv7-1.5b", ["RWKV7-World-1B5"]),
        ("lfm2-350m", ["LFM2-350M-Q4_0.gguf"]),
        ("lfm2.5-1.2b", ["LiquidAI_LFM2.5-1.2B-Instruct-Q4_K_M.gguf", "LFM2.5-1.2B-JP-202606-Q4_K_M.gguf"]),
        ("llama-3.1-8b", ["nvidia_Llama-3.1-Nemotron-Nano-8B-v1-Q4_K_M.gguf", "Some-One_Llama-3.1-8B.gguf"]),
        ("qwen3-next-80b-a3b", ["Qwen_Qwen3-Coder-Next-Q4_K_M.gguf", "qwen3-next:80b"]),
        ("gemma-3-270m", ["google/functiongemma-270m-it"]),
        ("qwen2.5-0.5b", ["qwen2.5-0.5B-Int4-ax630c", "Qwen2.5-0.5B-AX650N-w8a16"]),
    ],
)
def test_names_of_a_model(key, names):
    assert {name: NAMES.key(name) for name in names} == dict.fromkeys(names, key)


@pytest.mark.parametrize(
    "name",
    [
        "Llama-3.2-11B-Vision",  # another size
        "Llama-3.2",  # no size
        "Qwen2.5-9B",
        "Qwen4-8B",  # another generation
        "Qwen2-Audio-7B",  # another word
        "GLM-4V-9B",
        "gemma-3n-E2B-it",
        "Llama-3.1-Minitron-4B",
        "deepseek-r1:8b",  # two models had this name
        "X Qwen2.5-7B",
        "x_qwen2.5-7b",
        "Qwen2.5_X-7B",
        "Llama_Minitron-8B",
        "my model",
        "",
        "7B",
        "instruct",
    ],
)
def test_other_names_are_unknown(name):
    assert NAMES.key(name) == ""


def test_every_model_is_found_by_all_its_names():
    for key, model in MODELS.items():
        assert {NAMES.key(name) for name in (key, model.name, *model.aliases)} == {key}


def test_a_name_that_two_models_share_means_neither():
    models = {"a": MODELS["phi-2"], "b": MODELS["phi-2"]}
    assert KnownNames(models).key("Phi-2") == ""
    assert KnownNames(models).key("a") == "a"


def test_what_a_name_is_read_as():
    assert model_name("Qwen3 30B-A3B") == ("qwen", ("3",), ("30b", "a3b"))
    assert model_name("SmolLM2-135M") == ("smollm", ("2",), ("0.135b",))
    assert model_name("Jais-6p7b-Chat").key == "jais-6.7b"
    assert model_name("tiny-llama") == model_name("TinyLLAMA")
    assert model_name("").key == "unnamed"


def test_tokens_seen_in_training_are_no_size():
    assert model_name("BitNet-b1.58-2B4T").sizes == model_name("bitnet-b1.58-2B-4T").sizes == ("2b",)
