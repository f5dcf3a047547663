"""llama.cpp's own benchmark, ``llama-bench -o json``: processing of a prompt, and generation behind it."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, Mapping

from app.agent.runtimes import outcome
from app.agent.runtimes.command import Command, run_to_end
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.outcome import Failed, Run
from app.agent.runtimes.values import count, number

REPEATS, N_GEN = 5, 32
CACHE_TYPES = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "q8_0": "q8_0", "q4_0": "q4_0"}
NO_WINDOW = "llama-bench loads the model inside its own run, so a window of its power would not be that of the tokens"
_BEGIN = re.compile(r"^[ \t]*[\[{]", re.M)
KEPT = (
    "build_commit",
    "build_number",
    "cpu_info",
    "gpu_info",
    "backends",
    "n_threads",
    "n_batch",
    "n_ubatch",
    "flash_attn",
)


def parse(text: str) -> List[Dict[str, Any]]:
    """Return the tests in the output of ``-o json`` or ``-o jsonl``, unknown members kept, paths cut to file names.

    Other lines before, between and behind them are passed over, and so is what a broken end has cut.

    Raises
    ------
    ValueError
        It holds no test.
    """
    found = [item for value in _values(text) for item in (value if isinstance(value, list) else [value])]
    tests = [dict(test) for test in found if isinstance(test, dict) and samples_s(test)]
    if not tests:
        raise ValueError("holds no test of llama-bench: expected objects with n_prompt, n_gen and samples_ns")
    for test in tests:
        if isinstance(test.get("model_filename"), str):
            test["model_filename"] = test["model_filename"].replace("\\", "/").rsplit("/", 1)[-1]
    return tests


def samples_s(test: Mapping[str, Any]) -> List[float]:
    """Return the repeats of a test in seconds: its samples, else its average; [] when neither is there."""
    samples = test.get("samples_ns")
    found = [number({"x": x}, "x") * 1e-9 for x in samples] if isinstance(samples, list) else []
    found = found or [number(test, "avg_ns") * 1e-9]
    return found if all(value > 0 for value in found) else []


def weights_of(test: Mapping[str, Any]) -> str:
    """Return the weight format of a test in llama.cpp's words, behind architecture and size; "" if none.

    >>> weights_of({"model_type": "llama4 17B.16E (Scout) IQ4_XS - 4.25 bpw"})
    'IQ4_XS - 4.25 bpw'
    """
    words = re.sub(r" \((?:Scout|Maverick)\)", "", str(test.get("model_type") or "")).split(None, 2)
    return words[-1] if len(words) > 1 else ""


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Measure an operating point with llama-bench."""
    n_prompt, kv = run.context_tokens, str(run.point.get("kv", "fp16"))
    common = _command(entry, n_prompt, kv)
    body, notes = outcome.blank(entry, run.what), []
    prompt: Dict[str, Any] = {}
    if "ttft" in run.what or "decode" in run.what:
        run.progress(0.1, f"llama-bench: a prompt of {n_prompt} tokens")
        prompt = _one(_run(entry, run, [*common, "-p", str(n_prompt), "-n", "0"]))
    if "ttft" in run.what:
        body["ttft_s"] = outcome.record(samples_s(prompt))
        notes.append("Time to first token is llama-bench's prompt processing: without tokenising and sampling.")
    if "decode" in run.what:
        run.progress(0.5, f"llama-bench: {N_GEN} tokens behind {n_prompt}")
        body["decode_s"] = _decode(entry, run, common, n_prompt, prompt, notes)
        body["tokens_per_s"] = outcome.speed_of(body["decode_s"])
    body["applied"], sentences = outcome.applied(entry, run, {"weights": weights_of(prompt), "kv": kv})
    told = {name: prompt[name] for name in KEPT if name in prompt}
    body["conditions"] = {
        "runtime": "llama-bench",
        **told,
        "threads": count(prompt, "n_threads"),
        "no_window": NO_WINDOW,
    }
    body["notes"] = notes + sentences
    return body


def _command(entry: RuntimeEntry, n_prompt: int, kv: str) -> List[str]:
    """Return the arguments that both tests of a point share."""
    if kv not in CACHE_TYPES:
        raise Failed(f"kv {kv} is not a KV format of llama.cpp: expected one of {', '.join(CACHE_TYPES)}")
    kind = CACHE_TYPES[kv]
    argv = [*entry.command({"kv": kind, "context": n_prompt, "n_predict": N_GEN}), "-o", "json", "-r", str(REPEATS)]
    quantised = ["-fa", "1"] if kv in ("q8_0", "q4_0") else []  # a quantised value cache needs it
    return [*argv, "-ctk", kind, "-ctv", kind, *quantised]


def _decode(
    entry: RuntimeEntry, run: Run, common: List[str], n_prompt: int, prompt: Mapping[str, Any], notes: List[str]
) -> Dict[str, Any]:
    """Return the time of a token behind a prompt: with ``-d``, or by difference where this build lacks it."""
    command = run_to_end([*common, "-p", "0", "-n", str(N_GEN), "-d", str(n_prompt)], run, entry.timeout_s)
    if command.status == 0:
        test = _one(command)
        if count(test, "n_depth") != n_prompt:
            raise Failed(
                f"llama-bench generated behind {test.get('n_depth')} tokens, not behind the {n_prompt} asked for"
            )
        return outcome.record([sample / N_GEN for sample in samples_s(test)])
    if not any("invalid parameter" in line for line in [*command.words(), command.output.decode("utf-8", "replace")]):
        raise Failed(command.why_ended())
    both = samples_s(_one(_run(entry, run, [*common, "-p", "0", "-n", "0", "-pg", f"{n_prompt},{N_GEN}"])))
    alone = sorted(samples_s(prompt))
    middle = alone[len(alone) // 2]
    gains = [(sample - middle) / N_GEN for sample in both]
    if min(gains) <= 0:
        raise Failed("this llama-bench has no -d, and its prompt times scatter more than the generation takes")
    spread = (alone[-1] - alone[0]) / N_GEN
    found = outcome.record(gains)
    notes.append("This llama-bench has no -d: the time of a token is that of prompt and generation less the prompt's.")
    return {**found, "q05": max(found["q05"] - spread, 0.0) or found["q05"], "q95": found["q95"] + spread}


def _run(entry: RuntimeEntry, run: Run, argv: List[str]) -> Command:
    command = run_to_end(argv, run, entry.timeout_s)
    if command.status != 0:
        raise Failed(command.why_ended())
    return command


def _one(command: Command) -> Dict[str, Any]:
    try:
        return parse(command.output.decode("utf-8", "replace"))[-1]
    except ValueError as error:
        raise Failed(f"the output of {command.name} {error}") from None


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values in a text that begin a line."""
    decoder, at = json.JSONDecoder(), 0
    while (begin := _BEGIN.search(text, at)) is not None:
        at = begin.end()
        try:
            value, at = decoder.raw_decode(text, at - 1)
        except (ValueError, RecursionError):
            continue
        yield value
