import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.names.formats import agree, described, described_key, format_name, with_scales

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
        ("iq3_m", "IQ3_M|iq3-m (imatrix)"),
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
        ("int4_g128", "INT4 g128|int4, group size 128"),
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
    assert agree(4.0, 5.5)
    assert not agree(4.0, 8.0)


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
