"""The decoder against llama.cpp on the same file, and against itself: prompt = steps, one format = another."""

import math

import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter

from kernels.accuracy.metrics import Scored, compare, default_text
from kernels.decoder.linear import FORMATS
from kernels.decoder.transformer import CHUNK_TOKENS, Decoder
from tests.kernels.conftest import LlamaCpp

N_GREEDY = 48
N_SCORED = 600
Z90 = 1.645


@pytest.fixture(scope="module")
def reference_decoder(smollm2):
    return Decoder(smollm2, "fp32")


@pytest.fixture(scope="module")
def scored_text(smollm2_tokenizer):
    return smollm2_tokenizer.encode(default_text()[:4000])[:N_SCORED]


@pytest.fixture(scope="module")
def scored_logits(reference_decoder, scored_text):
    cache = reference_decoder.new_cache(len(scored_text), "fp32")
    return reference_decoder.extend(torch.tensor(scored_text[:-1]), 0, cache, all_logits=True)[0]


@pytest.fixture(scope="module")
def llama_cpp_fp32(smollm2, tmp_path_factory):
    """llama.cpp on the same weights held in fp32: with those it rounds no activations."""
    file = tmp_path_factory.mktemp("fp32") / "smollm2.gguf"
    shape, writer = smollm2.shape, GGUFWriter(file, "llama")
    writer.add_block_count(shape.n_layers)
    writer.add_context_length(shape.max_context_tokens)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(shape.vocab_size)
    for name in tensor_names(shape.n_layers):
        writer.add_tensor(name, smollm2.tensor(name).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reference = LlamaCpp(file, n_ctx=256, kv_type=GGMLQuantizationType.F32)
    yield reference
    reference.close()
    file.unlink()


def tensor_names(n_layers):
    matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    of_layer = ("attn_norm", "ffn_norm", *matrices)
    layers = [f"blk.{i}.{name}.weight" for i in range(n_layers) for name in of_layer]
    return ["token_embd.weight", "output_norm.weight", *layers]


def greedy(step, first_logits, n):
    tokens, logits = [], first_logits
    for i in range(n):
        tokens.append(int(logits.argmax()))
        logits = step(tokens[-1], i)
    return tokens


@pytest.mark.parametrize("text", ["Water boils at", "Python is a programming language that"])
def test_greedy_text_equals_llama_cpp(reference_decoder, smollm2_tokenizer, llama_cpp_fp32, text):
    prompt = smollm2_tokenizer.encode(text)
    cache = reference_decoder.new_cache(len(prompt) + N_GREEDY, "fp32")
    prefilled = reference_decoder.prefill(torch.tensor(prompt), cache)
    ours = greedy(lambda t, i: reference_decoder.decode(t, len(prompt) + i, cache), prefilled.logits, N_GREEDY)
    theirs = greedy(lambda t, i: llama_cpp_fp32.following([t])[0], llama_cpp_fp32.logits(prompt)[-1], N_GREEDY)
    assert smollm2_tokenizer.decode(ours) == smollm2_tokenizer.decode(theirs)


def test_logits_equal_llama_cpp_to_rounding(scored_logits, scored_text, llama_cpp_fp32):
    theirs = llama_cpp_fp32.logits(scored_text[:200])
    assert (scored_logits[:200] - theirs).norm() / theirs.norm() < 1e-5


def test_perplexity_and_logits_are_as_close_to_llama_cpp_as_activations_of_8_bits_allow(
    scored_logits, scored_text, llama_cpp
):
    theirs, targets = llama_cpp.logits(scored_text[:-1]), torch.tensor(scored_text[1:])
    both = compare(Scored.from_logits(theirs, targets), Scored.from_logits(scored_logits, targets))
    # the same rounding in a forward pass in float64: divergence 0.0032, agreement 0.978, correlation 0.9995
    assert both["mean_kl"]["median"] < 0.006
    assert both["top1_agreement"]["median"] > 0.95
    assert torch.corrcoef(torch.stack([scored_logits.flatten(), theirs.flatten()]))[0, 1] > 0.999
    ratio = {end: math.log(both["perplexity_ratio"][end]) for end in ("median", "q95")}
    standard_error = (ratio["q95"] - ratio["median"]) / Z90
    assert standard_error < 0.005
    assert abs(ratio["median"]) < 3 * standard_error


def test_random_model_in_fp32_equals_llama_cpp_to_rounding(tiny, tiny_llama_cpp):
    tokens = torch.randint(0, 256, (48,), generator=torch.Generator().manual_seed(1)).tolist()
    decoder = Decoder(tiny, "fp32")
    ours, _ = decoder.extend(torch.tensor(tokens), 0, decoder.new_cache(64, "fp32"), all_logits=True)
    theirs = tiny_llama_cpp.logits(tokens)
    assert torch.allclose(ours[:, : theirs.shape[1]], theirs, atol=5e-3)  # its KV cache is fp16


@pytest.mark.parametrize("kv_format", ["fp32", "bf16", "fp16", "int8"])
@pytest.mark.parametrize("weight_format", FORMATS)
def test_step_by_step_equals_the_whole_prompt(tiny, weight_format, kv_format):
    decoder = Decoder(tiny, weight_format)
    tokens = torch.arange(40) * 7 % 256
    cache = decoder.new_cache(40, kv_format)
    steps = torch.stack([decoder.decode(int(t), i, cache) for i, t in enumerate(tokens)])
    whole, _ = decoder.extend(tokens, 0, decoder.new_cache(40, kv_format), all_logits=True)
    exact = weight_format == kv_format == "fp32"
    # activations rounded to 8 bits: the last bit of a sum decides now and then, and this random model amplifies it
    rounded = weight_format.startswith(("int8", "int4"))
    assert (steps - whole).norm() / whole.norm() < (1e-5 if exact else 0.04 if rounded else 0.02)


def test_chunked_prompt_equals_the_prompt_in_one_piece(tiny):
    decoder = Decoder(tiny, "fp32")
    tokens = torch.arange(CHUNK_TOKENS + 40) * 5 % 256
    chunked = decoder.prefill(tokens, decoder.new_cache(len(tokens), "fp32"))
    whole, queries = decoder.extend(tokens, 0, decoder.new_cache(len(tokens), "fp32"))
    assert torch.allclose(chunked.logits, whole[0], atol=1e-4)
    assert torch.allclose(chunked.queries, queries, atol=1e-4)
    assert chunked.cache.length == len(tokens)


def test_a_prompt_whose_beginning_is_cached_is_continued(tiny):
    decoder = Decoder(tiny, "fp32")
    tokens = torch.arange(60) * 5 % 256
    whole = decoder.prefill(tokens, decoder.new_cache(60, "fp32"))
    cache = decoder.new_cache(60, "fp32")
    decoder.prefill(tokens[:20], cache)
    assert torch.allclose(decoder.prefill(tokens, cache).logits, whole.logits, atol=1e-4)
    with pytest.raises(ValueError, match="tokens: got 60, expected more than the 60 that are cached"):
        decoder.prefill(tokens, cache)


def test_queries_of_a_last_chunk_shorter_than_the_window_reach_back(tiny):
    decoder = Decoder(tiny, "fp32")
    tokens = torch.arange(CHUNK_TOKENS + 5) * 5 % 256
    prefilled = decoder.prefill(tokens, decoder.new_cache(len(tokens), "fp32"))
    assert prefilled.queries.shape[2] == 32


def test_stopping_between_layers_leaves_the_cache_as_it_was(tiny):
    decoder = Decoder(tiny, "fp32")
    cache = decoder.new_cache(16, "fp32")

    class StopError(Exception):
        pass

    def stop(share):
        if share > 0:
            raise StopError

    with pytest.raises(StopError):
        decoder.extend(torch.arange(8), 0, cache, progress=stop)
    assert cache.length == 0


def test_lower_precision_takes_fewer_bytes_and_stays_close(tiny):
    decoders = [Decoder(tiny, f) for f in ("fp32", "bf16", "int8", "int4")]
    byte = [d.weight_byte for d in decoders]
    assert byte == sorted(byte, reverse=True)
    tokens = torch.arange(30)
    outputs = [d.extend(tokens, 0, d.new_cache(30, "fp32"), all_logits=True)[0] for d in decoders]
    errors = [float((o - outputs[0]).norm() / outputs[0].norm()) for o in outputs]
    assert errors[0] == 0
    assert errors[1] < 0.02
    assert errors[2] < 0.04  # activations are rounded to 8 bits too
    assert errors[3] < 0.3
