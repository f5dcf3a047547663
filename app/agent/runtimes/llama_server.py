"""llama.cpp's server: prompts as tokens of an exact number, never from its cache, timings of both ends."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Tuple
from urllib.parse import quote

from app.agent.runtimes import prompt as prompts
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import Exchange, answered, call, error_of, parse_json, sse_data, without_secrets
from app.agent.runtimes.outcome import Failed, Refused, Run, Timeline, now_s
from app.agent.runtimes.streams import Answer, adapted, n_predict, repeat, result
from app.agent.runtimes.values import count, number, refuse_cached, refuse_other_prompt

LOADING_POLL_S = 0.25
OPTIONS: Mapping[str, Any] = {
    "timings_per_token": True,
    "ignore_eos": True,
    "temperature": 0.0,
    "cache_prompt": False,
}
"""What another server with this interface may refuse; whether a prompt came from a cache is seen in its answer."""
NO_ROUTE: Mapping[str, str] = {}


def wait_until_ready(entry: RuntimeEntry, run: Run) -> None:
    """Wait while the server loads its model.

    Raises
    ------
    Failed
        It does not answer, is not well, or loads for longer than the entry's time-out.
    """
    end_s = now_s() + entry.timeout_s
    while True:
        with Exchange(entry, run, "/health") as exchange:
            if exchange.status == 200:
                return
            if exchange.status != 503:
                exchange.check()
        if now_s() > end_s:
            raise Failed(f"{entry.where} has been loading its model for {entry.timeout_s:g} s")
        run.check()
        run.progress(0.0, f"{entry.kind} is loading its model")
        time.sleep(LOADING_POLL_S)


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Measure an operating point with a server that is ready."""
    properties, route = properties_of(entry, run)
    n_prompt, n_new = run.context_tokens, n_predict(run)
    settings = properties.get("default_generation_settings")
    n_room = count(settings if isinstance(settings, dict) else {}, "n_ctx")
    if n_room and n_prompt + n_new > n_room:
        raise Failed(
            f"{entry.where} holds {n_room} tokens, the point needs {n_prompt} and {n_new} to generate: "
            "start it with a larger -c"
        )
    _refuse_other_model(entry, properties)
    tokens = _tokens(entry, run, n_prompt, route)

    def warm_up(options: Mapping[str, Any]) -> Answer:  # of buffers and threads
        return _ask(entry, run, tokens[: min(16, n_prompt)], 2, {**route, **options})

    _, options, notes = adapted(entry, OPTIONS, warm_up)
    answers = repeat(entry, run, lambda _: _ask(entry, run, tokens, n_new, {**route, **options}))
    known = {"weights": str(properties.get("model_ftype") or "")}
    conditions: Dict[str, Any] = {"slots": count(properties, "total_slots")}
    if properties.get("build_info"):
        conditions["build"] = str(properties["build_info"])[:60]
    return result(entry, run, answers, known, conditions, notes)


def properties_of(entry: RuntimeEntry, run: Run) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Return what the server tells of itself, and the member by which a router finds the model; {} without a router."""
    try:
        properties: Dict[str, Any] = call(entry, run, "/props")
    except Refused as refusal:
        if refusal.status != 404:
            raise
        raise Failed(
            f"{entry.where} has no /props, so it is not llama-server itself: a router such as llama-swap has it at "
            "/upstream/NAME, another server may be of kind openai"
        ) from None
    if properties.get("role") != "router":
        return properties, {}
    name = _routed(entry, call(entry, run, "/models").get("data"))
    return call(entry, run, f"/props?model={quote(name, safe='')}"), {"model": name}


def _routed(entry: RuntimeEntry, models: Any) -> str:
    """Return what a router calls the model of an entry: its name, its file's, or the only one there is."""
    listed = models if isinstance(models, list) else []
    names = [str(model["id"]) for model in listed if isinstance(model, dict) and "id" in model]
    file = entry.name.replace("\\", "/").rsplit("/", 1)[-1]
    for name in (entry.name, file, file[:-5] if file.endswith(".gguf") else file):
        if name in names:
            return name
    if len(names) == 1 and not entry.name:
        return names[0]
    raise Failed(f"{entry.where} routes to {', '.join(names[:8]) or 'no model'}: give its entry the name of one")


def _refuse_other_model(entry: RuntimeEntry, properties: Mapping[str, Any]) -> None:
    """Raise `Failed` where the server says that it runs another model file than the one that is configured."""
    settings = properties.get("default_generation_settings")
    told = properties.get("model_path") or (settings.get("model") if isinstance(settings, dict) else None)
    names = [text.replace("\\", "/").rsplit("/", 1)[-1] for text in (str(told or ""), entry.name)]
    if all(name.endswith(".gguf") for name in names) and names[0] != names[1]:
        raise Failed(f"{entry.where} runs {names[0]:.100}, not {names[1]:.100} as configured")


def _tokens(entry: RuntimeEntry, run: Run, n_tokens: int, route: Mapping[str, str] = NO_ROUTE) -> List[int]:
    n_char = int(n_tokens * prompts.TOKENS_A_WORD * 6) + 64
    for _ in range(4):
        answer = call(entry, run, "/tokenize", {"content": prompts.text(n_char)[:n_char], **route})
        tokens = answer.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(t, int) for t in tokens):
            raise Failed(f"{entry.where} does not tokenise: expected a list of tokens from /tokenize")
        if len(tokens) >= n_tokens:
            return tokens[:n_tokens]
        n_char *= 2
    raise Failed(f"{entry.where} makes no {n_tokens} tokens of {n_char} characters")


def _ask(entry: RuntimeEntry, run: Run, tokens: List[int], n_new: int, options: Mapping[str, Any]) -> Answer:
    message = {"prompt": tokens, "n_predict": n_new, "stream": True, **options}
    with answered(entry, run, "/completion", message) as exchange:
        exchange.check()
        timeline = Timeline(exchange.start_s, exchange.sent_s)
        last: Dict[str, Any] = {}
        for line in exchange.lines():
            arrived_s = now_s()
            payload = sse_data(line)
            if payload is None:
                if line.startswith(b"error:"):
                    raise Failed(f"{entry.where} failed: {without_secrets(line[6:].decode('utf-8', 'replace'), entry)}")
                continue
            last = parse_json(payload, entry)
            if (error := error_of(last)) is not None:
                raise Failed(f"{entry.where} failed: {without_secrets(error, entry)}")
            if not last.get("stop"):
                _note(timeline, last, arrived_s)
            timeline.buffer_write_s += now_s() - arrived_s
            if last.get("stop"):
                break
        timeline.end_s, timeline.stall_s = now_s(), exchange.stall_s
    return answer_of(entry, timeline, last, len(tokens))


def _note(timeline: Timeline, chunk: Mapping[str, Any], arrived_s: float) -> None:
    """Note a piece that brought a token; the server's count of tokens wins over ours where it gives one."""
    so_far = timeline.token_count[-1] if timeline.token_count else 0
    n_tokens = count(chunk, "tokens_predicted")
    if n_tokens == 0:  # progress of the prompt
        return
    n_tokens = so_far + 1 if n_tokens is None else n_tokens
    if n_tokens > so_far:
        timeline.token_s.append(arrived_s)
        timeline.token_count.append(n_tokens)


def answer_of(entry: RuntimeEntry, timeline: Timeline, last: Mapping[str, Any], n_sent: int) -> Answer:
    """Check the last object of a stream and return the answer with the server's own timings.

    Raises
    ------
    Failed
        The prompt was cut, cached or counted otherwise, or the stream broke off.
    """
    if not last.get("stop"):
        raise Failed(f"{entry.where} broke off the stream before its last message")
    timings = last.get("timings")
    timings = timings if isinstance(timings, dict) else {}
    refuse_cached(count(timings, "cache_n"), entry.where)
    refuse_other_prompt(count(timings, "prompt_n"), n_sent, entry.where)
    if last.get("truncated") and (count(last, "tokens_evaluated") or n_sent) != n_sent:
        raise Failed(f"{entry.where} cut the prompt of {n_sent} tokens: start it with a larger -c")
    n_generated = count(last, "tokens_predicted") or count(timings, "predicted_n") or 0
    told: Dict[str, Any] = {}
    prefill_s = number(timings, "prompt_ms") * 1e-3
    predicted_s = number(timings, "predicted_ms") * 1e-3
    if prefill_s == prefill_s:
        told["server_prefill_s"] = prefill_s
    if predicted_s == predicted_s and n_generated > 1:
        told["server_decode_s"] = predicted_s / (n_generated - 1)  # the first token belongs to the prompt
    return Answer(timeline, n_sent, n_generated, told, prefill_s)
