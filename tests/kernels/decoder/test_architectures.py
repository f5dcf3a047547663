"""Families beside Llama: the same logits as llama.cpp from one random file; what is not supported is named."""

import ctypes
from dataclasses import replace
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import pytest
import torch

from kernels.attention.window import AttentionRule
from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.transformer import Decoder
from kernels.decoder.weights import ModelFile
from kernels.eviction.policies import POLICIES
from kernels.eviction.prune import LAYOUTS, prune
from tests.kernels.conftest import LlamaCpp
from tests.tiny_gguf import WIDE_HEADS, write_tiny_gguf

RNG = np.random.default_rng(7)
ROPE_FREQS = {"rope_freqs.weight": np.linspace(1, 8, 8, dtype=np.float32)}
FILES = {
    "llama with rotary factors": {"architecture": "llama", "tensors": ROPE_FREQS},
    "llama with its own head": {
        "architecture": "llama",
        "tensors": {"output.weight": RNG.normal(0, 0.1, (259, 64)).astype(np.float32)},
    },
    "qwen2": {"architecture": "qwen2"},
    "phi3": {"architecture": "phi3"},
    "gemma": {"architecture": "gemma"},
    "gemma2": {"architecture": "gemma2", "sizes": {"n_layers": 26}},  # llama.cpp knows the sizes by their layers
    "gemma2 scaled by its width": {"architecture": "gemma2", "sizes": {"n_layers": 46}},
    "gemma2 in one call": {"architecture": "gemma2", "sizes": {**WIDE_HEADS, "n_layers": 26}},
}
TOKENS = [5, 77, 200, 31, 256, 257, 0, 140, 9, 9, 60, 254, 33, 21, 100, 101]


@pytest.fixture(scope="module", params=FILES)
def path(request, tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "model.gguf", **FILES[request.param])


@pytest.fixture(scope="module")
def theirs(path):
    reference = LlamaCpp(path, n_ctx=64)
    yield reference.logits(TOKENS)
    reference.close()


@pytest.mark.parametrize("use_native", [True, False])
def test_logits_equal_llama_cpp(path, theirs, use_native):
    decoder = Decoder(ModelFile(path), "fp32", use_native=use_native)
    cache = decoder.new_cache(len(TOKENS), "fp32")
    ours, _ = decoder.extend(torch.tensor(TOKENS[:8]), 0, cache, all_logits=True)
    steps = [decoder.decode(token, 8 + i, cache) for i, token in enumerate(TOKENS[8:])]
    ours = torch.cat([ours, torch.stack(steps)])
    assert (ours - theirs).abs().max() < 0.01 * theirs.std()  # its cache is fp16


NARROW = {
    "qwen3": {
        2: [-0.6652, -0.5741, 0.3189, -1.1459, 2.5502, -2.8652],
        9: [-1.0426, 0.0894, -0.5332, -0.0975, 0.4133, -1.7596],
        15: [1.3441, 0.2855, 0.5200, 0.0882, 0.4391, -1.4025],
    },
    "gemma3": {
        2: [0.0433, 0.6638, -1.6988, -1.4798, -1.7618, 0.5676],
        9: [2.2328, -0.7600, -1.2573, -0.7688, -2.8424, 0.6376],
        15: [-0.7277, 0.7202, 0.0744, 2.5956, 0.2279, -1.8079],
    },
    "smollm3": {
        2: [-1.7828, -0.6011, 1.6743, 0.6568, 0.0961, 0.8337],
        9: [-2.4608, -0.3502, 1.4871, 1.1118, 1.1536, 0.5453],
        15: [-2.2931, -0.1512, 1.7563, -0.0644, 1.2390, 0.2295],
    },
}
WIDE = {
    "qwen3": {
        2: [-0.4020, -0.3371, 2.4446, 0.8875, 0.7243, -1.7405],
        9: [0.2456, -0.6340, 1.2070, 1.7264, -0.3753, -2.7546],
        79: [-0.8082, -0.5082, 0.3798, 0.5845, 1.3526, -1.1950],
    },
    "gemma3": {
        2: [0.4323, 0.4704, 1.1311, -0.5610, 0.8185, -1.0126],
        9: [1.6800, 0.3733, 0.9285, 0.3982, 1.0046, -1.0890],
        79: [-0.5262, 0.6812, -1.4608, 1.1149, 0.5297, -0.5179],
    },
    "smollm3": {
        2: [0.0760, 0.0278, 2.8090, 1.1989, 0.7732, -0.8695],
        9: [0.7863, -0.3666, 2.4990, 1.8250, 0.4988, -2.6245],
        79: [0.2065, 0.0773, 3.6704, 1.4477, 1.1523, -1.1660],
    },
}
"""Logits of the tokens 0 to 5 behind three of `TOKENS` in turn, by versions of llama.cpp that know these families
(4227c9b, llama-cpp-python 0.3.16)."""


@pytest.mark.parametrize("name", NARROW)
def test_logits_of_newer_families_equal_those_llama_cpp_gave(tmp_path, name):
    sizes = {} if name == "qwen3" else {"n_layers": 6}
    _check_golden(write_tiny_gguf(tmp_path / "model.gguf", architecture=name, sizes=sizes), NARROW[name])


@pytest.mark.parametrize("name", WIDE)
def test_logits_of_newer_families_in_one_call_equal_those_llama_cpp_gave(tmp_path, name):
    sizes = {**WIDE_HEADS, "n_layers": 6}
    file = write_tiny_gguf(tmp_path / "model.gguf", architecture=name, sizes=sizes)
    assert _check_golden(file, WIDE[name]).is_native


def _check_golden(file, golden):
    decoder = Decoder(ModelFile(file), "fp32")
    tokens = TOKENS * (max(golden) // len(TOKENS) + 1)
    cache = decoder.new_cache(len(tokens), "fp32")
    ours = torch.stack([decoder.decode(token, i, cache) for i, token in enumerate(tokens)])
    for position, expected in golden.items():
        assert (ours[position, :6] - torch.tensor(expected)).abs().max() < 0.01 * ours.std()
    return decoder


@pytest.fixture(scope="module", params=[32, 64])
def windowed(request, tmp_path_factory):
    """A model all of whose layers see 5 tokens, with soft caps, in torch's caches and in those of the C library."""
    sizes = {"head_dim": request.param}
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    file = ModelFile(write_tiny_gguf(path, architecture="gemma2", sizes=sizes))
    file.shape = replace(file.shape, rule=AttentionRule((5, 5), file.shape.rule.soft_cap))
    return Decoder(file, "fp32")


def test_what_a_window_hides_does_not_matter(windowed):
    logits = []
    for tokens in (TOKENS, [9, 9, 9, *TOKENS[3:]]):
        cache = windowed.new_cache(len(tokens), "fp32")
        logits.append(windowed.extend(torch.tensor(tokens), 0, cache)[0])
        assert cache.tokens_read(len(tokens)) == 5
    assert torch.equal(*logits)  # the second layer sees 9 tokens, the last 5 of the first layer's


@pytest.mark.parametrize("kv", ["bf16", "fp16", "int8", "int4"])
def test_windows_and_soft_caps_hold_in_every_cache(windowed, kv):
    logits = []
    for kv_format in ("fp32", kv):
        cache = windowed.new_cache(len(TOKENS), kv_format)
        windowed.extend(torch.tensor(TOKENS[:9]), 0, cache)
        logits.append(torch.stack([windowed.decode(token, 9 + i, cache) for i, token in enumerate(TOKENS[9:])]))
    assert torch.corrcoef(torch.stack([x.flatten() for x in logits]))[0, 1] > (0.98 if kv == "int4" else 0.9999)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("policy", POLICIES)
def test_pruning_keeps_what_a_window_sees(windowed, policy, layout):
    """As long as more is kept than the window holds, pruning changes nothing in such layers."""
    prompt = windowed.prefill(torch.tensor(TOKENS * 10), windowed.new_cache(160, "fp32"))
    logits = []
    for alpha in (0.0, 0.5):
        cache = prune(prompt, alpha, policy, layout, lambda n: windowed.new_cache(n, "fp32"), room=4)
        logits.append(torch.stack([windowed.decode(token, 160 + i, cache) for i, token in enumerate(TOKENS[:4])]))
    assert torch.allclose(*logits, atol=1e-5)


def test_linearly_scaled_positions_equal_positions_that_far_apart(tmp_path):
    files = [
        write_tiny_gguf(tmp_path / f"{i}.gguf", **extra) for i, extra in enumerate(({}, {"rope.scale_linear": 2.0}))
    ]
    logits = []
    for file, step in zip(files, (1, 2), strict=True):
        decoder = Decoder(ModelFile(file), "fp32", use_native=False)
        cache = decoder.new_cache(8, "fp32")
        for i, token in enumerate(TOKENS[:6]):
            logits.append(decoder.decode(token, step * i, cache))
    assert torch.allclose(torch.stack(logits[:6]), torch.stack(logits[6:]), atol=1e-4)


def test_a_window_of_attention_bounds_the_context(tmp_path):
    file = write_tiny_gguf(tmp_path / "window.gguf", **{"attention.sliding_window": 128.0})
    assert ModelFile(file).shape.max_context_tokens == 128


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"architecture": "mamba"},
            "this decoder lacks layers with a recurrent state; expected llama, qwen2",
        ),
        (
            {"architecture": "deepseek2"},
            "is not supported, this decoder lacks attention over a latent (MLA)",
        ),
        ({"architecture": "qwen3moe"}, "'qwen3moe' is not supported, this decoder lacks a mixture of experts"),
        ({"architecture": "qwen2vl"}, "'qwen2vl' is not supported, this decoder lacks positions of images"),
        ({"architecture": "xverse"}, "architecture 'xverse' is not supported; expected llama, qwen2, qwen3, phi3"),
        ({"architecture": "gemma3", "attention.sliding_window_pattern": 0.0}, "sliding_window_pattern"),
        ({"expert_count": 8.0}, "architecture 'llama' with a mixture of experts is not supported"),
        ({"rope.dimension_count": 8.0}, "part of the head"),
        ({"tensors": {"blk.0.attn_q_norm.weight": np.ones(16, np.float32)}}, "with a tensor blk.0.attn_q_norm.weight"),
        ({"attention.value_length": 32.0}, "values of another length than keys"),
    ],
)
def test_what_is_not_supported_is_named_in_one_sentence(tmp_path, options, says):
    with pytest.raises(ValueError, match=r"model.gguf: ") as caught:
        ModelFile(write_tiny_gguf(tmp_path / "model.gguf", **options))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_scaled_positions_of_another_kind_are_named(tmp_path):
    file = write_tiny_gguf(tmp_path / "yarn.gguf")
    reader = ModelFile(file)
    reader.metadata = {**reader.metadata, "llama.rope.scaling.type": "yarn"}
    with pytest.raises(ValueError, match="rotary positions scaled by 'yarn' are not supported, expected 'linear'"):
        reader._read_shape()


def test_one_bias_without_its_neighbours_is_named(tmp_path):
    file = write_tiny_gguf(tmp_path / "m.gguf", tensors={"blk.0.attn_q.bias": np.ones(64, np.float32)})
    with pytest.raises(ValueError, match=r"tensor blk.0.attn_k.bias is missing, although its neighbours are there"):
        Decoder(ModelFile(file), "fp32")


# --- weight types -----------------------------------------------------------------------------------------------------

QUANTISED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]
LARGEST_ERROR = {"Q8_0": 0.01, "Q6_K": 0.03, "Q5": 0.06, "Q4": 0.12, "IQ4": 0.12, "Q3": 0.25, "Q2": 0.5}


@pytest.fixture(scope="module")
def ggml():
    """The quantiser of llama.cpp's own library."""
    folder = Path(llama_cpp.__file__).parent / "lib"
    loaded = ctypes.CDLL(str(next(folder.glob("libggml-base.so*"))))
    loaded.ggml_quantize_chunk.restype = ctypes.c_size_t
    loaded.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p,
    ]  # fmt: skip
    return loaded


def quantised(ggml, name, values):
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = values.shape
    blocks = np.zeros((rows, columns // block * size), np.uint8)
    source = np.ascontiguousarray(values, np.float32)
    ggml.ggml_quantize_chunk(int(kind), source.ctypes.data, blocks.ctypes.data, 0, rows, columns, None)
    return blocks, kind


@pytest.mark.parametrize("name", QUANTISED)
def test_every_weight_type_is_read_as_it_was_quantised(ggml, tmp_path, name):
    values = np.random.default_rng(3).normal(0, 1, (259, 256)).astype(np.float32)
    sizes = {"hidden": 256, "inner": 256, "n_heads": 4, "n_kv_heads": 2, "head_dim": 64, "n_layers": 1}
    file = ModelFile(
        write_tiny_gguf(tmp_path / "q.gguf", sizes=sizes, quantise=lambda _: quantised(ggml, name, values[: len(_)]))
    )
    read = file.tensor("token_embd.weight").numpy()
    limit = next(limit for prefix, limit in LARGEST_ERROR.items() if name.startswith(prefix))
    error = np.sqrt(np.mean((read - values) ** 2))
    assert 0 < error < limit
    assert file.format("token_embd.weight") == name


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0", "Q6_K"])
def test_logits_of_quantised_files_equal_llama_cpp(ggml, tmp_path, name):
    sizes = {"hidden": 256, "inner": 512, "n_heads": 4, "n_kv_heads": 2, "head_dim": 64}
    file = write_tiny_gguf(
        tmp_path / "q.gguf", architecture="qwen2", sizes=sizes, quantise=lambda values: quantised(ggml, name, values)
    )
    reference = LlamaCpp(file, n_ctx=64)
    theirs = reference.logits(TOKENS)
    reference.close()
    model = ModelFile(file)
    for use_native, weights in ((True, "fp32"), (True, "int8" if name == "Q8_0" else "int4"), (False, "fp32")):
        decoder = Decoder(model, weights, use_native=use_native)
        cache = decoder.new_cache(len(TOKENS), "fp32")
        ours = torch.stack([decoder.decode(token, i, cache) for i, token in enumerate(TOKENS)])
        agreement = torch.corrcoef(torch.stack([ours.flatten(), theirs.flatten()]))[0, 1]
        assert agreement > (0.999 if weights == "fp32" or name != "Q6_K" else 0.98)


# --- tokenizers -------------------------------------------------------------------------------------------------------

TEXTS = ["the thermal thing's 12345 + 6.7", "  we'LL  see\n\n the\tend ", "Grüße, 日本 the 👍", "x=1;\r\n  y = 'the'"]


@pytest.mark.parametrize("pre", ["smollm", "qwen2", "llama-bpe", "gpt-2"])
def test_pre_tokenizers_equal_llama_cpp(tmp_path, monkeypatch, pre):
    monkeypatch.setattr("tests.tiny_gguf.PRE", {"llama": pre})
    file = write_tiny_gguf(tmp_path / "t.gguf")
    reference = LlamaCpp(file, n_ctx=32)
    tokenizer = BytePairTokenizer(ModelFile(file).metadata)
    for text in TEXTS:
        assert tokenizer.encode(text) == reference.tokenize(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
    reference.close()
