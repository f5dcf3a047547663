"""The decoder against llama.cpp on the same file, and against itself: prompt = steps, one format = another."""

import pytest
import torch

from kernels.accuracy.metrics import Scored, compare, default_text
from kernels.decoder.linear import FORMATS
from kernels.decoder.transformer import CHUNK_TOKENS, Decoder

N_GREEDY = 48


@pytest.fixture(scope="module")
def reference_decoder(smollm2):
    return Decoder(smollm2, "fp32")


def greedy(step, first_logits, n):
    tokens, logits = [], first_logits
    for i in range(n):
        tokens.append(int(logits.argmax()))
        logits = step(tokens[-1], i)
    return tokens


# llama.cpp rounds activations to 8 bits: these prompts lead along choices that are clearer than what that moves
@pytest.mark.parametrize("text", ["Water boils at", "Python is a programming language that"])
def test_greedy_text_equals_llama_cpp(reference_decoder, smollm2_tokenizer, llama_cpp, text):
    prompt = smollm2_tokenizer.encode(text)
    cache = reference_decoder.new_cache(len(prompt) + N_GREEDY, "fp32")
    prefilled = reference_decoder.prefill(torch.tensor(prompt), cache)
    ours = greedy(lambda t, i: reference_decoder.decode(t, len(prompt) + i, cache), prefilled.logits, N_GREEDY)
    theirs = greedy(lambda t, i: llama_cpp.following([t])[0], llama_cpp.logits(prompt)[-1], N_GREEDY)
    assert smollm2_tokenizer.decode(ours) == smollm2_tokenizer.decode(theirs)


def test_perplexity_and_logits_equal_llama_cpp(reference_decoder, smollm2_tokenizer, llama_cpp):
    tokens = smollm2_tokenizer.encode(default_text()[:4000])[:600]
    targets = torch.tensor(tokens[1:])
    cache = reference_decoder.new_cache(len(tokens), "fp32")
    ours, _ = reference_decoder.extend(torch.tensor(tokens[:-1]), 0, cache, all_logits=True)
    theirs = llama_cpp.logits(tokens[:-1])
    both = compare(Scored.from_logits(ours, targets), Scored.from_logits(theirs, targets))
    ratio = both["perplexity_ratio"]["median"]
    assert ratio == pytest.approx(1, abs=0.005)  # measured: 0.998 over 1300 tokens
    correlation = torch.corrcoef(torch.stack([ours.flatten(), theirs.flatten()]))[0, 1]
    assert correlation > 0.999
    assert (ours.argmax(-1) == theirs.argmax(-1)).double().mean() > 0.97


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
