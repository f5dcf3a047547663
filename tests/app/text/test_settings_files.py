"""Settings of other runtimes for a point: read by the documented keys, and what they cannot express."""

import ast
import json
import re
import shlex
from dataclasses import replace

import pytest

from app.text.settings_files.writers import WRITERS, settings_of, writer_of
from app.text.settings_files.written import yaml_text
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
LLAMA = OperatingPoint(runtime="llamacpp_cpu", weights="q4_k_m", kv="q8_0", context_tokens=4096.0)
SINKS = {"alpha": 0.5, "policy": "sinks_recent"}
OWN = {
    "llama-server": {},
    "ollama": {},
    "vllm": {"board": "a100_pcie_80gb", "runtime": "vllm_gpu", "weights": "fp8", "kv": "int8"},
    "tensorrt-llm": {"board": "a100_pcie_80gb", "runtime": "tensorrt_gpu", "weights": "fp16", "kv": "fp16"},
    "mlc": {"board": "apple_m2", "runtime": "mlc_gpu", "weights": "q4f16", "kv": "fp16"},
    "rkllm": {"board": "rk3576", "runtime": "rkllm_npu", "weights": "w4a16", "kv": "fp16"},
    "genie": {"board": "qcs8550", "runtime": "qnn_npu", "weights": "w4a16", "kv": "int8"},
    "mindie": {"board": "ascend_910b", "runtime": "mindie_npu", "weights": "fp16", "kv": "fp16"},
}
"""Changes to a point that each runtime runs."""


def made(key, **changes):
    return settings_of(replace(LLAMA, **{**OWN[key], **changes}), CATALOGUE, key)


def yaml(text):
    """Read mappings of scalars and flat lists, two levels deep."""
    found, inner = {}, None
    for line in text.splitlines():
        indent, name, value = re.fullmatch(r"( *)([\w-]+):(?: (.*))?", line).groups()
        if value is None:
            inner = found[name] = {}
        else:
            (inner if indent else found)[name] = json.loads(value)
    return found


def words(**changes):
    return shlex.split(made("llama-server", **changes).text)


# ---- each runtime's own grammar and keys


def test_the_command_line_of_a_point_that_llama_cpp_can_run():
    expected = "llama-server -m smollm2-135m-Q4_K_M.gguf -c 4096 -ctk q8_0 -ctv q8_0 -fa on -np 1"
    assert made("llama-server").text == expected


@pytest.mark.parametrize(
    ("kv", "flags"),
    [
        ("bf16", "-ctk bf16 -ctv bf16"),
        ("fp16", "-ctk f16 -ctv f16"),
        ("fp32", "-ctk f32 -ctv f32"),
        ("int8", "-ctk q8_0 -ctv q8_0 -fa on"),
        ("q4_0", "-ctk q4_0 -ctv q4_0 -fa on"),
    ],
)
def test_kv_formats_have_llama_cpp_s_names(kv, flags):
    assert flags in made("llama-server", kv=kv).text


def test_every_kv_format_of_the_catalogue_has_a_type_of_llama_cpp():
    for kv in CATALOGUE.kv_formats:
        assert "-ctk" in words(kv=kv)


@pytest.mark.parametrize("weights", sorted(CATALOGUE.weight_formats))
def test_the_weight_format_is_said_to_be_the_file_s(weights):
    sentence = made("llama-server", weights=weights).not_expressed[0]
    assert sentence.startswith(f"Weight format {CATALOGUE.weight_formats[weights].name}: ")
    if weights in ("w8a8", "w4a16", "w4a16_g128", "q4f16", "fp8", "nf4"):
        assert "no GGUF type" in sentence
    elif weights == "nvfp4":
        assert "one of type NVFP4, which convert_hf_to_gguf.py makes" in sentence
    else:
        assert "llama-quantize" in sentence


def test_a_modelfile_has_instructions_and_parameters_only():
    for line in made("ollama").text.splitlines():
        assert re.fullmatch(r"(FROM \./\S+\.gguf|PARAMETER num_ctx 4096)", line)
    assert any("OLLAMA_KV_CACHE_TYPE=q8_0" in one for one in made("ollama").not_expressed)
    assert any("f16, q8_0, q4_0" in one for one in made("ollama", kv="bf16").not_expressed)


def test_vllm_gets_the_options_of_its_server():
    keys = yaml(made("vllm").text)
    expected = {"model": "smollm2-135m", "max-model-len": 4096, "max-num-seqs": 1}
    assert keys == {**expected, "quantization": "fp8", "kv-cache-dtype": "int8_per_token_head"}
    assert yaml(made("vllm", weights="bf16", kv="bf16").text)["dtype"] == "bfloat16"
    assert made("vllm").not_expressed == ()


def test_tensorrt_llm_gets_a_window_with_sinks_for_that_pruning_only():
    keys = yaml(made("tensorrt-llm", **SINKS).text)
    cache = {"dtype": "auto", "max_attention_window": [2048], "sink_token_length": 4, "enable_block_reuse": False}
    assert keys == {"max_batch_size": 1, "max_seq_len": 4096, "dtype": "float16", "kv_cache_config": cache}
    assert made("tensorrt-llm", **SINKS).not_expressed == ()
    other = made("tensorrt-llm", alpha=0.5)
    assert "max_attention_window" not in other.text
    assert other.not_expressed[0].startswith("KV prune rate 0.5 with policy attention_mass")


def test_mlc_gets_keys_of_its_chat_config():
    plain, pruned = json.loads(made("mlc").text), json.loads(made("mlc", **SINKS).text)
    assert plain["quantization"] == "q4f16_1"
    sizes = ("context_window_size", "sliding_window_size", "attention_sink_size")
    assert [plain[name] for name in sizes] == [4096, -1, -1]
    assert [pruned[name] for name in sizes] == [-1, 2048, 4]
    assert any("q4f16_awq" in one for one in made("mlc", weights="fp8").not_expressed)


def build_of(**changes):
    """Return the arguments of the script's call of ``build``."""
    (found,) = (
        {word.arg: ast.literal_eval(word.value) for word in node.keywords}
        for node in ast.walk(ast.parse(made("rkllm", **changes).text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "build"
    )
    return found


def test_rkllm_gets_a_script_of_its_toolkit():
    build = build_of()
    assert (build["quantized_dtype"], build["target_platform"], build["num_npu_core"]) == ("w4a16", "rk3576", 2)
    assert build["do_quantization"] is True
    documented = {"do_quantization", "optimization_level", "quantized_dtype", "quantized_algorithm", "target_platform"}
    assert set(build) <= documented | {"num_npu_core", "extra_qparams", "dataset", "hybrid_rate", "max_context"}
    assert "max_context_len = 4096" in made("rkllm").text
    assert "do_quantization=False" in made("rkllm", weights="fp16").text
    assert made("rkllm").not_expressed == ()


@pytest.mark.parametrize(("tokens", "built"), [(1000, 1024), (4096, 4096), (8193, 8224), (16384, 16384)])
def test_rkllm_builds_the_model_for_the_context_of_the_point(tokens, built):
    assert build_of(context_tokens=float(tokens))["max_context"] == built
    assert f"max_context_len = {tokens}," in made("rkllm", context_tokens=float(tokens)).text


def test_rkllm_builds_for_the_platform_of_an_attached_board_s_data_sheet():
    attached = replace(CATALOGUE.boards["rk3576"], key="attached", data_sheet="rk3576")
    catalogue = replace(CATALOGUE, boards={**CATALOGUE.boards, "attached": attached})
    point = replace(LLAMA, **{**OWN["rkllm"], "board": "attached"})
    assert "target_platform='rk3576'" in settings_of(point, catalogue, "rkllm").text


def test_rkllm_has_no_longer_context_than_16384_tokens():
    (only,) = made("rkllm", context_tokens=20000.0).not_expressed
    assert only == "Context of 20000 tokens: RKLLM builds models for at most 16384 tokens."
    assert build_of(context_tokens=20000.0)["max_context"] == 16384


def test_rkllm_builds_no_4_bit_weights_for_the_rk3588():
    assert build_of(board="rk3588")["do_quantization"] is False
    (only,) = made("rkllm", board="rk3588").not_expressed
    assert only.endswith("fp16 and w8a8, w8a8_g128, w8a8_g256, w8a8_g512 for rk3588; the script builds fp16.")
    eight = build_of(board="rk3588", weights="w8a8")
    assert (eight["quantized_dtype"], eight["quantized_algorithm"]) == ("w8a8", "normal")
    assert build_of()["quantized_algorithm"] == "grq"


def test_genie_gets_a_dialog_of_its_schema():
    dialog = json.loads(made("genie").text)["dialog"]
    assert dialog["context"] == {"version": 1, "size": 4096, "n-vocab": CATALOGUE.models["smollm2-135m"].vocab_size}
    assert dialog["engine"]["backend"]["type"] == "QnnHtp"
    htp = {"version", "use-mmap", "spill-fill-bufsize", "mmap-budget", "poll", "cpu-mask", "kv-dim"}
    assert set(dialog["engine"]["backend"]["QnnHtp"]) == htp
    assert [one.split()[0] for one in made("genie").not_expressed] == ["Weight", "KV", "Context"]


def test_mindie_gets_the_keys_of_its_server():
    backend = json.loads(made("mindie").text)["BackendConfig"]
    deployed = backend["ModelDeployConfig"]
    assert (deployed["maxSeqLen"], deployed["maxInputTokenLen"]) == (4096, 4095)
    assert deployed["ModelConfig"][0]["modelName"] == "smollm2-135m"
    assert made("mindie").not_expressed == ()
    assert "C8" in made("mindie", weights="w8a8", kv="int8").not_expressed[1]


# ---- what holds for all


@pytest.mark.parametrize("key", sorted(WRITERS))
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alpha": 0.5, "reselect_tokens": 64.0}, "KV prune rate 0.5"),
        ({"beta": 2.0}, "Instruction set factor 2"),
        ({"head": "bf16"}, "Output head in "),
        ({"bandwidth_byte_s": 20e9}, "Memory bandwidth 2e+10 byte/s"),
        ({"power_limit_w": 12.0}, "Power limit 12 W"),
    ],
)
def test_what_cannot_be_expressed_is_a_sentence_each(key, change, said):
    plain = made(key).not_expressed
    added = [one for one in made(key, **change).not_expressed if one not in plain]
    assert len(added) == 1
    assert said in added[0]


@pytest.mark.parametrize("key", sorted(WRITERS))
def test_a_board_that_cannot_run_it_is_named(key):
    assert "does not run on its NPU" in made(key, board="hi3559a").not_expressed[-1]
    assert not any("does not run" in one for one in made(key).not_expressed)


@pytest.mark.parametrize("key", sorted(WRITERS))
def test_a_file_has_the_sentences_as_comments_where_it_can(key):
    made_one = made(key, beta=2.0)
    comments = [line for line in made_one.content.splitlines() if "not expressed: " in line]
    assert len(comments) == (len(made_one.not_expressed) if WRITERS[key].comment else 0)
    assert made_one.content.endswith(f"{made_one.text}\n")


def test_every_writer_is_of_runtimes_of_the_catalogue_and_has_a_reference():
    for writer in WRITERS.values():
        assert set(writer.runtimes) <= set(CATALOGUE.runtimes)
        assert writer.reference.startswith("https://")
        assert writer_of(writer.runtimes[0]).runtimes == writer.runtimes


def test_a_runtime_without_a_writer_is_refused_by_its_name():
    with pytest.raises(ValueError, match=r"own decoder .* has no settings file: expected one of llama-server"):
        settings_of(OperatingPoint(), CATALOGUE)
    with pytest.raises(ValueError, match=r"got 'tea', expected one of"):
        settings_of(OperatingPoint(), CATALOGUE, "tea")


def test_yaml_is_read_back():
    document = {"a-b": 1, "c": {"d": [1, 2], "e": False}, "f": "x y"}
    assert yaml(yaml_text(document)) == document
