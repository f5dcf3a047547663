"""Any server with OpenAI's interface (vLLM, LM Studio, MLC, llama-server, ...): time stamps of our own, its usage."""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from app.agent.runtimes import prompt as prompts
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import Exchange, call, parse_json, sse_data
from app.agent.runtimes.outcome import Failed, Run, Timeline, now_s
from app.agent.runtimes.streams import Answer, n_predict, repeat, result
from app.agent.runtimes.values import count, number, refuse_cached

_PROBE_CHAR = 2000
_TOLD_MS = ("time_to_first_token_ms", "queue_time_ms", "mean_itl_ms", "generation_time_ms")  # vLLM, per request


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Measure an operating point."""
    base = "" if urlsplit(entry.url).path.rstrip("/").endswith("/v1") else "/v1"
    models = call(entry, run, f"{base}/models").get("data")
    names = [str(m.get("id")) for m in models if isinstance(m, dict)] if isinstance(models, list) else []
    name = entry.name or (names[0] if len(names) == 1 else "")
    if not name:
        raise Failed(f"{entry.where} has {len(names)} models: give its entry the name of one")
    n_new, n_prompt, seed = n_predict(run), run.context_tokens, time.time_ns()
    chat, extra, probe = _find_interface(entry, run, base, name, prompts.fresh(min(_PROBE_CHAR, 8 * n_prompt), seed))
    n_char = round(n_prompt * min(_PROBE_CHAR, 8 * n_prompt) / max(probe.n_prompt, 1))

    def once(i: int) -> Answer:
        message = _message(name, prompts.fresh(n_char, seed + i + 1), n_new, chat)
        answer = ask(entry, run, _path(base, chat), {**message, **extra})
        assert answer is not None
        return answer

    return result(entry, run, repeat(entry, run, once), {}, {"model_name": name})


def _find_interface(
    entry: RuntimeEntry, run: Run, base: str, name: str, text: str
) -> Tuple[bool, Dict[str, Any], Answer]:
    """Detect whether the server completes text or only chats, and whether it accepts ``ignore_eos``."""
    for chat in (False, True):
        for extra in ({"ignore_eos": True}, {}):  # type: Dict[str, Any]
            answer = ask(entry, run, _path(base, chat), {**_message(name, text, 2, chat), **extra}, optional=True)
            if answer is not None:
                return chat, extra, answer
    raise Failed(f"{entry.where} has neither {base}/completions nor {base}/chat/completions")


def _path(base: str, chat: bool) -> str:
    return f"{base}/chat/completions" if chat else f"{base}/completions"


def _message(name: str, text: str, n_new: int, chat: bool) -> Dict[str, Any]:
    content: Dict[str, Any] = {"messages": [{"role": "user", "content": text}]} if chat else {"prompt": text}
    return {
        "model": name,
        **content,
        "max_tokens": n_new,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def ask(
    entry: RuntimeEntry, run: Run, path: str, message: Mapping[str, Any], optional: bool = False
) -> Optional[Answer]:
    """Send one request; None when it is `optional` and the server does not know this interface."""
    with Exchange(entry, run, path, message) as exchange:
        if optional and exchange.status in (400, 404, 405, 422, 501):
            return None
        exchange.check()
        timeline = Timeline(exchange.start_s, exchange.sent_s)
        last: Dict[str, Any] = {}
        for line in exchange.lines():
            arrived_s = now_s()
            payload = sse_data(line)
            if payload is None:
                if line.strip() == b"data: [DONE]":
                    break
                continue
            chunk = parse_json(payload, entry)
            if isinstance(chunk.get("error"), (dict, str)):
                raise Failed(f"{entry.where} failed: {chunk['error']!s:.200}")
            if _has_text(chunk):
                timeline.token_s.append(arrived_s)
                timeline.token_count.append(len(timeline.token_s))
            last.update({name: chunk[name] for name in ("usage", "metrics", "timings") if chunk.get(name)})
            timeline.buffer_write_s += now_s() - arrived_s
        timeline.end_s, timeline.stall_s = now_s(), exchange.stall_s
    return answer_of(entry, timeline, last)


def _has_text(chunk: Mapping[str, Any]) -> bool:
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return False
    delta = choices[0].get("delta")
    found = choices[0].get("text") or (
        isinstance(delta, dict) and (delta.get("content") or delta.get("reasoning_content"))
    )
    return bool(found)


def answer_of(entry: RuntimeEntry, timeline: Timeline, last: Mapping[str, Any]) -> Answer:
    """Check what a stream said of its usage and return the answer.

    Raises
    ------
    Failed
        There is no usage, or part of the prompt came out of a cache.
    """
    usage = last.get("usage")
    if not isinstance(usage, dict):
        raise Failed(f"{entry.where} tells no usage at the end of its stream, so its tokens cannot be counted")
    details, timings = usage.get("prompt_tokens_details"), last.get("timings")
    refuse_cached(count(details, "cached_tokens") if isinstance(details, dict) else None, entry.where)
    refuse_cached(count(timings, "cache_n") if isinstance(timings, dict) else None, entry.where)
    n_prompt, n_generated = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    if not n_prompt or n_generated is None:
        raise Failed(f"{entry.where} tells no count of tokens in its usage")
    metrics = last.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    told = {f"server_{key[:-3]}_s": number(metrics, key) * 1e-3 for key in _TOLD_MS}
    told = {key: value for key, value in told.items() if value == value}
    prefill_s = number(timings, "prompt_ms") * 1e-3 if isinstance(timings, dict) else float("nan")
    return Answer(timeline, n_prompt, n_generated, dict(told), prefill_s)
