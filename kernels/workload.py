"""The measured run: an operating point in, what the model on this machine really does at it out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kernels import pruning, stream
from kernels.cache import KvCache, copy_tokens
from kernels.memo import Memo
from kernels.point import Point
from kernels.quality import Scored, compare, read_text
from kernels.timing import Stopwatch, record
from kernels.tokenizer import BytePairTokenizer
from kernels.transformer import N_OBSERVED, Decoder, Prefilled
from kernels.weights import ModelFile

WHAT = ("ttft", "quality", "decode")
"""What can be asked for, in the order it is measured: decoding can then use the prompt that the others processed."""
N_SCORED = 256
"""Tokens behind the context that accuracy is measured on."""
WARM_UP_STEPS, MIN_STEPS, MAX_STEPS, MIN_DECODE_S = 3, 32, 200, 0.6
ENOUGH_QUIET_STEPS, MAX_DECODE_S = 32, 2.0
"""Decoding goes on until so many steps were undisturbed, but not for longer than that."""
MIN_TTFT_S, MAX_TTFT_RUNS = 1.0, 5
QUIET_SHARE_WANTED = 0.2
_DECODER_BYTE, _PROMPT_BYTE, _REFERENCE_BYTE = 1 << 30, 1 << 30, 512 << 20
_PROGRESS_EVERY_S = 0.05
_SCORED_CHUNK = 128

Step = Callable[[float, str], None]


class Cancelled(Exception):
    """The measurement was given up because its `cancelled` callback said so."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    prefilled: Prefilled
    durations_s: list[float]  # empty when the cache was carried over from another prompt
    window_s: tuple[float, float] = (0.0, 0.0)  # in which all of them ran


class Workload:
    """A model file, ready to be measured at operating points.

    Parameters
    ----------
    model_file : Path
        A GGUF file of the Llama family.
    n_threads : int, optional
        Threads that torch computes with; torch's own default when None.
    text_file : Path, optional
        The text that prompts and accuracy are taken from; Python's own documentation when None.

    Raises
    ------
    ValueError
        When a file cannot be read or run.
    """

    def __init__(self, model_file: Path, n_threads: int | None = None, text_file: Path | None = None) -> None:
        if n_threads is not None:
            if n_threads < 1:
                raise ValueError(f"n_threads: got {n_threads}, expected at least 1")
            torch.set_num_threads(n_threads)
        self._file = ModelFile(model_file)
        needed = self._file.shape.max_context_tokens + N_SCORED
        text = read_text(text_file)[: 16 * needed]  # a token is rarely longer than 16 characters
        self._tokens = torch.tensor(BytePairTokenizer(self._file.metadata).encode(text)[:needed])
        if len(self._tokens) < 2 * N_SCORED:
            raise ValueError(f"{text_file}: got a text of {len(self._tokens)} tokens, expected at least {2 * N_SCORED}")
        self._decoders: Memo[str, Decoder] = Memo(_DECODER_BYTE, lambda decoder: decoder.weight_byte)
        self._prompts: Memo[tuple[str, str, int], _Prompt] = Memo(
            _PROMPT_BYTE, lambda p: _cache_byte(p.prefilled.cache)
        )
        self._references: Memo[int, Scored] = Memo(_REFERENCE_BYTE, lambda scored: scored.log_probs.nbytes)

    def measure(
        self,
        point: Mapping[str, Any],
        what: Collection[str],
        progress: Callable[[float, str], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        """Measure an operating point.

        Parameters
        ----------
        point : mapping
            ``weights``, ``kv``, ``context_tokens``, ``alpha``, ``policy``, ``layout``, as in an operating point.
        what : collection of str
            Some of `WHAT`.
        progress : callable
            Called with the share done, 0..1, and a sentence.
        cancelled : callable
            Asked about every 50 ms (up to 1 s apart while the output head is loaded), at the latest behind each layer
            of a prompt's chunk; once it returns True, `Cancelled` is raised.

        Returns
        -------
        dict
            Per quantity a measured record or ``{"absent": reason}``; ``conditions`` and ``notes``.

        Raises
        ------
        ValueError
            When the point cannot be applied here, in one sentence.
        Cancelled
            When `cancelled` returned True.
        """
        wanted = [name for name in WHAT if name in what]
        if not wanted or set(what) - set(WHAT):
            raise ValueError(f"what: got {sorted(what)}, expected some of {', '.join(WHAT)}")
        longest = min(self._file.shape.max_context_tokens, len(self._tokens) - N_SCORED)
        checked = Point.checked(point, longest)
        result: dict[str, Any] = _absent()
        conditions: dict[str, Any] = machine_conditions()
        notes: list[str] = []
        run = {"decode": self._measure_decode, "ttft": self._measure_ttft, "quality": self._measure_quality}
        for index, name in enumerate(wanted):
            step = _step(progress, cancelled, index / len(wanted), 1 / len(wanted))
            values, found, remarks = run[name](checked, step)
            result |= values
            conditions |= found
            notes += remarks
        return {**result, "conditions": conditions, "notes": notes}

    def _measure_decode(self, point: Point, step: Step) -> Values:
        decoder = self._decoder(point.weights, step)
        prompt = self._prompt_for_decode(decoder, point, step)
        cache = pruning.prune(
            prompt.prefilled, point.alpha, point.policy, point.layout, lambda n: decoder.new_cache(n, point.kv)
        )
        watch = Stopwatch()
        token = int(prompt.prefilled.logits.argmax())
        n_read, start_s = cache.length, time.perf_counter()

        def generate() -> None:
            nonlocal token
            cache.length = n_read - 1  # every step is the one that makes the context this long
            token = int(decoder.decode(token, point.context_tokens - 1, cache).argmax())

        for count in range(WARM_UP_STEPS + MAX_STEPS):
            if count == WARM_UP_STEPS:
                watch, start_s = Stopwatch(), time.perf_counter()
            elapsed_s = time.perf_counter() - start_s
            enough = sum(watch.quiet) >= ENOUGH_QUIET_STEPS or elapsed_s >= MAX_DECODE_S
            if count >= WARM_UP_STEPS + MIN_STEPS and elapsed_s >= MIN_DECODE_S and enough:
                break
            step(0.7 + 0.3 * min(1, elapsed_s / MIN_DECODE_S), "generating tokens")
            watch.time(generate)
        duration = watch.record()
        values = {
            "decode_s": duration,
            "tokens_per_s": _inverse(duration),
            "memory_byte": record([decoder.weight_byte + n_read * cache.byte_per_token()]),
        }
        return (
            values,
            {
                "quiet_share": watch.quiet_share,
                "kv_tokens_read": n_read,
                # over which the agent integrates the power, and what was generated in it
                "decode_window_s": [start_s, time.perf_counter()],
                "decode_window_tokens": len(watch.durations_s),
            },
            self._decode_notes(point, prompt, watch),
        )

    @staticmethod
    def _decode_notes(point: Point, prompt: _Prompt, watch: Stopwatch) -> list[str]:
        notes = []
        if not prompt.durations_s:
            notes.append(
                "Decode was timed on a KV cache partly carried over from another measurement's prompt and converted; "
                "its values do not affect the time."
            )
        if watch.quiet_share < QUIET_SHARE_WANTED:
            notes.append(
                f"The machine was busy: other processes interrupted {1 - watch.quiet_share:.0%} of the decode steps."
            )
        if point.layout == "masked" and point.alpha > 0:
            notes.append("The masked layout reads the whole cache, so pruning saves no time in it.")
        return notes

    def _measure_ttft(self, point: Point, step: Step) -> Values:
        decoder = self._decoder(point.weights, step)
        prompt = self._processed_prompt(decoder, point.kv, point.context_tokens, step)
        return (
            {"ttft_s": record(prompt.durations_s)},
            {"prefill_window_s": list(prompt.window_s), "prefill_window_prompts": len(prompt.durations_s)},
            (
                ["Time to first token is from a single run, so its spread is not known."]
                if len(prompt.durations_s) == 1
                else []
            ),
        )

    def _measure_quality(self, point: Point, step: Step) -> Values:
        n_context = min(point.context_tokens, self._file.shape.max_context_tokens - N_SCORED)
        reference = self._reference(n_context, _part(step, 0, 0.6))
        run = reference
        if not point.is_reference:
            run = self._scored(point, n_context, _part(step, 0.6, 0.4))
        notes = [
            f"Accuracy is relative to the file {self._file.path.name} run in fp32 without pruning, "
            f"over {N_SCORED} tokens behind a context of {n_context}; its weights are {self._file.format_summary}."
        ]
        return dict(compare(run, reference)), {"n_scored_tokens": N_SCORED, "quality_context_tokens": n_context}, notes

    def _reference(self, n_context: int, step: Step) -> Scored:
        reference = self._references.get(n_context)
        if reference is None:
            point = Point("fp32", "fp32", n_context, 0.0, "sinks_recent", "compacted")
            reference = self._scored(point, n_context, step)
            self._references.put(n_context, reference)
        return reference

    def _scored(self, point: Point, n_context: int, step: Step) -> Scored:
        """Predict the tokens behind a context with a point's formats, the context's cache pruned as the point says."""
        decoder = self._decoder(point.weights, step)
        prompt = self._processed_prompt(decoder, point.kv, n_context, step)
        cache = pruning.prune(
            prompt.prefilled,
            point.alpha,
            point.policy,
            point.layout,
            lambda n: decoder.new_cache(n, point.kv),
            room=N_SCORED,
        )
        following = self._tokens[n_context : n_context + N_SCORED]
        logits = [prompt.prefilled.logits[None]]
        for first in range(0, N_SCORED - 1, _SCORED_CHUNK):
            chunk = following[first : min(first + _SCORED_CHUNK, N_SCORED - 1)]

            def layer_done(share: float, first: int = first, n: int = len(chunk)) -> None:
                step(0.7 + 0.3 * (first + share * n) / N_SCORED, "predicting the text behind the context")

            logits.append(decoder.extend(chunk, n_context + first, cache, all_logits=True, progress=layer_done)[0])
        return Scored.from_logits(torch.cat(logits), following)

    def _decoder(self, weights: str, step: Step) -> Decoder:
        decoder = self._decoders.get(weights)
        if decoder is None:
            decoder = Decoder(self._file, weights, lambda done: step(0.3 * done, f"packing weights as {weights}"))
            self._decoders.put(weights, decoder)
        return decoder

    def _processed_prompt(self, decoder: Decoder, kv: str, n_tokens: int, step: Step) -> _Prompt:
        """Return the prompt of a length, really processed in these formats, now or earlier."""
        key = (decoder.weight_format, kv, n_tokens)
        prompt = self._prompts.get(key)
        if prompt is not None and prompt.durations_s:
            return prompt
        durations_s: list[float] = []
        first_s = time.perf_counter()
        text = f"processing a prompt of {n_tokens} tokens"
        while not durations_s or (sum(durations_s) < MIN_TTFT_S and len(durations_s) < MAX_TTFT_RUNS):
            cache = decoder.new_cache(n_tokens, kv)
            start_s = time.perf_counter()
            prefilled = decoder.prefill(self._tokens[:n_tokens], cache, lambda done: step(0.3 + 0.4 * done, text))
            int(prefilled.logits.argmax())
            durations_s.append(time.perf_counter() - start_s)
        prompt = _Prompt(prefilled, durations_s, (first_s, time.perf_counter()))
        self._prompts.put(key, prompt)
        return prompt

    def _prompt_for_decode(self, decoder: Decoder, point: Point, step: Step) -> _Prompt:
        """Return a processed prompt of the point's context, carried over from another format or length if there is one.

        At least the last `N_OBSERVED` tokens are processed here, to have their queries in the point's formats.
        """
        n_tokens = point.context_tokens
        key = (point.weights, point.kv, n_tokens)
        prompt = self._prompts.get(key)
        if prompt is not None:
            return prompt
        donor = max((p.prefilled.cache for _, p in self._prompts.items()), key=lambda cache: cache.length, default=None)
        n_carried = min(donor.length if donor else 0, n_tokens - N_OBSERVED)
        if donor is None or n_carried < 1:
            return self._processed_prompt(decoder, point.kv, n_tokens, step)
        cache = decoder.new_cache(n_tokens, point.kv)
        copy_tokens(donor, cache, None, n_carried)
        text = f"processing a prompt of {n_tokens} tokens, the first {n_carried} carried over"
        prefilled = decoder.prefill(self._tokens[:n_tokens], cache, lambda done: step(0.3 + 0.4 * done, text))
        prompt = _Prompt(prefilled, [])
        self._prompts.put(key, prompt)
        return prompt


Values = tuple[dict[str, Any], dict[str, Any], list[str]]
"""Records by quantity, conditions, notes."""


def measure_bandwidth(progress: Callable[[float, str], None], cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Measure the memory bandwidth.

    `progress` and `cancelled` as in `Workload.measure`. Returns ``read_byte_s``, ``copy_byte_s``, ``triad_byte_s``,
    each a measured record, and ``conditions``.
    """
    result = stream.measure(_step(progress, cancelled, 0, 1))
    conditions = machine_conditions() | {"quiet_share": result.pop("quiet_share")}
    return {**result, "conditions": conditions}


def machine_conditions() -> dict[str, Any]:
    """Describe what every measurement on this machine depends on."""
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu": _cpu_name(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    for line in (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    ):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _absent() -> dict[str, Any]:
    names = {
        "decode": ("decode_s", "tokens_per_s", "memory_byte"),
        "ttft": ("ttft_s",),
        "quality": ("perplexity", "perplexity_ratio", "mean_kl", "top1_agreement"),
    }
    return {name: {"absent": f"{what} was not asked for"} for what, group in names.items() for name in group}


def _step(progress: Callable[[float, str], None], cancelled: Callable[[], bool], first: float, share: float) -> Step:
    """Make the callback that a measurement runs between pieces of work: asks for cancellation and reports, not too
    often.
    """
    last_s = 0.0

    def step(done: float, text: str) -> None:
        nonlocal last_s
        now_s = time.perf_counter()
        if now_s - last_s < _PROGRESS_EVERY_S:
            return
        last_s = now_s
        if cancelled():
            raise Cancelled
        progress(first + share * done, text)

    return step


def _part(step: Step, first: float, share: float) -> Step:
    return lambda done, text: step(first + share * done, text)


def _inverse(duration: dict[str, Any]) -> dict[str, Any]:
    return {**duration, "median": 1 / duration["median"], "q05": 1 / duration["q95"], "q95": 1 / duration["q05"]}


def _cache_byte(cache: KvCache) -> int:
    return cache.length * cache.byte_per_token()
