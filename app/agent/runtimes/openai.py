"""Any server with OpenAI's interface (vLLM, LM Studio, MLC, llama-server, ...): time stamps of our own, its usage."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Mapping, Tuple
from urllib.parse import urlsplit

from app.agent.runtimes import prompt as prompts
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import answered, call, error_of, parse_json, sse_data, sse_ended, without_secrets
from app.agent.runtimes.outcome import Failed, Refused, Run, Timeline, Unreadable, now_s
from app.agent.runtimes.streams import Answer, adapted, n_predict, repeat, result
from app.agent.runtimes.values import count, number, refuse_cached

OPTIONS: Mapping[str, Any] = {
    "ignore_eos": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.0,
}
"""What a server may refuse, the least common first."""
ABSENT = (404, 405, 501)
"""What a server answers that does not have an interface."""
_TEXTS = ("content", "reasoning_content", "reasoning", "thinking", "text")
"""Members of a piece that hold generated text; thinking models have names of their own for it."""
_PROBE_CHAR = 2000
_MAX_NAMES = 8
_TOLD_MS = ("time_to_first_token_ms", "queue_time_ms", "mean_itl_ms", "generation_time_ms")  # vLLM, per request


@dataclass(frozen=True)
class Interface:
    """How a server takes a prompt."""

    path: str
    model: str
    chat: bool
    limit: str = "max_tokens"  # member with the most tokens to generate
    options: Mapping[str, Any] = field(default_factory=dict)

    def message(self, text: str, n_new: int) -> Dict[str, Any]:
        """Return a request to generate behind a text."""
        prompt: Dict[str, Any] = {"messages": [{"role": "user", "content": text}]} if self.chat else {"prompt": text}
        return {"model": self.model, **prompt, self.limit: n_new, "stream": True, **self.options}


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Measure an operating point."""
    base, name, models = named_model(entry, run)
    n_new, n_prompt, seed = n_predict(run), run.context_tokens, time.time_ns()
    probe_text = prompts.fresh(min(_PROBE_CHAR, 8 * n_prompt), seed)
    interface, probe, notes = _find_interface(entry, run, base, name, probe_text)
    n_char = round(n_prompt * min(_PROBE_CHAR, 8 * n_prompt) / max(probe.n_prompt, 1))

    def once(i: int) -> Answer:
        return ask(entry, run, interface.path, interface.message(prompts.fresh(n_char, seed + i + 1), n_new))

    answers = repeat(entry, run, once)
    known = {"weights": _quantization(models, name)}
    return result(entry, run, answers, known, {"model_name": name}, notes)


def named_model(entry: RuntimeEntry, run: Run) -> Tuple[str, str, List[Mapping[str, Any]]]:
    """Return what stands before the paths of the interface, the model of an entry, and all that the server lists."""
    base, models = _models(entry, run)
    names = [str(model["id"]) for model in models if "id" in model]
    name = entry.name or (names[0] if len(names) == 1 else "")
    if not name:
        listed = ", ".join(names[:_MAX_NAMES]) + (", ..." if len(names) > _MAX_NAMES else "")
        raise Failed(f"{entry.where} has {len(names)} models: give its entry the name of one: {listed}")
    return base, name, models


def _models(entry: RuntimeEntry, run: Run) -> Tuple[str, List[Mapping[str, Any]]]:
    """Return what stands before the paths of the interface, and the models that the server lists.

    An url may end with the version of the interface, such as ``/v1``, ``/api/v1`` or ``/v3``.
    """
    versioned = re.search(r"/v[0-9]+[a-z]*$", urlsplit(entry.url).path)
    bases = [""] if versioned else ["/v1", ""]
    reason = Failed("")
    for base in bases:
        try:
            models = call(entry, run, f"{base}/models").get("data")
        except (Refused, Unreadable) as error:
            if isinstance(error, Refused) and error.status not in ABSENT:
                raise
            reason = error
        else:
            return base, [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
    if entry.name:
        return bases[0], []
    raise reason


def _quantization(models: List[Mapping[str, Any]], name: str) -> str:
    """Return what a server such as LM Studio tells of the weights of a model in its list, "" where it tells nothing."""
    found = next((model.get("quantization") for model in models if model.get("id") == name), None)
    return str((found.get("name") if isinstance(found, dict) else found) or "")


def _find_interface(
    entry: RuntimeEntry, run: Run, base: str, name: str, text: str
) -> Tuple[Interface, Answer, List[str]]:
    """Detect whether the server completes text or only chats, and which options it takes."""
    last = ""
    for chat in (False, True):
        path = f"{base}/chat/completions" if chat else f"{base}/completions"
        for limit in ("max_tokens", "max_completion_tokens"):
            plain = Interface(path, name, chat, limit)

            def send(options: Mapping[str, Any], plain: Interface = plain) -> Answer:
                return ask(entry, run, plain.path, replace(plain, options=options).message(text, 2))

            try:
                answer, options, notes = adapted(entry, OPTIONS, send)
            except Refused as refusal:
                if refusal.status not in (400, 422, *ABSENT):
                    raise
                last = refusal.words or last
                if "max_completion_tokens" not in refusal.words:
                    break
            except Unreadable as error:  # an interface of this name that is another one, or a page for people
                last = str(error)
                break
            else:
                return replace(plain, options=options), answer, notes
    words = f": {last}" if last else ""
    raise Failed(f"{entry.where} takes no request at {base}/completions and {base}/chat/completions{words}")


def ask(entry: RuntimeEntry, run: Run, path: str, message: Mapping[str, Any]) -> Answer:
    """Send one request; `Refused` when the server does not take it."""
    with answered(entry, run, path, message) as exchange:
        exchange.check()
        timeline = Timeline(exchange.start_s, exchange.sent_s)
        last: Dict[str, Any] = {}
        whole = b""
        for line in exchange.lines():
            arrived_s = now_s()
            if sse_ended(line):
                break
            payload = sse_data(line)
            if payload is None:
                whole += line if line.startswith((b"{", b"}", b" ", b"[")) else b""
                continue
            chunk = parse_json(payload, entry)
            if (error := error_of(chunk)) is not None:
                raise Failed(f"{entry.where} failed: {without_secrets(error, entry)}")
            _note(timeline, chunk, arrived_s)
            last.update({name: chunk[name] for name in ("usage", "metrics", "timings") if chunk.get(name)})
            last["finish_reason"] = _choice(chunk).get("finish_reason") or last.get("finish_reason")
            timeline.buffer_write_s += now_s() - arrived_s
        timeline.end_s, timeline.stall_s = now_s(), exchange.stall_s
    if whole and not last:
        error = error_of(parse_json(whole, entry))
        if error is not None:
            raise Failed(f"{entry.where} failed: {without_secrets(error, entry)}")
        raise Unreadable(f"{entry.where} answered in one piece: it does not stream")
    notes: List[str] = []
    if "usage" not in last and timeline.token_s:
        last["usage"] = _counted(entry, run, path, message, timeline, last.get("finish_reason"))
        notes.append(f"{entry.kind} tells no usage in its stream: the prompt was counted by a request behind it.")
    answer = answer_of(entry, timeline, last)
    answer.notes += notes
    return answer


def _counted(
    entry: RuntimeEntry, run: Run, path: str, message: Mapping[str, Any], timeline: Timeline, finish_reason: object
) -> Any:
    """Return the usage of a stream that does not tell it: the prompt's from an answer in one piece to the same text.

    A stream that ended by its length has as many tokens as were asked for, another one as many as pieces.
    """
    limit = "max_tokens" if "max_tokens" in message else "max_completion_tokens"
    plain = {name: value for name, value in message.items() if name not in ("stream", "stream_options")}
    usage = call(entry, run, path, {**plain, limit: 1}).get("usage")
    n_new = message.get(limit) if finish_reason == "length" else timeline.token_count[-1]
    return (
        {"prompt_tokens": usage.get("prompt_tokens"), "completion_tokens": n_new} if isinstance(usage, dict) else None
    )


def _choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = chunk.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _note(timeline: Timeline, chunk: Mapping[str, Any], arrived_s: float) -> None:
    """Note a piece that brought text; the server's count of tokens so far wins over ours where it gives one."""
    choice = _choice(chunk)
    delta = choice.get("delta")
    if not any(part.get(name) for part in (choice, delta) if isinstance(part, dict) for name in _TEXTS):
        return
    so_far = timeline.token_count[-1] if timeline.token_count else 0
    usage = chunk.get("usage")
    n_tokens = count(usage, "completion_tokens") if isinstance(usage, dict) else None
    timeline.token_s.append(arrived_s)
    timeline.token_count.append(max(n_tokens or 0, so_far + 1))


def answer_of(entry: RuntimeEntry, timeline: Timeline, last: Mapping[str, Any]) -> Answer:
    """Check what a stream said of its usage and return the answer.

    Raises
    ------
    Failed
        There is no usage, or part of the prompt came out of a cache.
    """
    usage = last.get("usage")
    if not isinstance(usage, dict):
        raise Unreadable(f"{entry.where} tells no usage at the end of its stream, so its tokens cannot be counted")
    details, timings = usage.get("prompt_tokens_details"), last.get("timings")
    refuse_cached(count(details, "cached_tokens") if isinstance(details, dict) else None, entry.where)
    refuse_cached(count(timings, "cache_n") if isinstance(timings, dict) else None, entry.where)
    n_prompt, n_generated = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    if not n_prompt or n_generated is None:
        raise Unreadable(f"{entry.where} tells no count of tokens in its usage")
    metrics = last.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    told = {f"server_{key[:-3]}_s": number(metrics, key) * 1e-3 for key in _TOLD_MS}
    told = {key: value for key, value in told.items() if value == value}
    prefill_s = number(timings, "prompt_ms") * 1e-3 if isinstance(timings, dict) else float("nan")
    return Answer(timeline, n_prompt, n_generated, dict(told), prefill_s)
