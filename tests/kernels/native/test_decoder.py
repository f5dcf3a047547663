"""A token in one call of the C library equals the same token operator by operator, and torch alone."""

import time

import pytest
import torch

from kernels.accuracy.metrics import Scored, compare, default_text
from kernels.cache.contiguous import FORMATS as KV_FORMATS
from kernels.cache.contiguous import FloatKvCache
from kernels.cache.paged import PagedKvCache
from kernels.decoder.architectures import ARCHITECTURES
from kernels.decoder.linear import FORMATS
from kernels.decoder.stages import LAYER_STAGES, StageTimes
from kernels.decoder.transformer import Decoder
from kernels.decoder.weights import ModelFile
from kernels.native import library
from tests.tiny_gguf import WIDE_HEADS, write_tiny_gguf

N_TOKENS = 70  # one page and a part


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    assert library.available(), library.status().absent
    return ModelFile(write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "wide.gguf", sizes=WIDE_HEADS))


@pytest.fixture(scope="module")
def decoders(wide):
    return {weight_format: Decoder(wide, weight_format) for weight_format in FORMATS}


def tokens_of(n):
    return [7 * i % 256 for i in range(n)]


def relative(a, b):
    return float((a - b).norm() / b.norm())


def filled(decoder, kv_format, n=N_TOKENS):
    """A cache of a prompt, with room."""
    cache = decoder.new_cache(n + 8, kv_format)
    decoder.prefill(torch.tensor(tokens_of(n)), cache)
    return cache


def by_operators(decoder, token, position, cache):
    with torch.inference_mode():
        return decoder._decode_by_operators(decoder._embedding.rows(torch.tensor([token])), position, cache, None)


@pytest.mark.parametrize("kv_format", KV_FORMATS)
@pytest.mark.parametrize("weight_format", FORMATS)
def test_one_call_equals_operator_by_operator(decoders, weight_format, kv_format):
    decoder = decoders[weight_format]
    assert decoder.is_native
    cache = filled(decoder, kv_format)
    assert isinstance(cache, PagedKvCache)
    ours = decoder.decode(5, N_TOKENS, cache)
    assert cache.length == N_TOKENS + 1
    cache.length = N_TOKENS
    theirs = by_operators(decoder, 5, N_TOKENS, cache)
    # where something is rounded, a last bit decides now and then
    rounded = 0.03 if weight_format.startswith(("int8", "int4")) else {"int8": 1e-4, "int4": 1e-2}.get(kv_format, 1e-5)
    assert relative(ours, theirs) < rounded


@pytest.mark.parametrize(
    ("weight_format", "tolerance"), [("fp32", 1e-5), ("bf16", 0.03), ("fp16", 0.004), ("int8", 0.06)]
)
def test_one_call_equals_torch_alone(wide, decoders, weight_format, tolerance):
    alone = Decoder(wide, weight_format, use_native=False)
    assert not alone.is_native
    shape = wide.shape
    cache = FloatKvCache(shape.n_layers, shape.n_kv_heads, N_TOKENS, shape.head_dim, "fp32")
    ours_cache = decoders[weight_format].new_cache(N_TOKENS, "fp32")
    for i, token in enumerate(tokens_of(N_TOKENS)):
        theirs = alone.decode(token, i, cache)
        ours = decoders[weight_format].decode(token, i, ours_cache)
        assert relative(ours, theirs) < tolerance, i


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != "llama"])
def test_other_families_in_one_call_equal_operator_by_operator(tmp_path, architecture):
    sizes = {**WIDE_HEADS, "n_layers": 6}  # of which one attends to all tokens, or rotates nothing
    file = ModelFile(write_tiny_gguf(tmp_path / "model.gguf", architecture=architecture, sizes=sizes))
    for weight_format in ("fp32", "bf16"):
        decoder = Decoder(file, weight_format)
        assert decoder.is_native
        cache = filled(decoder, "fp32")
        ours = decoder.decode(5, N_TOKENS, cache)
        cache.length = N_TOKENS
        x = decoder._embedded(torch.tensor([5]))
        with torch.inference_mode():
            theirs = decoder._decode_by_operators(x, N_TOKENS, cache, None)
        assert relative(ours, theirs) < 1e-5


@pytest.mark.parametrize(("kv_format", "tolerance"), [("int8", 2e-4), ("int4", 0.02)])
def test_attention_by_integers_gives_nearly_what_floats_give(decoders, monkeypatch, kv_format, tolerance):
    decoder, n = decoders["fp32"], 200
    cache = filled(decoder, kv_format, n)
    ours = decoder.decode(5, n, cache)
    cache.length = n

    def attend(layer, q, n_keys):
        k, v = cache.dequantised(layer, n_keys)
        return (q.view(len(k), -1, k.shape[2]) @ k.mT).softmax(-1) @ v

    monkeypatch.setattr(cache, "attend", attend)
    floats = by_operators(decoder, 5, n, cache)
    exact = decoder.decode(5, n, filled(decoder, "fp32", n))
    error = relative(ours, floats)
    assert 0 < error < tolerance
    assert error < relative(floats, exact) / 10  # of what the format itself costs


def test_a_masked_cache_hides_the_same_tokens(decoders):
    decoder = decoders["fp32"]
    cache = filled(decoder, "fp32")
    unmasked = decoder.decode(5, N_TOKENS, cache)
    cache.length = N_TOKENS
    mask = torch.zeros(cache.n_layers, 2, 1, N_TOKENS + 8)
    mask[:, 0, :, 10:60] = -torch.inf
    mask[:, 1, :, 3:40] = -torch.inf
    cache.mask = mask
    ours = decoder.decode(5, N_TOKENS, cache)
    cache.length = N_TOKENS
    assert relative(ours, by_operators(decoder, 5, N_TOKENS, cache)) < 1e-5
    assert relative(ours, unmasked) > 1e-3


def test_only_the_listed_pages_are_read(decoders):
    decoder, n = decoders["fp32"], 64 * 4 + 9
    cache = filled(decoder, "fp32", n)
    whole = decoder.decode(5, n, cache)
    cache.length = n
    cache.read_only(torch.tensor([[0, 2], [1, 3]]).expand(cache.n_layers, 2, 2), n)
    ours = decoder.decode(5, n, cache)
    cache.length = n
    assert relative(ours, by_operators(decoder, 5, n, cache)) < 1e-5
    assert relative(ours, whole) > 1e-3


def test_a_full_cache_takes_no_token_more(decoders):
    cache = decoders["fp32"].new_cache(64, "fp16")
    cache.length = 64
    with pytest.raises(ValueError, match="n_keys: got 65, expected 1 to the 64 tokens that the cache can hold"):
        decoders["fp32"].decode(5, 64, cache)
    assert cache.length == 64


@pytest.mark.parametrize("native", [True, False])
def test_stages_are_real_times_of_the_step_and_change_nothing(wide, native):
    decoder = Decoder(wide, "fp32", use_native=native)
    cache = filled(decoder, "bf16", 600)
    plain = decoder.decode(5, 600, cache)
    cache.length = 600
    shares = []
    for _ in range(5):  # a machine that is busy takes the process away between two stages
        stages = StageTimes(wide.shape.n_layers)
        start_s = time.perf_counter()
        timed = decoder.decode(5, 600, cache, stages)
        shares.append(stages.total_s / (time.perf_counter() - start_s))
        cache.length = 600
        assert torch.equal(timed, plain)
    assert stages.layer_s.shape == (2, len(LAYER_STAGES))
    assert (stages.layer_s > 0).all()
    assert stages.embedding_s > 0
    assert stages.head_s > 0
    assert 0.1 < max(shares) < 1


def test_one_thread_gives_what_several_give(decoders):
    decoder = decoders["fp32"]
    cache = filled(decoder, "fp32")
    several = decoder.decode(5, N_TOKENS, cache)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cache.length = N_TOKENS
        assert relative(decoder.decode(5, N_TOKENS, cache), several) < 1e-6
    finally:
        torch.set_num_threads(before)


def test_the_head_of_a_four_bit_model_is_held_in_eight(decoders, wide):
    assert decoders["int4"]._head.weight_format == "int8"
    assert decoders["int4"].weight_byte < decoders["int8"].weight_byte < decoders["fp32"].weight_byte / 3


def test_weights_of_the_file_are_taken_as_they_are(smollm2, smollm2_tokenizer):
    four_bit, exact = Decoder(smollm2, "int4"), Decoder(smollm2, "fp32")
    for ours, theirs in zip(four_bit._layers[7].linears(), exact._layers[7].linears(), strict=True):
        assert torch.equal(ours.dequantised(), theirs.dequantised())
    assert torch.equal(four_bit._head.dequantised(), exact._head.dequantised())
    tokens = smollm2_tokenizer.encode(default_text()[:1500])[:80]
    cache = four_bit.new_cache(len(tokens), "fp32")
    steps = torch.stack([four_bit.decode(t, i, cache) for i, t in enumerate(tokens[:-1])])
    whole, _ = exact.extend(torch.tensor(tokens[:-1]), 0, exact.new_cache(len(tokens), "fp32"), all_logits=True)
    scored = [Scored.from_logits(logits, torch.tensor(tokens[1:])) for logits in (steps, whole)]
    # what is left is the rounding of activations to eight bits: 0.01 of the ratio is one standard error, sqrt(2 KL / n)
    found = compare(*scored)
    assert found["mean_kl"]["median"] < 0.005
    assert found["perplexity_ratio"]["median"] == pytest.approx(1, abs=0.04)
