import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.names.formats import described, described_key, format_key, format_name, same_bits, with_scales

KNOWN = load_catalogue().weight_formats


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("q4_k_m", "q4_k_m|Q4_K - Medium|Q4_K_Medium|Q4KM|q4-k-m|Q4 K M|Q4_K|Qwen2.5-7B.Q4_K_M.gguf|ollama (Q4_K_M)"),
        ("q4_k_m", "Q4_K_M, KV Q8_0|q4_k_m + f16 kv|Q4_K_M with Q8_0 embeddings|Q4_K_M (4.83 bpw)|UD-Q4_K_XL"),
        ("q5_k_s", "Q5_K_S|q5_k - small"),
        ("q4_0", "Q4_0|Q4_0_4_4|Q4_0 (ARM)|q4_0, group size 32"),
        ("q6_k", "Q6_K|UD-Q6_K_XL|Q6_K_L"),
        ("q8_0", "Q8_0|Q8|Q8_K_XL"),
        ("iq4_nl", "IQ4_NL|iq4-nl"),
        ("iq3_m", "IQ3_M|iq3-m (imatrix)|IQ3_S mix - 3.66 bpw"),
        ("iq2_xxs", "IQ2_XXS|UD-IQ2_XXS"),
        ("tq1_0", "TQ1_0|UD-TQ1_0"),
        ("fp8", "FP8|FP8 (E4M3)|fp8_e5m2|FP8-dynamic"),
        ("nf4", "nf4|bnb-nf4|NF4 double quant"),
        ("w4a16_g128", "awq|GPTQ 4-bit|INT4-AWQ g128|AWQ (W4A16)|w4a16-g128|GPTQ-Int4"),
        ("w4a16", "W4A16|W4A16 (fp16 activations)|W4A16KV8|W4A16, KV int8"),
        ("w8a8", "W8A8|w8a8 (not stated)"),
        ("q4f16", "q4f16_1|INT4 (q4f16)|q4f16_ft"),
        ("int4", "int4|INT4 weight-only|uint4|int4 groupwise 32|int4 weights, fp16 activations|INT4-KV8"),
        ("int4_g64", "INT4 g64|int4 gs64"),
        ("int4_g128", "INT4 g128|int4, group size 128|int4 rtn block-128"),
        ("int8", "int8|INT8 SmoothQuant|DQ int8"),
        ("fp16", "FP16|f16|float16|half|W16A16|q0f16"),
        ("bf16", "bf16|bfloat16|FP16/BF16 (checkpoint default)"),
        ("mxfp4", "MXFP4|mxfp4 (4-bit)"),
    ],
)
def test_a_format_is_known_however_it_is_spelled(key, names):
    assert {name: format_name(name, KNOWN).key for name in names.split("|")} == dict.fromkeys(names.split("|"), key)


@pytest.mark.parametrize(
    ("name", "bits", "whole"),
    [
        ("4bit", 4.0, 4.5),
        ("4", 4.0, 4.5),
        ("8.0", 8.0, 8.0),
        ("Q4NX", 4.0, 4.5),
        ("HQQ 4-bit g64", 4.0, 4.25),
        ("4-bit groupwise g128", 4.0, 4.125),
        ("GPTQ 8-bit", 8.0, 8.0),
        ("awq-int3", 3.0, 3.5),
        ("W4A16 g64", 4.0, 4.25),
        ("8da4w", 4.0, 4.5),
        ("W8A16", 8.0, 8.0),
        ("w8a8_g128", 8.0, 8.125),
        ("W4AFP8", 4.0, 4.5),
        ("BitNet b1.58", 1.58, 2.08),
        ("W1.58", 1.58, 2.08),
        ("EXL2 4.65bpw", 4.65, 4.65),
        ("iq1_xs", 1.0, 1.5),
    ],
)
def test_of_other_formats_the_bits_are_read(name, bits, whole):
    assert format_name(name, KNOWN) == ("", bits, pytest.approx(whole), "")


@pytest.mark.parametrize(
    "name", ["not stated", "default", "ternary", "AVQ2", "JANGTQ", "", "model-7B-v2", "Q", "w", "9", "128"]
)
def test_what_tells_nothing_is_not_guessed(name):
    assert format_name(name, KNOWN) == ("", None, None, "")


RUNTIMES_SAY = {
    "fp32": "all F32|all F32 (guessed)|(guessed) all F32|qwen3moe 30B.A3B all F32 (guessed)",
    "fp16": "F16|(guessed) F16|mostly F16|t5 220M F16",
    "bf16": "BF16|BF16_R16|falcon-h1 0.5B BF16",
    "q4_0": "Q4_0|Q4_0_4_4|Q4_0_8_8|mostly Q4_0|arctic 10B+128x3.66B Q4_0|rwkv6qwen2 7B Q4_0",
    "q4_1": "Q4_1|mostly Q4_1, some F16",
    "q5_0": "Q5_0",
    "q5_1": "Q5_1",
    "q8_0": "Q8_0|(guessed) Q8_0|Q8_0 (guessed)|Q8_0_R8|gemma3n E2B Q8_0",
    "mxfp4": "MXFP4 MoE|MXFP4|mxfp4|gpt-oss 20B MXFP4 MoE",
    "nvfp4": "NVFP4|petit_nvfp4",
    "q2_k": "Q2_K - Medium|Q2_K (3.35 bpw)",
    "q3_k_s": "Q3_K - Small",
    "q3_k_m": "Q3_K - Medium",
    "q3_k_l": "Q3_K - Large|llama 1B Q3_K - Large",
    "q4_k_s": "Q4_K - Small",
    "q4_k_m": "Q4_K - Medium|mostly Q4_K - Medium|llama4 17B.16E (Scout) Q4_K - Medium|Q4_K_R4|Ｑ４_Ｋ_Ｍ",
    "q5_k_s": "Q5_K - Small",
    "q5_k_m": "Q5_K - Medium",
    "q6_k": "Q6_K|llama ?B Q6_K",
    "tq1_0": "TQ1_0 - 1.69 bpw ternary",
    "tq2_0": "TQ2_0 - 2.06 bpw ternary|bitnet 2B TQ2_0 - 2.06 bpw ternary",
    "iq2_xxs": "IQ2_XXS - 2.0625 bpw",
    "iq2_xs": "IQ2_XS - 2.3125 bpw",
    "iq2_s": "IQ2_S - 2.5 bpw",
    "iq2_m": "IQ2_M - 2.7 bpw",
    "iq3_xs": "IQ3_XS - 3.3 bpw",
    "iq3_xxs": "IQ3_XXS - 3.0625 bpw",
    "iq1_s": "IQ1_S - 1.5625 bpw|deepseek2 671B IQ1_S - 1.5625 bpw",
    "iq1_m": "IQ1_M - 1.75 bpw",
    "iq4_nl": "IQ4_NL - 4.5 bpw|IQ4_NL_R4 - 4.5 bpw",
    "iq4_xs": "IQ4_XS - 4.25 bpw|IQ4_XS_R8 - 4.25 bpw|llama 8B IQ4_XS - 4.25 bpw",
    "iq3_s": "IQ3_S - 3.4375 bpw",
    "w4a16_g128": "awq|gptq|awq_marlin|gptq_marlin|INT4_AWQ|W4A16_AWQ|int4 awq block-128|gpu-int4-awq-block-128",
    "fp8": "fp8|fbgemm_fp8|ptpc_fp8",
    "int8": "experts_int8|uint8",
    "int4": "INT4_SYM|int4 rtn block-32|cpu-int4-rtn-block-32-acc-level-4",
    "w8a8": "w8a8|w8a8_int8",
    "w4a16": "w4a16",
    "q4f16": "q4f16",
}
"""Key -> what llama.cpp of any year, Ollama, vLLM, RKLLM and exports of ONNX call it."""


@pytest.mark.parametrize(("key", "names"), RUNTIMES_SAY.items())
def test_what_runtimes_say_is_the_key_of_the_catalogue(key, names):
    assert {name: format_key(name, KNOWN) for name in names.split("|")} == dict.fromkeys(names.split("|"), key)


@pytest.mark.parametrize(
    ("key", "names", "bits"),
    [
        ("iq4_kss", "IQ4_KSS - 4.0 bpw|iq4_kss", 4.0),
        ("iq2_kt", "IQ2_KT - 2.125 bpw|IQ2_KT", 2.0),
        ("iq1_bn", "IQ1_BN - 1.625 bpw Bitnet", 1.0),
        ("q1_0", "Q1_0|(guessed) Q1_0", 1.0),
        ("q6_0", "Q6_0 - 6.5 bpw", 6.0),
        ("mxfp8", "mxfp8", 8.0),
        ("w4a16_g32", "w4a16_g32|W4A16_G32", 4.0),
        ("8_bit_g64", "8-bit g64", 8.0),
        ("4bit", "4bit|4-bit|MLX-4bit", 4.0),
        ("bnb4", "bnb4", 4.0),
        ("unknown_may_not_work", "unknown, may not work", None),
        ("compressed_tensors", "compressed-tensors", None),
    ],
)
def test_what_the_catalogue_has_not_keeps_its_own_words(key, names, bits):
    for name in names.split("|"):
        assert format_key(name, KNOWN) == key
        assert format_name(name, KNOWN).bits == bits


def test_words_that_contradict_each_other_are_told_unless_stated_bits_decide():
    assert format_name("FP16 vs Q4_K_M", KNOWN).contradiction == "fp16 and q4_k_m"
    assert format_name("4-bit weights (labelled fp16)", KNOWN).contradiction
    assert format_name("mixed 4/6 bit", KNOWN).contradiction == "4 and 6 bit"
    assert format_name("FP16 vs Q4_K_M", KNOWN, 4.9).key == "q4_k_m"
    assert format_name("FP16 vs Q4_K_M", KNOWN, 16.0).key == "fp16"


def test_caches_are_read_as_they_are():
    known = load_catalogue().kv_formats
    assert format_name("fp16 KV", known, of_weights=False).key == "fp16"
    assert format_name("INT8", known, of_weights=False).key == "int8"
    assert format_name("fp8", known, of_weights=False) == ("", 8.0, 8.0, "")


def test_scales_are_of_groups_or_rows():
    assert with_scales(4.0, 128) == 4.125
    assert with_scales(4.0) == 4.5
    assert with_scales(8.0) == 8.0
    assert same_bits(4.0, 5.5)
    assert not same_bits(4.0, 8.0)


def test_a_format_of_which_only_the_bits_are_known_is_unpacked_where_they_are_few():
    made = described("EXL2 4.65bpw", 4.65, 4.65)
    assert (made.key, made.name, made.bits_per_weight, made.needs_unpacking) == (
        "exl2_4_65bpw",
        "EXL2 4.65bpw",
        4.65,
        True,
    )
    assert not described("GPTQ-Int8", 8.0, 8.0).needs_unpacking
    assert made.source


def test_bits_alone_are_one_format_however_they_are_written():
    for bits in ("4", "8"):
        names = ("{}bit", "{}-bit", "{} bits", "MLX-{}bit", "mlx {} bit", "{}bit (MLX)")
        assert {described_key(name.format(bits)) for name in names} == {f"{bits}bit"}
    apart = {"4bit", "GPTQ 4-bit", "4-bit groupwise g128", "2bit-ternary", "MLX 4-bit g32", "6 bit"}
    assert len({described_key(name) for name in apart}) == len(apart)
