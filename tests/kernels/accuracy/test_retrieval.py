"""Needles in a haystack: where they lie, that they are found, and that pruning them away loses them."""

import pytest
import torch

from kernels.accuracy.metrics import default_text
from kernels.accuracy.retrieval import N_NEEDLES, QUESTION_TOKENS, ask, haystack
from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.transformer import Decoder
from kernels.eviction import prune


@pytest.fixture(scope="module")
def filler(smollm2_tokenizer):
    return torch.tensor(smollm2_tokenizer.encode(default_text()[:20_000]))


@pytest.fixture(scope="module")
def hidden(smollm2_tokenizer, filler):
    return haystack(smollm2_tokenizer, filler, 600, seed=1)


@pytest.fixture(scope="module")
def decoder(smollm2):
    return Decoder(smollm2, "fp32")


@pytest.fixture(scope="module")
def prefilled(decoder, hidden):
    return decoder.prefill(hidden.tokens, decoder.new_cache(len(hidden.tokens), "fp32"))


def asked(decoder, hidden, prefilled, alpha, policy="sinks_recent", layout="compacted"):
    cache = prune.prune(prefilled, alpha, policy, layout, lambda n: decoder.new_cache(n, "fp32"), room=QUESTION_TOKENS)
    length = cache.length
    answered = ask(decoder, hidden, cache)
    assert cache.length == length
    return answered


def test_every_needle_lies_where_it_says_and_states_its_own_answer(smollm2_tokenizer, hidden):
    assert len(hidden.tokens) == 600
    depths = [needle.depth_frac for needle in hidden.needles]
    assert depths == sorted(depths)
    assert depths[0] < 0.15
    assert depths[-1] > 0.8
    for needle in hidden.needles:
        fact = smollm2_tokenizer.decode(needle.question.tolist()).strip()
        answer = smollm2_tokenizer.decode(hidden.answers[needle.answer].tolist())
        start = int(needle.depth_frac * 600)
        assert f"{fact}{answer}." in smollm2_tokenizer.decode(hidden.tokens[start : start + 20].tolist())
        assert len(needle.question) + 8 < QUESTION_TOKENS
    assert len({tuple(answer.tolist()) for answer in hidden.answers}) == N_NEEDLES


def test_the_same_seed_hides_the_same(smollm2_tokenizer, filler, hidden):
    assert torch.equal(haystack(smollm2_tokenizer, filler, 600, seed=1).tokens, hidden.tokens)
    assert not torch.equal(haystack(smollm2_tokenizer, filler, 600, seed=2).tokens, hidden.tokens)


def test_the_model_finds_most_needles_and_loses_those_that_are_pruned(decoder, hidden, prefilled):
    full = asked(decoder, hidden, prefilled, 0.0)
    assert full.chosen.mean() >= 0.5  # 0.1 by chance
    assert torch.all(full.chosen >= full.greedy)  # written greedily means held most likely
    pruned = asked(decoder, hidden, prefilled, 0.8)
    gone = (full.depth_frac > 0.05) & (full.depth_frac < 0.75)  # what a recent window of a fifth does not hold
    assert pruned.chosen[gone].sum() < full.chosen[gone].sum()
    masked = asked(decoder, hidden, prefilled, 0.8, layout="masked")
    assert torch.equal(masked.chosen, pruned.chosen)


def test_answers_of_several_tokens_are_judged_whole(tiny):
    tokenizer = BytePairTokenizer(tiny.metadata)  # bytes: every answer takes several tokens
    filler = torch.tensor(tokenizer.encode(default_text()[:2000]))
    hidden = haystack(tokenizer, filler, 520, seed=0)
    assert all(len(answer) > 1 for answer in hidden.answers)
    decoder = Decoder(tiny, "fp32")
    answered = asked(decoder, hidden, decoder.prefill(hidden.tokens, decoder.new_cache(520, "fp32")), 0.0)
    assert set(answered.chosen.tolist()) <= {0.0, 1.0}
    assert answered.greedy.sum() <= 2  # random weights copy nothing


def test_a_context_too_short_for_the_needles_is_refused(smollm2_tokenizer, filler):
    with pytest.raises(ValueError, match=r"context_tokens: got 64, expected at least \d+ to hide 10 needles in"):
        haystack(smollm2_tokenizer, filler, 64, seed=0)
    with pytest.raises(ValueError, match="text: got 100 tokens"):
        haystack(smollm2_tokenizer, filler[:100], 600, seed=0)
