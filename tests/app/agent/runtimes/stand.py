"""Runtimes that tests measure: their entries, a run, and a server that answers as it is bid."""

import http.server
import json
import sys
import threading

from app.agent.runtimes.drivers import Drivers
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.outcome import Run, Timeline
from tests.waiting import PATIENCE_S


def entry(kind="ollama", url="http://127.0.0.1:1", **more):
    return RuntimeEntry("llamacpp_cpu", kind, "smollm2-135m", url=url, **more)


def run_of(what=("decode", "ttft"), cancelled=lambda: False, **point):
    plain = {"runtime": "llamacpp_cpu", "model": "smollm2-135m", "weights": "q4_1", "kv": "fp16", "context_tokens": 128}
    return Run({**plain, **point}, what, lambda done_frac, text: None, cancelled)


def timeline(n=5):
    return Timeline(0.0, 0.01, [0.7 + 0.01 * i for i in range(n)], list(range(1, n + 1)), end_s=0.75)


class Stand(http.server.ThreadingHTTPServer):
    """A server that answers with a function of path and message: status, pieces, and headers where it has some."""

    daemon_threads = True

    def __init__(self, answer, context=None):
        self.answer = answer
        self.asked = []
        super().__init__(("127.0.0.1", 0), _Handler)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the tests."""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        message = json.loads(self.rfile.read(length) or b"{}")
        self.server.asked.append((self.path, message, dict(self.headers)))
        status, pieces, *headers = self.server.answer(self.path, message)
        self.send_response(status)
        for name, value in headers[0].items() if headers else ():
            self.send_header(name, value)
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\n")
                self.wfile.flush()
        except OSError:
            pass

    def log_message(self, *_):
        pass


def words_of(text):
    return len(text.split())


def ollama_answers(path, message):
    if path == "/api/version":
        return 200, [{"version": "0.9.1"}]
    if path == "/api/show":
        return 200, [{"details": {"quantization_level": "Q4_K_M"}}]
    n = message["options"]["num_predict"]
    tokens = [{"response": "a", "done": False} for _ in range(n)]
    last = {
        "done": True,
        "prompt_eval_count": words_of(message["prompt"]),
        "prompt_eval_duration": 1000,
        "eval_count": n,
    }
    return 200, [*tokens, {**last, "load_duration": 1000}]


def chunk(text):
    return b"data: " + json.dumps({"choices": [{"text": text}]}).encode() + b"\n\n"


def openai_answers(path, message):
    if path == "/v1/models":
        return 200, [{"data": [{"id": "tiny"}]}]
    if path != "/v1/completions" or "ignore_eos" in message:
        return 400, [{"error": {"message": "unknown member"}}]
    usage = {"prompt_tokens": words_of(message["prompt"]), "completion_tokens": message["max_tokens"]}
    end = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"
    return 200, [*(chunk("a") for _ in range(message["max_tokens"])), end]


def drivers_of(*entries):
    answers = []
    done = threading.Event()

    def take(message):
        answers.append(message)
        if message["op"] != "progress":
            done.set()

    return Drivers(entries, take, 2), answers, done


def ask(drivers, done, request_id=1, **point):
    drivers.send({"op": "measure", "id": request_id, "point": run_of(**point).point, "what": ["decode", "ttft"]})
    assert done.wait(PATIENCE_S)


def script(text):
    return (sys.executable, "-c", text, "{context}")
