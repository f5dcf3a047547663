"""The measured run: an operating point in, what the model on this machine really does at it out."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kernels import pruning, stream
from kernels.judging import MAX_WINDOWS, N_SCORED, Judge, Values
from kernels.limits import Limiter
from kernels.point import Point
from kernels.prompts import Prompt, Prompts, Step
from kernels.quality import read_text
from kernels.timing import Stopwatch, record
from kernels.weights import ModelFile

WHAT = ("quality", "retrieval", "ttft", "decode")
"""What can be asked for, in the order it is measured: decoding can then use the prompt that the others processed."""
TIMED = ("ttft", "decode")
"""What is measured with the point's threads or bandwidth; accuracy does not depend on them."""
OPTIONS = {"n_windows": (1, 1, MAX_WINDOWS), "n_haystacks": (1, 1, MAX_WINDOWS)}
"""What a request can choose besides: its default, and its range."""
WARM_UP_STEPS, MIN_STEPS, MAX_STEPS, MIN_DECODE_S = 3, 32, 200, 0.6
ENOUGH_QUIET_STEPS, MAX_DECODE_S = 32, 2.0
"""Decoding goes on until so many steps were undisturbed, but not for longer than that."""
QUIET_SHARE_WANTED = 0.2
_MAX_TEXT_CHARACTERS = 4 << 20  # of a longer text the start is used
_PROGRESS_EVERY_S = 0.05


class Cancelled(Exception):
    """The measurement was given up because its `cancelled` callback said so."""


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
        self._prompts = Prompts(self._file, read_text(text_file)[:_MAX_TEXT_CHARACTERS])
        n_text = len(self._prompts.text)
        if n_text < 2 * N_SCORED:
            raise ValueError(f"{text_file}: got a text of {n_text} tokens, expected at least {2 * N_SCORED}")
        self._judge = Judge(self._prompts)
        self._limiter = Limiter()

    def measure(
        self,
        point: Mapping[str, Any],
        what: Collection[str],
        progress: Callable[[float, str], None],
        cancelled: Callable[[], bool],
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Measure an operating point.

        Parameters
        ----------
        point : mapping
            ``weights``, ``kv``, ``context_tokens``, ``alpha``, ``policy``, ``layout``, as in an operating point, and
            where given ``bandwidth_byte_s``, to be left to the run by a process beside it, or ``threads``.
        what : collection of str
            Some of `WHAT`.
        progress : callable
            Called with the share done, 0..1, and a sentence.
        cancelled : callable
            Asked about every 50 ms (up to 1 s apart while the output head is loaded), at the latest behind each layer
            of a prompt's chunk; once it returns True, `Cancelled` is raised.
        options : mapping, optional
            Some of `OPTIONS`: windows of text for "quality", and texts with needles for "retrieval".

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
        chosen = _checked_options(options or {})
        longest = min(self._file.shape.max_context_tokens, len(self._prompts.text) - N_SCORED)
        checked = Point.checked(point, longest)
        body: dict[str, Any] = {**_absent(), "conditions": {}, "notes": []}
        run: dict[str, Callable[[Point, Step], Values]] = {
            "decode": self._measure_decode,
            "ttft": self._measure_ttft,
            "quality": lambda at, step: self._judge.quality(at, chosen["n_windows"], step),
            "retrieval": lambda at, step: self._judge.retrieval(at, chosen["n_haystacks"], step),
        }
        steps = {
            name: _step(progress, cancelled, index / len(wanted), 1 / len(wanted)) for index, name in enumerate(wanted)
        }

        def carry_out(names: Collection[str]) -> None:
            body["conditions"] |= machine_conditions()
            for name in names:
                values, found, remarks = run[name](checked, steps[name])
                body.update(values)
                body["conditions"] |= found
                body["notes"] += remarks

        carry_out([name for name in wanted if name not in TIMED])
        timed = [name for name in wanted if name in TIMED]
        if timed:
            with self._placed(checked, steps[timed[0]]) as how:
                carry_out(timed)
            body["conditions"] |= how
        return body

    @contextmanager
    def _placed(self, point: Point, step: Step) -> Iterator[dict[str, Any]]:
        """Give the run the threads or the bandwidth of its point, and say how."""
        if point.bandwidth_byte_s is not None:
            with self._limiter.limited(point.bandwidth_byte_s, step) as limit:
                read = {"bandwidth_byte_s": limit.read_byte_s, "bandwidth_how": limit.words}
                yield {**read, "co_runner_duty_frac": limit.duty_frac}
            return
        own = torch.get_num_threads()
        torch.set_num_threads(point.threads or own)
        try:
            yield {}
        finally:
            torch.set_num_threads(own)

    def _measure_decode(self, point: Point, step: Step) -> Values:
        decoder = self._prompts.decoder(point.weights, step)
        prompt = self._prompts.to_decode_from(decoder, point.kv, point.context_tokens, step)
        cache = pruning.prune(
            prompt.prefilled, point.alpha, point.policy, point.layout, lambda n: decoder.new_cache(n, point.kv)
        )
        watch = Stopwatch()
        token = int(prompt.prefilled.logits.argmax())
        n_cached, start_s = cache.length, time.perf_counter()
        n_read = cache.tokens_read(n_cached)

        def generate() -> None:
            nonlocal token
            cache.length = n_cached - 1  # every step is the one that makes the context this long
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
    def _decode_notes(point: Point, prompt: Prompt, watch: Stopwatch) -> list[str]:
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
        decoder = self._prompts.decoder(point.weights, step)
        how = f", {point.threads} threads, {point.bandwidth_byte_s} byte/s"
        prompt = self._prompts.timed(decoder, point.kv, point.context_tokens, step, how if point.is_limited else "")
        return (
            {"ttft_s": record(prompt.durations_s)},
            {"prefill_window_s": list(prompt.window_s), "prefill_window_prompts": len(prompt.durations_s)},
            (
                ["Time to first token is from a single run, so its spread is not known."]
                if len(prompt.durations_s) == 1
                else []
            ),
        )


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
        "retrieval": ("retrieval_accuracy", "retrieval_greedy"),
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


def _inverse(duration: dict[str, Any]) -> dict[str, Any]:
    return {**duration, "median": 1 / duration["median"], "q05": 1 / duration["q95"], "q95": 1 / duration["q05"]}


def _checked_options(options: Mapping[str, Any]) -> dict[str, int]:
    """Return every option, with its default where it is not given."""
    if unknown := set(options) - set(OPTIONS):
        raise ValueError(f"options: got {sorted(unknown)[0]!r}, expected some of {', '.join(OPTIONS)}")
    checked = {}
    for name, (default, low, high) in OPTIONS.items():
        value = options.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{name}: got {value!r}, expected a whole number from {low} to {high}")
        checked[name] = value
    return checked
