"""A prompt of the user answered by a runtime, with the probabilities that it tells of the tokens of a reference."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Tuple

from app.agent.runtimes import llama_server, openai, outcome
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import call
from app.agent.runtimes.outcome import Failed, Refused, Run, Unreadable, now_s

MOST_CHAR = 12000
MOST_NEW = 512
MOST_SCORED = 48  # tokens of a reference that are scored
N_LISTED, N_KEPT = 1000, 5  # most probable tokens that llama-server is asked for; those that are handed on
_WHOLE = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "samplers": ["temperature"]}
"""Settings of llama-server without a cut of the distribution: old versions tell probabilities behind their samplers."""
KINDS = ("llama-server", "openai")

Tokens = List[Dict[str, Any]]


def measure(entry: RuntimeEntry, run: Run) -> Dict[str, Any]:
    """Answer the prompt and score the reference of a request.

    Returns
    -------
    dict
        ``answer``: ``text``, ``request_s``, and ``tokens`` of the reference with ``log_probability``, whether it is the
        first choice, and the most probable tokens, or ``{absent}``.

    Raises
    ------
    Failed
        The kind of runtime answers no prompts, or a member of the options is wrong.
    """
    if entry.kind not in KINDS:
        raise Failed(f"{entry.kind} answers no prompts of the user: expected a runtime of kind {' or '.join(KINDS)}")
    prompt, reference, n_new = _asked(run.options)
    run.progress(0.1, f"{entry.kind} answers a prompt")
    answer = _of_llama_server if entry.kind == "llama-server" else _of_openai
    text, request_s, tokens = answer(entry, run, prompt, reference, n_new)
    fields, notes = outcome.applied(entry, run, {})
    return {
        "answer": {"text": text, "request_s": request_s, "tokens": tokens},
        "applied": fields,
        "notes": notes,
        "conditions": {"runtime": entry.kind},
    }


def _asked(options: Mapping[str, Any]) -> Tuple[str, str, int]:
    prompt, reference, n_new = (options.get(name) for name in ("prompt", "reference", "n_tokens"))
    for name, text in (("prompt", prompt), ("reference", reference)):
        if not isinstance(text, str) or not 1 <= len(text) <= MOST_CHAR:
            raise Failed(f"{name}: got {text!r:.40}, expected a text of 1 to {MOST_CHAR} characters")
    if isinstance(n_new, bool) or not isinstance(n_new, int) or not 1 <= n_new <= MOST_NEW:
        raise Failed(f"n_tokens: got {n_new!r:.40}, expected 1 to {MOST_NEW}")
    return str(prompt), str(reference), n_new


# ---- llama-server: the reference is fed token by token


def _of_llama_server(entry: RuntimeEntry, run: Run, prompt: str, reference: str, n_new: int) -> Tuple[str, float, Any]:
    _, route = llama_server.properties_of(entry, run)
    plain = {"temperature": 0.0, "cache_prompt": True, **route}
    start_s = now_s()
    made = call(entry, run, "/completion", {**plain, "prompt": prompt, "n_predict": n_new})
    request_s = now_s() - start_s
    if not isinstance(made.get("content"), str):
        raise Unreadable(f"{entry.where} tells no text in its answer")
    return made["content"], request_s, _forced(entry, run, prompt, reference, plain)


def _forced(entry: RuntimeEntry, run: Run, prompt: str, reference: str, plain: Mapping[str, Any]) -> Any:
    """Return the scored tokens: the prompt and the reference so far is asked for its next token, again and again."""
    route = {name: value for name, value in plain.items() if name == "model"}

    def ids(text: str) -> List[int]:
        answered = call(entry, run, "/tokenize", {"content": text, "add_special": True, **route}).get("tokens")
        if not isinstance(answered, list) or not all(isinstance(token, int) for token in answered):
            raise Failed(f"{entry.where} does not tokenise: expected a list of tokens from /tokenize")
        return answered

    of_prompt, whole = ids(prompt), ids(prompt + reference)
    first = next((i for i, pair in enumerate(zip(of_prompt, whole)) if pair[0] != pair[1]), len(of_prompt))
    last = min(len(whole), first + MOST_SCORED)
    scored: Tokens = []
    for i in range(max(first, 1), last):
        run.check()
        run.progress(0.2 + 0.8 * (i - first) / max(last - first, 1), f"{entry.kind} scores token {i - first + 1}")
        message = {**plain, **_WHOLE, "prompt": whole[:i], "n_predict": 1, "n_probs": N_LISTED}
        answered = call(entry, run, "/completion", message).get("completion_probabilities")
        found = _listed(answered[0]) if isinstance(answered, list) and answered else []
        if not found:
            return {"absent": f"{entry.where} tells no probabilities of tokens"}
        token, by_id = str(whole[i]), found[0][0] != ""
        name = token if by_id else str(call(entry, run, "/detokenize", {"tokens": [whole[i]], **route}).get("content"))
        names = [one if by_id else text for one, text, _ in found]
        own = next((log_p for one, (_, _, log_p) in zip(names, found) if one == name), None)
        top = {one: log_p for one, (_, _, log_p) in zip(names[:N_KEPT], found)}
        scored.append(_scored(name, own, found[-1][2], top, names[0] == name))
    return scored or {"absent": "the reference has no token behind the prompt"}


def _listed(answered: Any) -> List[Tuple[str, str, float]]:
    """Return the listed tokens: id ("" in versions before 2025), text and ln p, the most probable first."""
    members = answered if isinstance(answered, dict) else {}
    found: List[Tuple[str, str, float]] = []
    for one in members.get("top_logprobs") or members.get("probs") or []:
        if not isinstance(one, dict):
            continue
        p, log_p = one.get("prob"), one.get("logprob")
        if isinstance(p, (int, float)) and p > 0.0:
            log_p = math.log(p)
        if isinstance(log_p, (int, float)) and log_p > -1e30:
            text = one.get("token") if "token" in one else one.get("tok_str")
            found.append((str(one.get("id", "")), str(text), min(float(log_p), 0.0)))
    return sorted(found, key=lambda each: -each[2])


def _scored(token: str, own: Any, least: float, top: Mapping[str, float], first: bool) -> Dict[str, Any]:
    """Return the record of a token; one that is not listed has at most the probability of the last that is."""
    return {
        "token": token,
        "log_probability": least if own is None else own,
        "listed": own is not None,
        "first": first,
        "top": dict(top),
    }


# ---- OpenAI's interface: the prompt is echoed with its probabilities


def _of_openai(entry: RuntimeEntry, run: Run, prompt: str, reference: str, n_new: int) -> Tuple[str, float, Any]:
    base, name, _ = openai.named_model(entry, run)
    start_s = now_s()
    try:
        message = {"model": name, "prompt": prompt, "max_tokens": n_new, "temperature": 0.0}
        choice = _choice(entry, call(entry, run, f"{base}/completions", message))
        text = choice.get("text")
    except (Refused, Unreadable) as error:
        if isinstance(error, Refused) and error.status not in (400, 422, *openai.ABSENT):
            raise
        chat = {"model": name, "messages": [{"role": "user", "content": prompt}], "max_tokens": n_new}
        start_s = now_s()
        said = _choice(entry, call(entry, run, f"{base}/chat/completions", {**chat, "temperature": 0.0})).get("message")
        text = said.get("content") if isinstance(said, dict) else None
    request_s = now_s() - start_s
    if not isinstance(text, str):
        raise Unreadable(f"{entry.where} tells no text in its answer")
    return text, request_s, _echoed(entry, run, f"{base}/completions", name, prompt, reference)


def _echoed(entry: RuntimeEntry, run: Run, path: str, name: str, prompt: str, reference: str) -> Any:
    message = {"model": name, "prompt": prompt + reference, "max_tokens": 1, "temperature": 0.0}
    try:
        answered = _choice(entry, call(entry, run, path, {**message, "echo": True, "logprobs": N_KEPT})).get("logprobs")
    except (Refused, Unreadable):
        answered = None
    names = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    members = [answered.get(key) for key in names] if isinstance(answered, dict) else []
    lists = [each for each in members if isinstance(each, list)]
    if len(lists) != len(names) or any(len(each) != len(lists[0]) for each in lists):
        return {"absent": f"{entry.where} tells no probabilities of the tokens of a prompt (echo with logprobs)"}
    scored: Tokens = []
    for token, log_p, top, offset in zip(*lists):
        inside = isinstance(offset, int) and len(prompt) <= offset < len(prompt) + len(reference)
        if inside and isinstance(log_p, (int, float)) and isinstance(top, dict) and len(scored) < MOST_SCORED:
            known = {str(one): min(float(p), 0.0) for one, p in top.items() if isinstance(p, (int, float))}
            first = all(log_p >= p for p in known.values())
            scored.append(_scored(str(token), min(float(log_p), 0.0), 0.0, known, first))
    return scored or {"absent": f"{entry.where} tells no probabilities of the tokens of a prompt (echo with logprobs)"}


def _choice(entry: RuntimeEntry, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Unreadable(f"{entry.where} tells no choice in its answer")
    return choices[0]
