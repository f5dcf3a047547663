"""Runtimes of the board: what each says, and stand-ins over real sockets; llama.cpp itself is in a file beside."""

import contextlib
import http.server
import json
import math
import re
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import LAUNCHER
from app.agent.runtimes import drivers as drivers_
from app.agent.runtimes import llama_bench, llama_server, ollama, openai, rkllm, streams
from app.agent.runtimes.command import Command
from app.agent.runtimes.drivers import Drivers
from app.agent.runtimes.entry import RuntimeEntry, parse_entries, read_entries
from app.agent.runtimes.http import Exchange, sse_data
from app.agent.runtimes.outcome import Cancelled, Failed, Run, Timeline, applied, record
from app.agent.runtimes.streams import Answer, disturbed, repeat, token_times_s
from tests.waiting import PATIENCE_S


def entry(kind="ollama", url="http://127.0.0.1:1", **more):
    return RuntimeEntry("llamacpp_cpu", kind, "smollm2-135m", url=url, **more)


def run_of(what=("decode", "ttft"), cancelled=lambda: False, **point):
    plain = {"runtime": "llamacpp_cpu", "model": "smollm2-135m", "weights": "q4_1", "kv": "fp16", "context_tokens": 128}
    return Run({**plain, **point}, what, lambda done_frac, text: None, cancelled)


# --- the file of runtimes


@pytest.mark.parametrize(
    ("record_", "words"),
    [
        ("[", "is not JSON: expected a list of runtimes"),
        ('{"runtime": "a"}', "expected a list of at most 32 runtimes"),
        ("[3]", "runtime 1: got 3, expected an object"),
        ('[{"runtime": "a", "kind": "ollama"}]', "runtime 1: model: got '', expected a text"),
        ('[{"runtime": "a", "kind": "x", "model": "m"}]', "kind: got 'x', expected one of llama-server"),
        ('[{"runtime": "a", "kind": "ollama", "model": "m", "url": "ftp://x"}]', "url: got 'ftp://x'"),
        ('[{"runtime": "a", "kind": "ollama", "model": "m", "url": "http://a:b"}]', "url: got 'http://a:b'"),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m"}]', "argv: is missing"),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m", "argv": "rm -rf"}]', "argv: got 'rm -rf', expected a list"),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m", "argv": ["x"], "timeout_s": 0}]', "timeout_s: got 0"),
        (
            '[{"runtime": "a", "kind": "llama-server", "model": "m", "url": "http://h:1", "argv": ["{context}"]}]',
            "argv: {context} is not known when a server starts",
        ),
        ('[{"runtime": "a", "kind": "rkllm", "model": "m", "argv": ["x"], "shell": 1}]', "unknown member 'shell'"),
    ],
)
def test_a_wrong_file_of_runtimes_is_refused_in_a_sentence(tmp_path, record_, words):
    path = tmp_path / "runtimes.json"
    path.write_text(record_, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        read_entries(path)
    assert str(caught.value).startswith(str(path))


def test_the_same_model_twice_is_refused():
    one = '{"runtime": "a", "kind": "rkllm", "model": "m", "argv": ["x"]}'
    with pytest.raises(ValueError, match="runtime 2: a with m is listed twice"):
        parse_entries(f"[{one}, {one}]", "f")


def test_no_file_holds_no_runtime(tmp_path):
    assert read_entries(tmp_path / "none.json") == []


def test_words_of_a_command_are_filled_in_and_stay_words():
    command = entry("rkllm", argv=("demo", "{model_file}", "-c", "{context}"), name="a b; rm -rf /")
    assert command.command({"context": 99}) == ["demo", "a b; rm -rf /", "-c", "99"]


# --- what they say

BENCH = {
    "build_commit": "b4d2950",
    "model_filename": "C:\\models\\tiny.gguf",
    "model_type": "llama 1B Q4_K - Medium",
    "n_threads": 4,
    "n_prompt": 0,
    "n_gen": 32,
    "n_depth": 512,
    "a_new_member": [1],
    "avg_ns": 6.4e8,
    "samples_ns": [6.4e8, 6.5e8, 6.3e8],
}


def test_llama_bench_output_is_read_as_array_and_as_lines():
    for text in (json.dumps([BENCH, BENCH]), f"noise\n{json.dumps(BENCH)}\n{json.dumps(BENCH)}\n"):
        tests = llama_bench.parse(text)
        assert len(tests) == 2
        assert tests[0]["model_filename"] == "tiny.gguf"  # no path of the board goes along
        assert tests[0]["a_new_member"] == [1]
        assert llama_bench.samples_s(tests[0]) == pytest.approx([0.64, 0.65, 0.63])
        assert llama_bench.weights_of(tests[0]) == "q4_k_m"


def test_llama_bench_without_samples_gives_its_average_and_without_both_nothing():
    bare = {key: value for key, value in BENCH.items() if key != "samples_ns"}
    assert llama_bench.samples_s(bare) == pytest.approx([0.64])
    for wrong in ({}, {"avg_ns": -3}, {"avg_ns": "6"}, {"samples_ns": [1.0, None]}, {"avg_ns": True}):
        assert llama_bench.samples_s(wrong) == []
        with pytest.raises(ValueError, match="holds no test of llama-bench"):
            llama_bench.parse(json.dumps([wrong]))


SERVED = {
    "stop": True,
    "tokens_predicted": 5,
    "tokens_evaluated": 128,
    "timings": {"cache_n": 0, "prompt_n": 128, "prompt_ms": 640.0, "predicted_n": 5, "predicted_ms": 40.0},
}


def timeline(n=5):
    return Timeline(0.0, 0.01, [0.7 + 0.01 * i for i in range(n)], list(range(1, n + 1)), end_s=0.75)


def test_llama_server_rates_use_one_token_less_than_were_generated():
    answer = llama_server.answer_of(entry("llama-server"), timeline(), SERVED, 128)
    assert answer.told["server_decode_s"] == pytest.approx(0.010)  # 40 ms over 4 tokens: the first is the prompt's
    assert answer.prefill_s == pytest.approx(0.64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"timings": {"cache_n": 127, "prompt_n": 1}}, "took 127 tokens of the prompt from its cache"),
        ({"timings": {"prompt_n": 127}}, "processed 127 prompt tokens of the 128 that were sent"),
        ({"stop": False}, "broke off the stream"),
        ({"truncated": True, "tokens_evaluated": 100}, "cut the prompt of 128 tokens"),
    ],
)
def test_a_cached_cut_or_broken_answer_is_refused(change, words):
    with pytest.raises(Failed, match=words):
        llama_server.answer_of(entry("llama-server"), timeline(), {**SERVED, **change}, 128)


def test_missing_timings_are_left_out_not_invented():
    answer = llama_server.answer_of(entry("llama-server"), timeline(), {"stop": True, "tokens_predicted": 5}, 128)
    assert answer.told == {}
    assert math.isnan(answer.prefill_s)


def test_ollama_durations_are_nanoseconds_and_a_cached_prompt_has_no_count():
    last = {"done": True, "prompt_eval_count": 26, "prompt_eval_duration": 130_000_000, "eval_count": 5}
    last.update(eval_duration=50_000_000, load_duration=6_000_000_000)
    answer = ollama.answer_of(entry(), timeline(), last)
    assert answer.told == pytest.approx({"server_prefill_s": 0.13, "server_load_s": 6.0, "server_decode_s": 0.01})
    with pytest.raises(Failed, match=r"loaded the model for 6.0 s inside the run"):
        ollama.refuse_load(entry(), answer)
    del last["prompt_eval_count"]
    with pytest.raises(Failed, match="from its cache"):
        ollama.answer_of(entry(), timeline(), last)


def test_usage_of_an_openai_stream_is_needed_and_its_cache_refused():
    usage = {"prompt_tokens": 42, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}
    metrics = {"time_to_first_token_ms": 85.0, "mean_itl_ms": 9.0}
    answer = openai.answer_of(entry("openai"), timeline(), {"usage": usage, "metrics": metrics})
    assert (answer.n_prompt, answer.n_generated) == (42, 5)
    assert answer.told == pytest.approx({"server_time_to_first_token_s": 0.085, "server_mean_itl_s": 0.009})
    with pytest.raises(Failed, match="tells no usage"):
        openai.answer_of(entry("openai"), timeline(), {})
    usage["prompt_tokens_details"] = {"cached_tokens": 32}
    with pytest.raises(Failed, match="took 32 tokens"):
        openai.answer_of(entry("openai"), timeline(), {"usage": usage})


RKLLM = """I rkllm: rkllm-runtime version: 1.2.1, rknpu driver version: 0.9.8, platform: RK3588
user: An edge board ...
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Model init time (ms)  2201.34
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)      Tokens per Second
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Prefill       400.50           100       4.01                     249.69
I rkllm:  Generate      2400.00          48        50.00                    20.00
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Memory Usage (GB)
I rkllm:  1.25
I rkllm: --------------------------------------------------------------------------------------
"""


def test_the_table_of_rkllm_is_read():
    table = rkllm.parse(RKLLM)
    expected = {"prefill_s": 0.4005, "n_prompt": 100, "generate_s": 2.4, "n_generated": 48, "memory_byte": 1.25e9}
    assert table == pytest.approx(expected)
    assert rkllm.parse("Prefill 12 tokens\nGenerate\n") == {}


@given(st.text(max_size=400))
def test_parsers_of_text_never_raise_what_they_do_not_promise(text):
    rkllm.parse(text)
    sse_data(text.encode("utf-8", "replace"))
    with contextlib.suppress(ValueError):
        llama_bench.parse(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "stop",
                        "timings",
                        "usage",
                        "prompt_n",
                        "done",
                        "eval_count",
                        "prompt_eval_count",
                        "cache_n",
                        "prompt_tokens",
                        "completion_tokens",
                        "metrics",
                    ]
                ),
                x,
            )
        ),
        max_leaves=8,
    )
)
def test_last_messages_are_answered_or_refused(value):
    last = value if isinstance(value, dict) else {"usage": value, "timings": value}
    for judge in (
        lambda: llama_server.answer_of(entry("llama-server"), timeline(), last, 128),
        lambda: ollama.answer_of(entry(), timeline(), last),
        lambda: openai.answer_of(entry("openai"), timeline(), last),
    ):
        with contextlib.suppress(Failed):
            judge()


# --- records and spans


def test_gaps_are_shared_by_the_tokens_that_a_piece_brought():
    line = Timeline(0.0, 0.0, [1.0, 1.1, 1.4], [1, 2, 5], end_s=1.5)
    assert line.gaps_s() == pytest.approx([0.1, 0.1, 0.1, 0.1])
    assert token_times_s(Answer(line, 10, 5)) == pytest.approx([0.1] * 4)
    assert token_times_s(Answer(line, 10, 9)) == pytest.approx([0.4 / 8])  # pieces and tokens do not agree: the mean


def test_tokens_that_arrive_all_at_once_are_no_measurement():
    at_once = Timeline(0.0, 0.01, [0.7 + 1e-5 * i for i in range(48)], list(range(1, 49)), end_s=0.75)
    assert disturbed(Answer(at_once, 10, 48, {"server_decode_s": 0.040})) == (
        "tokens arrived every 0.01 ms and the server says 40 ms"
    )
    assert disturbed(Answer(at_once, 10, 48, {"server_decode_s": 1.1e-5})) == ""
    assert disturbed(Answer(at_once, 10, 48)) == ""
    at_once.stall_s = 3.0
    assert disturbed(Answer(at_once, 10, 48)) == "the agent did not get to run for 3.0 s while the tokens came"
    with pytest.raises(Failed, match=r"did not get to run for 3.0 s .*: the machine is too busy to measure ollama"):
        repeat(entry(), run_of(), lambda i: Answer(at_once, 10, 48))


@pytest.mark.parametrize("prefill_s", [0.5, 5.0, math.nan])
def test_spans_follow_each_other_and_sum_to_the_whole_request(prefill_s):
    line = timeline()
    spans = line.spans(prefill_s)
    assert spans[0]["start_s"] == line.start_s
    assert spans[-1]["end_s"] == line.end_s
    assert all(a["end_s"] == b["start_s"] for a, b in pairwise(spans))
    assert sum(span["end_s"] - span["start_s"] for span in spans) == pytest.approx(line.end_s - line.start_s)
    assert all(span["end_s"] > span["start_s"] for span in spans)


def test_a_record_is_the_quantiles_of_its_samples():
    assert record([3.0, 1.0, 2.0]) == {"median": 2.0, "q05": 1.1, "q95": 2.9, "n": 3, "provenance": "measured"}
    assert record([5.0])["q95"] == 5.0


def test_knobs_that_are_not_applied_are_said_and_the_point_that_ran_is_told():
    run = run_of(alpha=0.5, beta=2.0, bandwidth_byte_s=5e9, kv="int8")
    fields, notes = applied(entry(kv="fp16"), run, {"weights": "q4_1"})
    assert fields == {"alpha": 0.0, "beta": 1.0, "bandwidth_byte_s": None, "kv": "fp16"}
    assert len(notes) == 4
    assert applied(entry(kv="fp16"), run_of(), {"weights": "q4_1"}) == ({}, [])


# --- over real sockets, with stand-ins that answer as the documentation of each says


class Stand(http.server.ThreadingHTTPServer):
    """A server that answers with the function of its subclassed handler."""

    daemon_threads = True

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.do_POST()

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        message = json.loads(self.rfile.read(length) or b"{}")
        self.server.asked.append((self.path, message, dict(self.headers)))
        status, pieces = self.server.answer(self.path, message)
        self.send_response(status)
        self.end_headers()
        try:
            for piece in pieces:
                self.wfile.write(piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\n")
                self.wfile.flush()
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def patient(request, monkeypatch):
    """A busy test machine stalls a stand-in too: what that does to a measurement has a test of its own."""
    if "stand" in request.fixturenames:
        monkeypatch.setattr(streams, "MAX_STALL_S", 60.0)


@pytest.fixture
def stand():
    made = []

    def make(answer):
        made.append(Stand(answer))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


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


def test_a_point_is_measured_with_ollama(stand):
    server = stand(ollama_answers)
    body = ollama.measure(entry(url=server.url, name="tiny", kv="fp16"), run_of(alpha=0.3))
    asked = [message for path, message, _ in server.asked if path == "/api/generate"]
    assert body["decode_s"]["n"] == 47 * body["conditions"]["runs"]
    assert body["ttft_s"]["median"] > 0
    assert body["applied"]["context_tokens"] == pytest.approx(
        128, rel=0.15
    )  # what the server counted, not what was asked
    assert body["applied"]["alpha"] == 0.0
    assert body["applied"]["weights"] == "q4_k_m"
    assert len({message["prompt"][:20] for message in asked}) == len(asked)  # no prompt begins like an earlier one
    assert len({message["options"]["num_ctx"] for message in asked}) == 1  # so the model is not loaded again
    assert body["perplexity"]["absent"]


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


def test_a_point_is_measured_with_a_server_of_openai_interface(stand, tmp_path):
    server = stand(openai_answers)
    key = tmp_path / "key"
    key.write_text("secret\n", encoding="utf-8")
    body = openai.measure(entry("openai", server.url, key_file=str(key)), run_of())
    assert body["decode_s"]["n"] == 47 * body["conditions"]["runs"]
    assert server.asked[-1][2]["Authorization"] == "Bearer secret"
    assert "secret" not in json.dumps(body)
    assert "stream_options" in server.asked[-1][1]


@pytest.mark.parametrize(
    ("status", "pieces", "words"),
    [
        (401, [], "asks for an API key"),
        (500, [{"error": {"message": "out of\nmemory"}}], "refused the request (500): out of memory"),
        (500, [b"<html>"], "refused the request with HTTP status 500"),
        (200, [b"data: {\n\n"], "something that is not a JSON object"),
        (200, [b"data: " + b"x" * (1 << 20) + b"\n"], "sent a line of more than 1048576 bytes"),
        (200, [b'data: {"error": "no slot"}\n\n'], "failed: no slot"),
    ],
)
def test_what_goes_wrong_in_a_stream_is_one_sentence(stand, status, pieces, words):
    server = stand(lambda path, message: (status, pieces))
    with pytest.raises(Failed, match=re.escape(words)) as caught:
        openai.ask(entry("openai", server.url), run_of(), "/v1/completions", {})
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there_says_so():
    with pytest.raises(Failed, match=r"nothing listens at http://127.0.0.1:1: start ollama"):
        Exchange(entry(), run_of(), "/api/version")


def test_a_silent_server_times_out(stand):
    hold = threading.Event()

    def answer(path, message):
        hold.wait(PATIENCE_S)
        return 200, []

    server = stand(answer)
    with pytest.raises(Failed, match=r"was silent for 0.2 s"):
        Exchange(entry(url=server.url, timeout_s=0.2), run_of(), "/")
    hold.set()


def test_a_run_is_cancelled_while_the_server_generates(stand):
    hold, begun = threading.Event(), threading.Event()

    def answer(path, message):
        def pieces():
            yield chunk("a")
            begun.set()
            hold.wait(PATIENCE_S)

        return 200, pieces()

    server = stand(answer)
    start_s = time.monotonic()
    with pytest.raises(Cancelled):
        openai.ask(entry("openai", server.url), run_of(cancelled=begun.is_set), "/v1/completions", {})
    assert time.monotonic() - start_s < PATIENCE_S / 2
    hold.set()


# --- commands


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


def test_rkllm_demo_is_run_with_the_prompt_typed_into_it():
    text = f"import sys; assert sys.stdin.readlines()[-1] == 'exit\\n'; print({RKLLM!r})"
    drivers, answers, done = drivers_of(entry("rkllm", "", argv=script(text)))
    ask(drivers, done)
    body = answers[-1]["body"]
    assert body["decode_s"]["median"] == pytest.approx(0.05)
    assert body["applied"]["context_tokens"] == 100
    assert body["memory_byte"]["median"] == 1.25e9
    assert body["conditions"]["version"] == "1.2.1"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("/no/such/program",), "/no/such/program cannot start: No such file or directory"),
        (
            script("import os; os.kill(os.getpid(), 9)"),
            "was killed (signal 9), as the kernel does when memory runs out",
        ),
        (script("import sys; sys.exit('no NPU here')"), "ended with status 1: no NPU here"),
        (script("import sys; sys.exit('ASSERT(n > 0) failed\\nsee the wiki\\n')"), "status 1: ASSERT(n > 0) failed"),
        (script("print('half a li', end='')"), "printed no table of Prefill and Generate: it needs RKLLM"),
    ],
)
def test_a_command_that_fails_says_how(argv, words):
    drivers, answers, done = drivers_of(entry("rkllm", "", argv=argv))
    ask(drivers, done)
    assert answers[-1]["op"] == "failed"
    assert words in answers[-1]["reason"]


def test_a_command_that_hangs_is_cancelled_with_its_children():
    text = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)'])"
    drivers, answers, done = drivers_of(entry("rkllm", "", argv=script(text)))
    drivers.send({"op": "measure", "id": 7, "point": run_of().point, "what": ["decode"]})
    drivers.send({"op": "cancel", "id": 7})
    assert done.wait(PATIENCE_S)
    assert answers[-1] == {"op": "failed", "id": 7, "kind": "cancelled", "reason": "cancelled"}


@pytest.mark.parametrize("ends", ["os.kill(os.getpid(), 9)", "command.kill()"])
def test_a_server_ends_with_the_agent_however_that_ends(ends):
    text = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from app.agent.runtimes.command import Command\n"
        "command = Command([sys.executable, '-c', 'import time; time.sleep(99)'], guarded=True)\n"
        f"print(command._process.pid, flush=True); {ends}"
    )
    folder = str(Path(LAUNCHER).parent)
    done = subprocess.run([sys.executable, "-c", text, folder], capture_output=True, text=True, timeout=PATIENCE_S)
    assert not done.stderr
    pid, deadline_s = int(done.stdout), time.monotonic() + PATIENCE_S
    while (state := _state_of(pid)) not in ("", "Z") and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert state in ("", "Z")


def test_a_server_that_starts_while_the_client_leaves_is_ended(monkeypatch):
    made = []

    def start(*args, **more):
        made.append(Command(*args, **more))
        drivers.kill()  # it is not known yet
        return made[-1]

    monkeypatch.setattr(drivers_, "Command", start)
    drivers, answers, done = drivers_of(entry("llama-server", argv=script("import time; time.sleep(99)")[:3]))
    ask(drivers, done)
    assert answers[-1]["kind"] == "cancelled"
    assert made[0].status is not None
    assert made[0]._interval_scale is None


def _state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_what_is_not_configured_is_refused_by_name():
    drivers, _, _ = drivers_of(entry())
    assert drivers.why_not({"runtime": "mlc_gpu"}) == "runtime mlc_gpu is not configured on this board"
    assert "runs smollm2-135m, not qwen2-1.5b" in drivers.why_not({"runtime": "llamacpp_cpu", "model": "qwen2-1.5b"})
    assert drivers.why_not(run_of().point) == ""


# --- what a board tells of them


def runtimes_command(monkeypatch, path, *words):
    monkeypatch.setenv("TRILEMMA_RUNTIMES", str(path))
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "runtimes", *words], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_command_lists_what_is_configured_and_what_the_catalogue_lacks(monkeypatch, tmp_path):
    path = tmp_path / "runtimes.json"
    path.write_text(
        '[{"runtime": "rkllm_npu", "kind": "rkllm", "model": "a-model", "argv": ["demo"]}]', encoding="utf-8"
    )
    done = runtimes_command(monkeypatch, path, "--json")
    (found,) = json.loads(done.stdout)["runtimes"]
    assert found["where"] == "rkllm (demo)"
    assert found["unknown"] == "model a-model is not in the catalogue, so nothing can be predicted beside it"
    assert done.returncode == 1


def test_a_wrong_file_on_the_board_is_told_and_an_absent_one_is_none(monkeypatch, tmp_path):
    assert "No runtime is configured" in runtimes_command(monkeypatch, tmp_path / "none.json").stdout
    path = tmp_path / "runtimes.json"
    path.write_text("[", encoding="utf-8")
    done = runtimes_command(monkeypatch, path)
    assert "The file of runtimes is wrong, none is used: " in done.stdout
    assert "is not JSON: expected a list of runtimes" in done.stdout
    assert done.returncode == 1
