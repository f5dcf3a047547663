"""Processed prompts and packed weights, kept between measurements as far as memory allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from kernels.cache.byte_lru import Memo
from kernels.cache.contiguous import KvCache, copy_tokens
from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.transformer import N_OBSERVED, Decoder, Prefilled
from kernels.decoder.weights import ModelFile

MIN_TTFT_S, MAX_TTFT_RUNS = 1.0, 5
_DECODER_BYTE, _PROMPT_BYTE = 1 << 30, 1 << 30

Step = Callable[[float, str], None]
"""Called between pieces of work with the share done, 0..1, and what runs; may raise to stop."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A processed prompt, and how long processing it took each time; not at all when its cache was carried over."""

    prefilled: Prefilled
    durations_s: list[float] = field(default_factory=list)
    window_s: tuple[float, float] = (0.0, 0.0)  # in which all of them ran


class Prompts:
    """A model file with the prompts that it processed, by format.

    Parameters
    ----------
    file : ModelFile
    text : str
        What prompts are taken from.

    Attributes
    ----------
    compensated : callable, optional
        ``compensated(weights, compensation, step)`` returns the decoder of a compensation other than "none".
    """

    def __init__(self, file: ModelFile, text: str) -> None:
        self.file = file
        self.tokenizer = BytePairTokenizer(file.metadata)
        self.text = torch.tensor(self.tokenizer.encode(text), dtype=torch.int64)
        self._decoders: Memo[str, Decoder] = Memo(_DECODER_BYTE, lambda decoder: decoder.weight_byte)
        self._prompts: Memo[tuple[str, str, str, int], Prompt] = Memo(
            _PROMPT_BYTE, lambda p: _cache_byte(p.prefilled.cache)
        )
        self.compensated: Callable[[str, str, Step], Decoder] | None = None

    def decoder(self, weights: str, step: Step, compensation: str = "none", activation_keep: float = 1.0) -> Decoder:
        """Return the model with its weights in a format, compensated or not, and with so many of its activations."""
        if compensation != "none" and self.compensated is not None:
            return self.compensated(weights, compensation, step).keeping(activation_keep)
        decoder = self._decoders.get(weights)
        if decoder is None:
            decoder = Decoder(self.file, weights, lambda done: step(0.3 * done, f"packing weights as {weights}"))
            self._decoders.put(weights, decoder)
        return decoder.keeping(activation_keep)

    def timed(self, decoder: Decoder, kv: str, n_tokens: int, step: Step, how: str = "") -> Prompt:
        """Return the first tokens of the text, processed in these formats as often as timing needs, now or earlier.

        `how` separates circumstances in which times differ.
        """
        return self._processed(decoder, kv, f"text 0{how}", self.text[:n_tokens], step, MIN_TTFT_S)

    def processed(self, decoder: Decoder, kv: str, name: str, tokens: Tensor, step: Step) -> Prefilled:
        """Return tokens processed in these formats, now or earlier; `name` separates prompts of one length."""
        return self._processed(decoder, kv, name, tokens, step, 0.0).prefilled

    def _processed(self, decoder: Decoder, kv: str, name: str, tokens: Tensor, step: Step, enough_s: float) -> Prompt:
        key = (decoder.key, kv, name, len(tokens))
        prompt = self._prompts.get(key)
        if prompt is not None and _enough(prompt.durations_s, enough_s):
            return prompt
        durations_s: list[float] = []
        text, first_s = f"processing a prompt of {len(tokens)} tokens", time.perf_counter()
        while not _enough(durations_s, enough_s):
            cache = decoder.new_cache(len(tokens), kv)
            start_s = time.perf_counter()
            prefilled = decoder.prefill(tokens, cache, lambda done: step(0.3 + 0.4 * done, text))
            int(prefilled.logits.argmax())
            durations_s.append(time.perf_counter() - start_s)
        prompt = Prompt(prefilled, durations_s, (first_s, time.perf_counter()))
        self._prompts.put(key, prompt)
        return prompt

    def to_decode_from(self, decoder: Decoder, kv: str, n_tokens: int, step: Step) -> Prompt:
        """Return a processed prompt of a length, carried over from another format or length if there is one.

        At least the last `N_OBSERVED` tokens are processed here, to have their queries in these formats.
        """
        key = (decoder.key, kv, "text 0", n_tokens)
        prompt = self._prompts.get(key)
        if prompt is not None:
            return prompt
        donor = max((p.prefilled.cache for _, p in self._prompts.items()), key=lambda cache: cache.length, default=None)
        n_carried = min(donor.length if donor else 0, n_tokens - N_OBSERVED)
        if donor is None or n_carried < 1:
            return self.timed(decoder, kv, n_tokens, step)
        cache = decoder.new_cache(n_tokens, kv)
        copy_tokens(donor, cache, None, n_carried)
        text = f"processing a prompt of {n_tokens} tokens, the first {n_carried} carried over"
        prefilled = decoder.prefill(self.text[:n_tokens], cache, lambda done: step(0.3 + 0.4 * done, text))
        prompt = Prompt(prefilled)
        self._prompts.put(key, prompt)
        return prompt


def _enough(durations_s: list[float], enough_s: float) -> bool:
    return bool(durations_s) and (sum(durations_s) >= enough_s or len(durations_s) >= MAX_TTFT_RUNS)


def _cache_byte(cache: KvCache) -> int:
    return cache.length * cache.byte_per_token()
