"""Servers of runtimes as they run: what each answers, and what a measurement with it is."""

import json

from app.agent.runtimes import openai, streams
from app.agent.runtimes.entry import parse_entries
from app.agent.runtimes.outcome import Run

POINT = {"runtime": "vllm_gpu", "model": "m", "weights": "fp16", "kv": "fp16", "context_tokens": 64}


def entry(url, kind="openai", **more):
    (found,) = parse_entries(json.dumps([{"runtime": "r", "kind": kind, "model": "m", "url": url, **more}]), "f")
    return found


def run_of(what=("decode", "ttft"), cancelled=lambda: False, **point):
    return Run({**POINT, **point}, what, lambda done_frac, text: None, cancelled)


def data(chunk, begin=b"data: ", end=b"\n\n"):
    return begin + json.dumps(chunk).encode() + end


def n_words(message):
    text = message.get("prompt") or message["messages"][0]["content"]
    return len(text.split())


class Completions:
    """Answers as OpenAI's interface does; what is set differs."""

    paths = ("/v1/completions", "/v1/chat/completions")
    models = ("m",)
    refuses = ()  # members that are refused
    words = "[{{'type': 'extra_forbidden', 'loc': ('body', '{}'), 'msg': 'Extra inputs are not permitted'}}]"
    status = 400
    key = ""  # of the delta; of a text completion where empty
    begin, end = b"data: ", b"\n\n"
    limit = "max_tokens"
    usage_always = False
    tokens_a_piece = 1
    more = ()  # pieces before the first

    def __init__(self, **different):
        self.__dict__.update(different)

    def __call__(self, path, message):
        if path.endswith("/models"):
            return 200, [{"data": [{"id": name} for name in self.models]}]
        if path not in self.paths or (self.key and "chat" not in path):
            return 404, [{"detail": "Not Found"}]
        for name in self.refuses:
            if name in message:
                return self.status, [{"object": "error", "message": self.words.format(name), "code": self.status}]
        n, n_prompt = message[self.limit], n_words(message)
        usage = {"prompt_tokens": n_prompt, "completion_tokens": n, "prompt_tokens_details": None}
        if not message.get("stream"):
            return 200, [{"choices": [{"text": "a", "message": {"content": "a"}}], "usage": usage}]
        return 200, [*self.more, *self._stream(n, usage, message.get("stream_options"))]

    def _stream(self, n, usage, options):
        for i in range(0, n, self.tokens_a_piece):
            piece = {"delta": {self.key: "a"}} if self.key else {"text": "a"}
            so_far = min(i + self.tokens_a_piece, n)
            with_usage = {"usage": {**usage, "completion_tokens": so_far}} if self.usage_always else {}
            yield data({"choices": [{"index": 0, **piece, "finish_reason": None}], **with_usage}, self.begin, self.end)
        yield data({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}, self.begin, self.end)
        if options:
            yield data({"choices": [], "usage": usage}, self.begin, self.end)
        yield self.begin + b"[DONE]" + self.end


def measured(server, **more):
    return openai.measure(entry(server.url, **more), run_of())


def check_whole(body, server, limit="max_tokens"):
    """Check that every token of every run was timed."""
    assert body["decode_s"]["n"] == (streams.N_PREDICT - 1) * body["conditions"]["runs"]
    sent = [message for _, message, _ in server.asked if message.get(limit) == streams.N_PREDICT]
    assert body["applied"].get("context_tokens", POINT["context_tokens"]) == n_words(sent[-1])


def llama_server_answers(ftype="Q4_K - Medium", route=None):
    """Answer as llama-server does; with a `route`, as its router with that one model and another."""

    def answer(path, message):
        if path == "/health":
            return 200, [{"status": "ok"}]
        if path == "/models":
            return 200, [{"data": [{"id": route, "status": {"value": "unloaded"}}, {"id": "other"}]}]
        if route and (message.get("model") if message else path.partition("?model=")[2]) != route:
            if path == "/props":
                return 200, [{"role": "router", "model_path": "none", "default_generation_settings": {"n_ctx": 0}}]
            return 400, [{"error": {"code": 400, "message": "model name is missing from the request"}}]
        if path.startswith("/props"):
            return 200, [{"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1, "model_ftype": ftype}]
        if path == "/tokenize":
            return 200, [{"tokens": list(range(len(message["content"]) // 4))}]
        n, n_prompt = message["n_predict"], len(message["prompt"])
        last = {"stop": True, "tokens_predicted": n, "timings": {"cache_n": 0, "prompt_n": n_prompt}}
        pieces = [{"content": "a", "stop": False, "tokens_predicted": i + 1} for i in range(n)]
        return 200, [data(piece) for piece in [*pieces, last]]

    return answer


def ollama_answers(path, message, level="Q4_K_M", key="response"):
    if path == "/api/version":
        return 200, [{"version": "0.40.12"}]
    if path == "/api/show":
        return 200, [{"details": {"quantization_level": level}, "thinking": {"values": [True, False]}}]
    n = message["options"]["num_predict"]
    last = {"done": True, "done_reason": "length", "prompt_eval_count": n_words(message), "eval_count": n}
    return 200, [{key: "", "done": False}, *({key: "a", "done": False} for _ in range(n)), last]
