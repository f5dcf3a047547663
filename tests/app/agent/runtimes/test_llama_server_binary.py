"""llama.cpp itself, built by packaging/llama-tools.sh: llama-server and llama-bench measured through the drivers."""

import json
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from app.agent.runtimes import llama_server, streams, texts
from app.agent.runtimes.drivers import Drivers
from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.http import call
from app.agent.runtimes.outcome import Failed, Run
from kernels.decoder.weights import default_model_file
from tests.app.conftest import free_port

PATIENCE_S = 120.0
TOOLS = Path(sys.prefix) / "llama.cpp"
BUILD = f"the tests need llama.cpp: packaging/llama-tools.sh {sys.prefix}"


def tool(name):
    path = TOOLS / name
    assert path.exists(), BUILD
    return str(path)


class Board:
    """Drivers with one runtime, asked and waited for."""

    def __init__(self, entry, n_threads=2):
        self.entry = entry
        self.messages, self._answered = [], threading.Event()
        self.drivers = Drivers([entry], self._take, n_threads)

    def _take(self, message):
        self.messages.append(message)
        if message["op"] != "progress":
            self._answered.set()

    def measure(self, what=("decode", "ttft"), **point):
        plain = {"runtime": self.entry.runtime, "model": "smollm2-135m", "weights": "q4_1", "kv": "fp16"}
        self._answered.clear()
        request = {"op": "measure", "id": 1, "point": {**plain, "context_tokens": 96, **point}, "what": list(what)}
        self.drivers.send(request)
        assert self._answered.wait(PATIENCE_S)
        return self.messages[-1]

    def body(self, **point):
        answer = self.measure(**point)
        assert answer["op"] == "result", answer
        return answer["body"]


@pytest.fixture(scope="module")
def server():
    model = str(default_model_file())
    url = f"http://127.0.0.1:{(port := free_port())}"
    words = [
        "-m",
        "{model_file}",
        "--port",
        str(port),
        "-c",
        "512",
        "-t",
        "1",
        "-np",
        "1",
        "-ctk",
        "{kv}",
        "-ctv",
        "{kv}",
    ]
    argv = (tool("llama-server"), *words)
    board = Board(RuntimeEntry("llamacpp_cpu", "llama-server", "smollm2-135m", url, argv, model, "q4_1", "fp16"))
    yield board
    board.drivers.kill()


@pytest.fixture(scope="module")
def served(server):
    return server.body()


def test_llama_server_is_started_and_a_point_measured(served):
    assert served["ttft_s"]["median"] > served["decode_s"]["median"] > 0
    assert served["applied"] == {}
    window = served["conditions"]["decode_window_s"]  # of the last run, as the server's own figure
    told_s = served["conditions"]["server_decode_s"]
    assert (window[1] - window[0]) / 47 == pytest.approx(told_s, rel=streams.MAX_DISAGREEMENT)
    assert served["decode_s"]["n"] == 47 * served["conditions"]["runs"]
    assert served["decode_s"]["provenance"] == "measured"


def test_the_stages_of_a_real_request_sum_to_it(served):
    spans = served["spans"]
    assert [span["stage"] for span in spans][:2] == ["prompt_load_s", "kv_build_s"]
    whole_s = spans[-1]["end_s"] - spans[0]["start_s"]
    assert sum(span["end_s"] - span["start_s"] for span in spans) == pytest.approx(whole_s, abs=1e-9)
    decode_s = next(s["end_s"] - s["start_s"] for s in spans if s["stage"] == "decode_s")
    within = served["request_stages_s"]
    assert 0.0 < within["buffer_write_s"]["median"] < whole_s
    assert (
        "absent" in within["peripheral_s"] or 0.0 <= within["peripheral_s"]["median"] <= within["peripheral_s"]["q95"]
    )
    window = served["conditions"]["decode_window_s"]
    assert decode_s == pytest.approx(window[1] - window[0])


def test_a_prompt_too_long_for_the_server_is_refused_before_it_is_sent(server, served):
    answer = server.measure(context_tokens=500)
    assert answer["reason"].endswith(
        "holds 512 tokens, the point needs 500 and 48 to generate: start it with a larger -c"
    )


def test_a_prompt_from_the_cache_is_refused(server, served):
    run = Run({"context_tokens": 64}, ("ttft",), lambda done_frac, text: None, lambda: False)
    tokens = llama_server._tokens(server.entry, run, 64)
    message = {"prompt": tokens, "n_predict": 1, "cache_prompt": True}
    call(server.entry, run, "/completion", message)
    cached = call(server.entry, run, "/completion", message)
    assert cached["timings"]["prompt_n"] < 64  # the server took the rest from its cache
    with pytest.raises(Failed, match="that were sent"):
        llama_server.answer_of(server.entry, llama_server.Timeline(0.0), cached, 64)


def test_cancelling_frees_the_server_at_once(server, served):
    started = threading.Event()
    server.drivers._on_message, take = lambda m: (server._take(m), started.set()), server.drivers._on_message
    request = {"runtime": "llamacpp_cpu", "model": "smollm2-135m", "context_tokens": 400}
    server._answered.clear()
    server.drivers.send({"op": "measure", "id": 9, "point": request, "what": ["decode"]})
    assert started.wait(PATIENCE_S)
    server.drivers.send({"op": "cancel", "id": 9})
    assert server._answered.wait(PATIENCE_S)
    server.drivers._on_message = take
    assert server.messages[-1]["kind"] == "cancelled"
    assert server.body(what=("ttft",))["ttft_s"]["median"] > 0


def test_another_model_than_the_configured_one_is_refused(server, served):
    other = Board(replace(server.entry, name="/models/other.gguf"))
    assert other.measure()["reason"].endswith(f"runs {default_model_file().name}, not other.gguf as configured")


def test_a_server_that_stands_still_is_silent_and_no_second_one_is_started(server, served):
    process = server.drivers._servers[server.entry.url]._process
    other = Board(replace(server.entry, timeout_s=1.0))
    process.send_signal(signal.SIGSTOP)
    try:
        assert other.measure()["reason"].endswith("was silent for 1 s")
    finally:
        process.send_signal(signal.SIGCONT)
    assert not other.drivers._servers


def test_a_server_that_dies_says_how_and_one_that_took_its_place_is_used(server, served):
    url = f"http://127.0.0.1:{(port := free_port())}"
    argv = [str(port) if word == server.entry.url.rpartition(":")[2] else word for word in server.entry.argv]
    board = Board(replace(server.entry, url=url, argv=tuple(argv)))
    take = board.drivers._on_message

    def kill(message):
        if "a prompt of" in message.get("text", ""):
            board.drivers._servers[url]._process.kill()
        take(message)

    board.drivers._on_message = kill
    assert "llama-server was killed (signal 9)" in board.measure(context_tokens=400)["reason"]
    board.drivers._on_message = take
    board.drivers.entries = (replace(board.entry, url=server.entry.url),)
    board.drivers._servers[server.entry.url] = board.drivers._servers.pop(url)  # as if it had been there before
    assert board.body(what=("ttft",))["ttft_s"]["median"] > 0


@pytest.mark.parametrize("limit", ["", "ulimit -v 300000; "])
def test_a_model_that_cannot_be_loaded_is_why_the_server_ended(tmp_path, limit):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\7" * 400)
    model = default_model_file() if limit else broken
    port = free_port()
    command = f"{limit}exec {tool('llama-server')} -m '{model}' --port {port} -t 1"
    entry = RuntimeEntry(
        "llamacpp_cpu", "llama-server", "smollm2-135m", f"http://127.0.0.1:{port}", ("/bin/sh", "-c", command)
    )
    assert Board(entry).measure()["reason"].startswith(("sh ended with status ", "sh was ended by signal "))


def test_a_server_without_its_model_says_so_and_why():
    argv = (tool("llama-server"), "-m", "/no/such/model.gguf", "--port", str(port := free_port()))
    board = Board(RuntimeEntry("llamacpp_cpu", "llama-server", "smollm2-135m", f"http://127.0.0.1:{port}", argv))
    answer = board.measure()
    assert answer["op"] == "failed"
    assert answer["reason"].startswith("llama-server ended with status 1")


@pytest.fixture(scope="module")
def bench():
    argv = (tool("llama-bench"), "-m", "{model_file}", "-t", "{threads}")
    entry = RuntimeEntry("llamacpp_cpu", "llama-bench", "smollm2-135m", argv=argv, name=str(default_model_file()))
    return Board(entry, n_threads=1)


def test_llama_bench_measures_a_point(bench):
    body = bench.body(context_tokens=64)
    assert body["applied"] == {}
    assert body["ttft_s"]["n"] == 5
    assert body["ttft_s"]["median"] > body["decode_s"]["median"] > 0
    assert body["conditions"]["threads"] == 1  # the board's
    assert "model_filename" not in json.dumps(body)


def test_llama_bench_says_what_is_wrong(bench):
    wrong = Board(
        RuntimeEntry("llamacpp_cpu", "llama-bench", "smollm2-135m", argv=(*bench.entry.argv[:1], "-m", "/none"))
    )
    assert "ended with status 1: " in wrong.measure()["reason"]
    assert "kv int3 is not a KV format of llama.cpp" in bench.measure(kv="int3")["reason"]


def test_a_prompt_is_answered_and_its_reference_scored(server, served):
    asked = {"prompt": "The capital of France is", "reference": " Paris.", "n_tokens": 4}
    told = {}
    for reference in (asked["reference"], " xylophone."):
        server._answered.clear()
        point = {"runtime": server.entry.runtime, "model": "smollm2-135m", "weights": "q4_1", "kv": "fp16"}
        request = {"op": "measure", "id": 2, "point": point, "what": ["texts"]}
        server.drivers.send({**request, "options": {**asked, "reference": reference}})
        assert server._answered.wait(PATIENCE_S)
        assert server.messages[-1]["op"] == "result", server.messages[-1]
        told[reference] = server.messages[-1]["body"]["answer"]
    right, wrong = told[" Paris."], told[" xylophone."]
    assert right["text"].startswith(" Paris")
    assert right["request_s"] > 0.0
    assert len(right["tokens"]) == 2
    assert right["tokens"][0]["first"]
    assert right["tokens"][0]["listed"]
    assert -2.5 < right["tokens"][0]["log_probability"] < 0.0
    assert wrong["tokens"][0]["log_probability"] < right["tokens"][0]["log_probability"] - 3.0
    assert len(right["tokens"][0]["top"]) == texts.N_KEPT
