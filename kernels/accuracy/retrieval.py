"""Needles in a haystack: facts hidden at several depths of a text, asked for after the cache was pruned.

Language modelling lives on the last tokens, retrieval on a few distant ones, so pruning harms the two very differently.
A needle says what the code word of a place is. After the text is processed and its cache pruned, without knowing the
question, the model completes the same sentence again; it is right when it holds the place's own code word more likely
than those of all other needles of the text, and greedily right when it would have written it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.cache.contiguous import KvCache
from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.transformer import Decoder

PLACES = (
    "harbour", "library", "station", "museum", "castle", "garden", "bakery", "theatre", "hospital", "factory",
    "airport", "market", "tower", "bridge", "chapel", "stadium", "prison", "palace", "laboratory", "cinema",
)  # fmt: skip
CODE_WORDS = (
    "apple", "silver", "winter", "tiger", "orange", "river", "copper", "guitar", "marble", "pepper", "eagle", "violet",
    "planet", "summer", "dragon", "butter", "window", "spring", "lemon", "rocket", "forest", "diamond", "ocean",
    "coffee", "yellow", "rabbit", "engine", "candle", "thunder",
)  # fmt: skip
N_NEEDLES = 10
"""Needles of one haystack, at even depths."""
QUESTION_TOKENS = 96
"""More tokens than a question with its answer takes."""


@dataclass(frozen=True, slots=True)
class Needle:
    """One fact: the question that asks for it, the index of its answer, and how deep in the text it lies, 0..1."""

    question: Tensor  # [n] int64
    answer: int
    depth_frac: float


@dataclass(frozen=True, slots=True)
class Haystack:
    """A text with needles in it, and the answers among which the model chooses."""

    tokens: Tensor  # [n_tokens] int64
    needles: tuple[Needle, ...]
    answers: tuple[Tensor, ...]  # one a needle, [n] int64


@dataclass(frozen=True, slots=True)
class Answered:
    """Result for each needle of a haystack; each [n_needles] float64, 1 for right."""

    chosen: Tensor
    greedy: Tensor
    depth_frac: Tensor


def haystack(tokenizer: BytePairTokenizer, filler: Tensor, n_tokens: int, seed: int) -> Haystack:
    """Hide `N_NEEDLES` needles in a text.

    Parameters
    ----------
    tokenizer : BytePairTokenizer
    filler : Tensor
        [>= n_tokens] int64, the text.
    n_tokens : int
        Length of the whole with the needles.
    seed : int
        Which places and code words.

    Raises
    ------
    ValueError
        The needles alone are longer than `n_tokens`, or the text is shorter.
    """
    rng = random.Random(seed)
    places = rng.sample(PLACES, N_NEEDLES)
    words = rng.sample(_alike(tokenizer, CODE_WORDS), N_NEEDLES)
    facts = [tokenizer.encode(f"\n{_question(p)} {w}.\n") for p, w in zip(places, words, strict=True)]
    n_filler = n_tokens - sum(map(len, facts))
    if n_filler < N_NEEDLES + 1:
        needed = sum(map(len, facts)) + N_NEEDLES + 1
        raise ValueError(f"context_tokens: got {n_tokens}, expected at least {needed} to hide {N_NEEDLES} needles in")
    if len(filler) < n_filler:
        raise ValueError(f"text: got {len(filler)} tokens, expected at least {n_filler}")
    tokens: list[int] = []
    needles = []
    for index, (place, fact) in enumerate(zip(places, facts, strict=True)):
        tokens += filler[index * n_filler // (N_NEEDLES + 1) : (index + 1) * n_filler // (N_NEEDLES + 1)].tolist()
        question = torch.tensor(tokenizer.encode(f"\n\n{_question(place)}"))
        needles.append(Needle(question, index, len(tokens) / n_tokens))
        tokens += fact
    tokens += filler[N_NEEDLES * n_filler // (N_NEEDLES + 1) : n_filler].tolist()
    answers = tuple(torch.tensor(tokenizer.encode(f" {word}")) for word in words)
    return Haystack(torch.tensor(tokens), tuple(needles), answers)


def _question(place: str) -> str:
    return f"The code word of the {place} is"


def _alike(tokenizer: BytePairTokenizer, words: Sequence[str]) -> list[str]:
    """Return the words that take as many tokens as most do, so that their likelihoods compare."""
    by_length: defaultdict[int, list[str]] = defaultdict(list)
    for word in words:
        by_length[len(tokenizer.encode(f" {word}"))].append(word)
    most = max(by_length.values(), key=len)
    return most if len(most) >= N_NEEDLES else list(words)


def ask(decoder: Decoder, hidden: Haystack, cache: KvCache, step: Callable[[float], None] = lambda _: None) -> Answered:
    """Ask for every needle of a haystack.

    Parameters
    ----------
    decoder : Decoder
    hidden : Haystack
    cache : KvCache
        Of the processed haystack, pruned or not, with room for `QUESTION_TOKENS` more; left as it was.
    step : callable
        Called with the share done before each question; may raise to stop.
    """
    length, n = cache.length, len(hidden.needles)
    chosen, greedy = torch.zeros(2, n, dtype=torch.float64)
    for index, needle in enumerate(hidden.needles):
        step(index / n)
        likelihood, written = _judge(decoder, hidden, needle, cache)
        chosen[index] = likelihood[needle.answer] >= likelihood.max()  # formats of few bits tie
        greedy[index] = written
        cache.length = length
    return Answered(chosen, greedy, torch.tensor([needle.depth_frac for needle in hidden.needles]))


def _judge(decoder: Decoder, hidden: Haystack, needle: Needle, cache: KvCache) -> tuple[Tensor, bool]:
    """Return the log-likelihood of each answer [n_answers], and whether the right one would be written greedily."""
    logits, _ = decoder.extend(needle.question, len(hidden.tokens), cache)
    asked, position = cache.length, len(hidden.tokens) + len(needle.question)
    first = torch.log_softmax(logits[0], -1)
    totals, written = [], False
    for index, answer in enumerate(hidden.answers):
        log_probs = first[None]
        if len(answer) > 1:
            cache.length = asked
            rest, _ = decoder.extend(answer[:-1], position, cache, all_logits=True)
            log_probs = torch.cat([log_probs, torch.log_softmax(rest, -1)])
        totals.append(log_probs.gather(1, answer[:, None]).sum())
        if index == needle.answer:
            written = torch.equal(log_probs.argmax(-1), answer)
    return torch.stack(totals), written
