"""Ollama: text in, lines of JSON out, durations in nanoseconds in the last one."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping

from app.agent.runtimes import prompt as prompts
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import answered, call, error_of, parse_json, without_secrets
from app.agent.runtimes.outcome import Failed, Run, Timeline, now_s
from app.agent.runtimes.streams import Answer, adapted, n_predict, repeat, result
from app.agent.runtimes.values import count, number

OPTIONS: Mapping[str, Any] = {"raw": True, "seed": 1, "temperature": 0.0}
"""What a model or an engine of Ollama's may refuse."""
MAX_LOAD_SHARE = 0.1
_PROBE_CHAR = 2000


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Measure an operating point with a model that Ollama has."""
    if not entry.name:
        raise Failed(f"{entry.where}: its entry has no name: name the model as `ollama list` does")
    n_new, n_prompt = n_predict(run), run.context_tokens
    version = call(entry, run, "/api/version")
    details = call(entry, run, "/api/show", {"model": entry.name}).get("details")
    n_room = n_prompt + n_prompt // 4 + n_new + 64
    run.progress(0.05, f"Ollama is loading {entry.name}")
    seed = time.time_ns()
    text = prompts.fresh(min(_PROBE_CHAR, 8 * n_prompt), seed)
    probe, options, notes = adapted(entry, OPTIONS, lambda options: ask(entry, run, text, 1, n_room, options))
    n_char = round(n_prompt * min(_PROBE_CHAR, 8 * n_prompt) / max(probe.n_prompt, 1))
    answers = repeat(entry, run, lambda i: ask(entry, run, prompts.fresh(n_char, seed + i + 1), n_new, n_room, options))
    for answer in answers:
        refuse_load(entry, answer)
    level = details.get("quantization_level") if isinstance(details, dict) else None
    conditions = {"version": str(version.get("version", ""))[:40], "model_name": entry.name}
    return result(entry, run, answers, {"weights": str(level or "")}, conditions, notes)


def ask(
    entry: RuntimeEntry, run: Run, text: str, n_new: int, n_room: int, options: Mapping[str, Any] = OPTIONS
) -> Answer:
    """Generate behind a text and return the answer."""
    top = {name: value for name, value in options.items() if name == "raw"}
    rest = {name: value for name, value in options.items() if name not in top}
    message = {
        "model": entry.name,
        "prompt": text,
        **top,
        "stream": True,
        "options": {"num_predict": n_new, "num_ctx": n_room, **rest},
    }
    with answered(entry, run, "/api/generate", message) as exchange:
        exchange.check()
        timeline = Timeline(exchange.start_s, exchange.sent_s)
        last: Dict[str, Any] = {}
        for line in exchange.lines():
            arrived_s = now_s()
            last = parse_json(line, entry)
            if (error := error_of(last)) is not None:
                raise Failed(f"{entry.where} failed: {without_secrets(error, entry)}")
            if last.get("done"):
                break
            if last.get("response") or last.get("thinking"):
                timeline.token_s.append(arrived_s)
                timeline.token_count.append(len(timeline.token_s))
            timeline.buffer_write_s += now_s() - arrived_s
        timeline.end_s, timeline.stall_s = now_s(), exchange.stall_s
    return answer_of(entry, timeline, last)


def answer_of(entry: RuntimeEntry, timeline: Timeline, last: Mapping[str, Any]) -> Answer:
    """Check the last object of a stream and return the answer with Ollama's own timings.

    Raises
    ------
    Failed
        The stream broke off, or the prompt came out of a cache: then it has no `prompt_eval_count`.
    """
    if not last.get("done"):
        raise Failed(f"{entry.where} broke off the stream before its last message")
    n_prompt, n_generated = count(last, "prompt_eval_count"), count(last, "eval_count") or 0
    if not n_prompt:
        raise Failed(f"{entry.where} does not tell the length of the prompt, as when it took it from its cache")
    told: Dict[str, Any] = {}
    for name, key in (("server_prefill_s", "prompt_eval_duration"), ("server_load_s", "load_duration")):
        if number(last, key) == number(last, key):
            told[name] = number(last, key) * 1e-9
    if number(last, "eval_duration") > 0 and n_generated:
        told["server_decode_s"] = number(last, "eval_duration") * 1e-9 / n_generated
    return Answer(timeline, n_prompt, n_generated, told, told.get("server_prefill_s", float("nan")))


def refuse_load(entry: RuntimeEntry, answer: Answer) -> None:
    """Refuse a run that the loading of the model is part of."""
    wait_s = answer.timeline.token_s[0] - answer.timeline.start_s
    load_s = answer.told.get("server_load_s", 0.0)
    if load_s > MAX_LOAD_SHARE * wait_s and load_s > 0.2:
        raise Failed(
            f"{entry.where} loaded the model for {load_s:.1f} s inside the run: measure again once it stays loaded"
        )
