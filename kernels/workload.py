"""The measured run: an operating point in, what the model on this machine really does at it out."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from kernels.accuracy.compensation import Compensator, ParameterStore
from kernels.accuracy.evaluation import MAX_WINDOWS, N_SCORED, AccuracyEvaluator, Values
from kernels.accuracy.metrics import read_text
from kernels.cache.laid_out import moved_s
from kernels.cache.prepared import Prompt, Prompts, Step
from kernels.decoder.decoding import Decoding, Timed, time_stages, time_steps
from kernels.decoder.linear import GRID_BITS
from kernels.decoder.transformer import Decoder
from kernels.decoder.weights import ModelFile
from kernels.eviction import prune
from kernels.eviction.reselect import Reselection, reselection_cost
from kernels.machine import stream
from kernels.machine.bandwidth_limit import Limiter
from kernels.machine.stream import ReadProbe
from kernels.machine.timing import Stopwatch, record
from kernels.native.build import cpu_model
from kernels.point import Point

WHAT = ("compensation", "quality", "retrieval", "attention", "ttft", "decode", "stages")
"""What can be asked for, in the order it is measured: decoding can then use the prompt that the others processed."""
TIMED = ("ttft", "decode", "stages")
"""What is measured with the point's threads or bandwidth; accuracy does not depend on them."""
GROUPS = {
    "decode": ("decode_s", "tokens_per_s", "memory_byte"),
    "ttft": ("ttft_s",),
    "quality": ("perplexity", "perplexity_ratio", "mean_kl", "top1_agreement"),
    "retrieval": ("retrieval_accuracy", "retrieval_greedy"),
    "attention": ("attention_by_head",),
    "stages": ("stages_s", "layer_s", "request_stages_s"),
    "compensation": ("compensation",),
}
"""The quantities of each."""
OPTIONS = {
    "n_windows": (1, 1, MAX_WINDOWS),
    "n_haystacks": (1, 1, MAX_WINDOWS),
    "probed": (0, 0, 1),
    "n_compared": (8, 2, MAX_WINDOWS),
}
"""What a request can choose besides: its default, and its range."""
QUIET_SHARE_WANTED = 0.2
PROBE_CACHES = 2
"""Last-level caches that a probe between two tokens reads: enough to miss them, 2 ms."""
RESELECTION_EVERY = 64
"""Tokens that one choice of what is read would serve, where the point chooses once."""
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
    parameters : ParameterStore, optional
        The compensation parameters of the board.

    Raises
    ------
    ValueError
        When a file cannot be read or run.
    """

    def __init__(
        self,
        model_file: Path,
        n_threads: int | None = None,
        text_file: Path | None = None,
        parameters: ParameterStore | None = None,
    ) -> None:
        if n_threads is not None:
            if n_threads < 1:
                raise ValueError(f"n_threads: got {n_threads}, expected at least 1")
            torch.set_num_threads(n_threads)
        self._file = ModelFile(model_file)
        self._prompts = Prompts(self._file, read_text(text_file, _MAX_TEXT_CHARACTERS))
        n_text = len(self._prompts.text)
        if n_text < 2 * N_SCORED:
            raise ValueError(f"{text_file}: got a text of {n_text} tokens, expected at least {2 * N_SCORED}")
        self._judge = AccuracyEvaluator(self._prompts)
        self._compensator = Compensator(self._prompts, parameters)
        self._limiter = Limiter()

    @functools.cached_property
    def _probe(self) -> ReadProbe:
        return ReadProbe(cache_multiple=PROBE_CACHES, n_reads=1)

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
            where given ``bandwidth_byte_s``, to be left to the run by a co-runner, or ``threads``.
        what : collection of str
            Some of `WHAT`.
        progress : callable
            Called with the share done, 0..1, and a sentence.
        cancelled : callable
            Asked about every 50 ms (up to 1 s apart while the output head is loaded), at the latest behind each layer
            of a prompt's chunk; once it returns True, `Cancelled` is raised.
        options : mapping, optional
            Some of `OPTIONS`: windows of text for "quality", texts with needles for "retrieval", windows of text for
            "compensation", and for "decode" whether the read bandwidth is probed between the tokens, which then have no
            energy of their own.

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
            "decode": lambda at, step: self._measure_decode(at, step, probed=bool(chosen["probed"])),
            "ttft": self._measure_ttft,
            "quality": lambda at, step: self._judge.quality(at, chosen["n_windows"], step),
            "retrieval": lambda at, step: self._judge.retrieval(at, chosen["n_haystacks"], step),
            "attention": self._judge.attention,
            "stages": self._measure_stages,
        }
        steps = {
            name: _step(progress, cancelled, index / len(wanted), 1 / len(wanted)) for index, name in enumerate(wanted)
        }
        if "compensation" in wanted:
            wanted.remove("compensation")
            body["conditions"] |= machine_conditions()
            own = steps["compensation"]
            body |= self._compensator.measured(checked, chosen["n_compared"], self._judge, self._decoding, own)
        applied, notes = self._compensator.prepare(checked)
        body["conditions"] |= applied
        body["notes"] += notes

        def carry_out(names: Collection[str]) -> None:
            body["conditions"] |= machine_conditions()
            for name in names:
                if name in TIMED and checked.weights in GRID_BITS:
                    reason = f"{checked.weights} is held in 32 bits here, for its accuracy only: its speed is not known"
                    body.update({key: {"absent": reason} for key in GROUPS[name]})
                    continue
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
            if "bandwidth_how" in how:
                body["notes"].append(f"Measured at reduced bandwidth: {how['bandwidth_how']}.")
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

    def _decoding(self, point: Point, step: Step) -> tuple[Decoding, Prompt]:
        decoder = self._prompts.decoder(point.weights, step, point.compensation, point.activation_keep)
        prompt = self._prompts.to_decode_from(decoder, point.kv, point.context_tokens, step)
        cache = prune.prune(
            prompt.prefilled,
            point.alpha,
            point.policy,
            point.layout,
            _empty(decoder, point),
            weights=point.score_weights,
        )
        token = int(prompt.prefilled.logits.argmax())
        return Decoding(decoder, cache, cache.length, point.context_tokens - 1, token), prompt

    def _measure_decode(self, point: Point, step: Step, *, probed: bool) -> Values:
        decoding, prompt = self._decoding(point, step)
        timed = time_steps(decoding, step, self._probe if probed else None)
        choice = self._choice(point, decoding, prompt) if point.alpha > 0 and point.layout != "masked" else None
        added_s = choice.per_token_s if choice is not None and point.reselect_tokens else 0.0
        duration, n_read = _later(timed.watch.record(), added_s), decoding.cache.tokens_read(decoding.n_cached)
        held_byte = decoding.decoder.weight_byte + n_read * decoding.cache.byte_per_token()
        values = {"decode_s": duration, "tokens_per_s": _inverse(duration), "memory_byte": record([held_byte])}
        conditions = {
            "quiet_share": timed.watch.quiet_share,
            "kv_tokens_read": n_read,
            **_power_window(timed),
        }
        notes = self._decode_notes(point, prompt, timed.watch)
        if point.kv_layout:
            conditions["relayout_s"] = record(moved_s(prompt.prefilled.cache, _empty(decoding.decoder, point)))
        notes += point.option_notes(conditions)
        if choice is not None:
            conditions["choice_s"] = record(choice.durations_s)
            counted = "included in" if added_s else "not included in"
            once_ms, token_ms = 1e3 * choice.per_token_s * choice.every, 1e3 * choice.per_token_s
            notes.append(
                f"Token re-selection takes {once_ms:.1f} ms ({token_ms:.2f} ms/token at every {choice.every} tokens; "
                f"{counted} the decode time)."
            )
        return values, conditions, notes

    @staticmethod
    def _choice(point: Point, decoding: Decoding, prompt: Prompt) -> Reselection:
        every, new_cache = point.reselect_tokens or RESELECTION_EVERY, _empty(decoding.decoder, point)
        return reselection_cost(
            prompt.prefilled, point.alpha, point.policy, point.layout, new_cache, every, point.score_weights
        )

    def _measure_stages(self, point: Point, step: Step) -> Values:
        decoding, prompt = self._decoding(point, step)
        found = time_stages(decoding, step)
        return {**found, "request_stages_s": self._request_stages(point, prompt, found)}, {}, []

    def _request_stages(self, point: Point, prompt: Prompt, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the seven stages of a request: what is computed here, and why the others are absent.

        Building the cache and the first token are one pass; the head behind the last token is what is left of it.
        """
        text = self._prompts.tokenizer.decode(self._prompts.text[: point.context_tokens].tolist())
        start_s = time.perf_counter()
        self._prompts.tokenizer.encode(text)
        load_s = time.perf_counter() - start_s
        first_s = found["stages_s"]["head_s"]["median"] + found["stages_s"]["rest_s"]["median"]
        undelivered = {"absent": "the decoder hands its tokens to nobody: no buffer, no protocol, no device"}
        built: dict[str, Any] = {"absent": "this prompt was not processed in these formats; ttft tells"}
        if prompt.durations_s:
            built = record([max(0.0, seconds - first_s) for seconds in prompt.durations_s])
        return {
            "prompt_load_s": record([load_s]),
            "kv_build_s": built,
            "first_token_s": record([first_s]),
            "decode_s": found["step_s"],
            **dict.fromkeys(("buffer_write_s", "protocol_s", "peripheral_s"), undelivered),
        }

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
        decoder = self._prompts.decoder(point.weights, step, point.compensation, point.activation_keep)
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
        "cpu": cpu_model(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _absent() -> dict[str, Any]:
    return {name: {"absent": f"{what} was not asked for"} for what, group in GROUPS.items() for name in group}


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


def _power_window(timed: Timed) -> dict[str, Any]:
    """Return over what the agent integrates the power and what was generated in it, or why it cannot."""
    if timed.read_byte_s:
        reason = "the read bandwidth was probed between the tokens, which takes energy too"
        return {"read_byte_s": record(timed.read_byte_s), "no_window": reason}
    return {
        "decode_window_s": [timed.start_s, timed.end_s],
        "decode_window_tokens": len(timed.watch.durations_s),
    }


def _empty(decoder: Decoder, point: Point) -> prune.NewCache:
    """Return what makes an empty cache in a point's format and layout."""
    return lambda n_tokens: decoder.new_cache(n_tokens, point.kv, point.kv_layout)


def _later(duration: dict[str, Any], added_s: float) -> dict[str, Any]:
    return {name: value + added_s if name in ("median", "q05", "q95") else value for name, value in duration.items()}


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
