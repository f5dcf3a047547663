"""Servers as they run: refused options, names of models, keys, prefixes, dialects of a stream, busy ones, TLS."""

import json
import re
import ssl
import subprocess
import time
from dataclasses import replace

import pytest

from app.agent.runtimes import http, llama_server, ollama, openai, streams
from app.agent.runtimes.entry import parse_entries
from app.agent.runtimes.outcome import Failed, Refused, Run, Silent

POINT = {"runtime": "vllm_gpu", "model": "m", "weights": "fp16", "kv": "fp16", "context_tokens": 64}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy test machine stalls a stand-in too; busy servers are asked again at once."""
    monkeypatch.setattr(streams, "MAX_STALL_S", 60.0)
    monkeypatch.setattr(streams, "ENOUGH_S", 1e-9)
    monkeypatch.setattr(http, "BUSY_PAUSE_S", 0.01)


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


# --- options that a server refuses


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    "refuses", [("stream_options",), ("ignore_eos",), ("temperature",), ("ignore_eos", "stream_options", "temperature")]
)
def test_an_option_that_is_refused_is_left_out_and_the_refusal_is_a_note(stand, refuses, status):
    server = stand(Completions(refuses=refuses, status=status))
    body = measured(server)
    check_whole(body, server)
    for name in refuses:
        assert any(f"refused {name} (" in note and "Extra inputs are not permitted" in note for note in body["notes"])
        assert name not in server.asked[-1][1]
    assert sum("refused" in note for note in body["notes"]) == len(refuses)
    assert ("counted by a request behind it" in " ".join(body["notes"])) == ("stream_options" in refuses)


def test_a_refusal_that_names_nothing_costs_one_option_after_the_other(stand):
    server = stand(Completions(refuses=("stream_options",), words="Bad request"))
    body = measured(server)
    check_whole(body, server)
    assert "temperature" in server.asked[-1][1]


def test_an_option_that_breaks_a_server_is_left_out_where_its_words_name_it(stand):
    words = "create() got an unexpected keyword argument '{}'"
    body = measured(stand(Completions(refuses=("ignore_eos",), status=500, words=words)))
    assert any("unexpected keyword argument 'ignore_eos'" in note for note in body["notes"])


def test_where_completions_are_those_of_another_interface_the_server_is_asked_to_chat(stand):
    plain = Completions(key="content")

    def answer(path, message):  # llama-server before 2025
        own = [data({"content": "a", "stop": i == 1}) for i in range(2)]
        return (200, own) if path == "/v1/completions" and message["stream"] else plain(path, message)

    server = stand(answer)
    check_whole(measured(server), server)
    assert server.asked[-1][0] == "/v1/chat/completions"


def test_a_limit_of_another_name_is_taken(stand):
    server = stand(
        Completions(
            refuses=("max_tokens",),
            limit="max_completion_tokens",
            key="content",
            words="Unsupported parameter: '{}' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
    )
    check_whole(measured(server), server, "max_completion_tokens")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"object": "error", "message": "The model `x` does not exist."}, "The model `x` does not exist."),
        ({"error": {"message": "maximum context length is 32 tokens"}}, "maximum context length is 32 tokens"),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"detail": [{"loc": ["body", "n"], "msg": "too long"}]}, "too long"),
    ],
)
@pytest.mark.parametrize("status", [400, 404])
def test_where_nothing_helps_the_words_of_the_server_are_the_reason(stand, answer, words, status):
    server = stand(lambda path, message: (200, [{"data": [{"id": "x"}]}]) if "models" in path else (status, [answer]))
    with pytest.raises(Failed, match="takes no request at /v1/completions and /v1/chat/completions") as caught:
        measured(server)
    assert words in str(caught.value)


def test_llama_server_and_ollama_go_on_without_what_they_refuse(stand):
    plain = llama_server_answers()

    def choosy(path, message):
        if path == "/completion" and "ignore_eos" in message:
            return 400, [{"error": {"message": "unknown field ignore_eos", "code": 400}}]
        if path == "/api/generate" and message.get("raw"):
            return 400, [{"error": "raw mode is not supported by this engine"}]
        return ollama_answers(path, message) if path.startswith("/api") else plain(path, message)

    server = stand(choosy)
    body = llama_server.measure(entry(server.url, "llama-server"), run_of())
    assert "refused ignore_eos (unknown field ignore_eos): it was left out." in body["notes"][0]
    body = ollama.measure(entry(server.url, "ollama", name="m"), run_of())
    assert "refused raw (raw mode is not supported by this engine): it was left out." in body["notes"][0]


# --- dialects of a stream


@pytest.mark.parametrize("key", ["content", "reasoning_content", "reasoning", "thinking"])
def test_text_of_thinking_models_counts_under_each_of_its_names(stand, key):
    server = stand(Completions(key=key))
    check_whole(measured(server), server)


@pytest.mark.parametrize(
    "different",
    [
        {"begin": b"data:"},
        {"end": b"\r\n\r\n"},
        {"begin": b"event: message\r\nid: 3\r\ndata: ", "end": b"\r\n\r\n"},
        {"more": (b": OPENROUTER PROCESSING\n\n", b": keepalive 1/9\r\n\r\n", b"\n", b"retry: 99\n\n")},
        {"more": (b"\xef\xbb\xbfdata: " + json.dumps({"choices": []}).encode() + b"\n\n",)},
        {"more": (data({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),)},
        {"more": (data({"choices": [], "usage": None, "error": None}),)},
        {"usage_always": True},
    ],
)
def test_streams_of_every_dialect_are_read(stand, different):
    server = stand(Completions(**different))
    check_whole(measured(server), server)


def test_pieces_of_several_tokens_share_their_time_where_the_server_counts_them(stand):
    server = stand(Completions(tokens_a_piece=4, usage_always=True))
    body = measured(server)
    assert body["decode_s"]["n"] == 44 * body["conditions"]["runs"]  # 11 gaps of 4 tokens behind the first piece
    assert "48 tokens came in 12 pieces: the time of a token is a mean." in body["notes"]


def test_pieces_of_several_tokens_give_a_mean_where_nobody_counts_them(stand):
    body = measured(stand(Completions(tokens_a_piece=4)))
    assert body["decode_s"]["n"] == body["conditions"]["runs"]
    assert "48 tokens came in 12 pieces: the time of a token is a mean." in body["notes"]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([{"choices": [{"text": "all at once"}], "usage": {}}], "answered in one piece: it does not stream"),
        ([b'{\n  "error": {\n    "message": "no slot"\n  }\n}'], "failed: no slot"),
        ([b'event: error\ndata: {"error": {"message": "out of memory"}}\n\n'], "failed: out of memory"),
        ([data({"object": "error", "message": "engine died", "code": 500})], "failed: engine died"),
        (
            [
                data({"choices": [{"text": "a b c"}]}),
                data({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 48}}),
            ],
            "sent its 48 tokens in one piece: they have no times",
        ),
    ],
)
def test_what_is_no_stream_of_tokens_says_why(stand, pieces, words):
    server = stand(lambda path, message: (200, [{"data": [{"id": "m"}]}] if "models" in path else pieces))
    with pytest.raises(Failed, match=re.escape(words)):
        measured(server)


def test_a_server_that_only_keeps_the_connection_alive_is_silent(stand):
    def comments():
        while True:
            time.sleep(0.02)
            yield b": keepalive\n\n"

    server = stand(lambda path, message: (200, [{"data": [{"id": "m"}]}] if "models" in path else comments()))
    made = replace(entry(server.url), timeout_s=0.3)
    with pytest.raises(Silent, match=r"sent nothing but comments for 0\.3 s"):
        openai.measure(made, run_of())


# --- names of models


@pytest.mark.parametrize("kind", ["one", "named"])
def test_a_router_is_asked_for_a_model_by_name(stand, kind):
    server = stand(Completions(models=("m",) if kind == "one" else ("a", "m", "z")))
    body = measured(server, **({} if kind == "one" else {"name": "m"}))
    assert server.asked[-1][1]["model"] == "m"
    assert body["conditions"]["model_name"] == "m"


def test_a_router_with_many_models_lists_them(stand):
    with pytest.raises(Failed, match=r"has 10 models: give its entry the name of one: a0, a1, .*, a7, \.\.\.$"):
        measured(stand(Completions(models=[f"a{i}" for i in range(10)])))


def test_a_server_without_a_list_of_models_is_asked_by_the_name_of_the_entry(stand):
    plain = Completions()
    server = stand(lambda path, message: (404, []) if "models" in path else plain(path, message))
    check_whole(measured(server, name="m"), server)
    with pytest.raises(Refused, match="404"):
        measured(server)


@pytest.mark.parametrize(
    ("quantization", "told"), [("Q4_K_M", "Q4_K_M"), ({"name": "4bit", "bits_per_weight": 4}, "4bit"), (None, None)]
)
def test_a_list_of_models_that_tells_formats_is_believed(stand, quantization, told):
    plain = Completions(paths=("/api/v0/completions",))
    model = {"id": "m", "quantization": quantization}
    server = stand(lambda path, message: (200, [{"data": [model]}]) if "models" in path else plain(path, message))
    body = openai.measure(entry(server.url + "/api/v0"), run_of())
    assert body["applied"].get("weights") == told


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


@pytest.mark.parametrize("name", ["tiny-q4_0", "/models/tiny-q4_0.gguf", "C:\\models\\tiny-q4_0.gguf"])
def test_llama_servers_router_is_asked_for_the_model_in_every_request(stand, name):
    server = stand(llama_server_answers(route="tiny-q4_0"))
    body = llama_server.measure(entry(server.url, "llama-server", name=name), run_of())
    assert body["applied"] == {"weights": "Q4_K - Medium"}
    assert all(message["model"] == "tiny-q4_0" for _, message, _ in server.asked if message)


def test_llama_servers_router_names_its_models_where_the_entry_names_none_of_them(stand):
    server = stand(llama_server_answers(route="tiny-q4_0"))
    with pytest.raises(Failed, match="routes to tiny-q4_0, other: give its entry the name of one"):
        llama_server.measure(entry(server.url, "llama-server", name="big"), run_of())


def test_a_router_before_llama_server_says_where_that_is(stand):
    server = stand(lambda path, message: (404, [b"404 page not found"]))
    with pytest.raises(Failed, match=r"has no /props.* llama-swap has it at /upstream/NAME"):
        llama_server.measure(entry(server.url, "llama-server"), run_of())


def test_an_error_inside_a_stream_of_llama_server_is_its_reason(stand):
    plain = llama_server_answers()
    broken = data({"error": {"code": 500, "message": "failed to decode batch"}})
    server = stand(lambda path, message: (200, [broken]) if path == "/completion" else plain(path, message))
    with pytest.raises(Failed, match="failed: failed to decode batch"):
        llama_server.measure(entry(server.url, "llama-server"), run_of())


def ollama_answers(path, message, level="Q4_K_M", key="response"):
    if path == "/api/version":
        return 200, [{"version": "0.40.12"}]
    if path == "/api/show":
        return 200, [{"details": {"quantization_level": level}, "thinking": {"values": [True, False]}}]
    n = message["options"]["num_predict"]
    last = {"done": True, "done_reason": "length", "prompt_eval_count": n_words(message), "eval_count": n}
    return 200, [{key: "", "done": False}, *({key: "a", "done": False} for _ in range(n)), last]


@pytest.mark.parametrize("key", ["response", "thinking"])
def test_what_ollama_thinks_counts_and_empty_pieces_do_not(stand, key):
    server = stand(lambda path, message: ollama_answers(path, message, key=key))
    body = ollama.measure(entry(server.url, "ollama", name="m"), run_of())
    assert body["decode_s"]["n"] == 47 * body["conditions"]["runs"]


# --- paths


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("", "/v1"),
        ("/", "/v1"),
        ("/v1", "/v1"),
        ("/v1/", "/v1"),
        ("/api/v1", "/api/v1"),
        ("/v3", "/v3"),
        ("/openai", "/openai/v1"),
        ("/v1/chat/completions", "/v1"),
        ("/v1/models", "/v1"),
        ("/api", "/api"),  # no version of the interface in its paths at all
    ],
)
def test_prefixes_of_a_path_stay_and_its_end_may_be_told_or_not(stand, path, prefix):
    plain = Completions(paths=(f"{prefix}/completions",))

    def answer(path, message):  # a page for people, as some servers have for every other path
        return plain(path, message) if re.fullmatch(f"{prefix}/[a-z]+", path) else (200, [b"<!doctype html>"])

    server = stand(answer)
    check_whole(openai.measure(entry(server.url + path), run_of()), server)


@pytest.mark.parametrize(("kind", "path"), [("llama-server", "/v1"), ("ollama", "/v1"), ("ollama", "/api/")])
def test_the_interface_of_openai_in_the_url_of_another_driver_is_passed_over(kind, path):
    assert entry("http://h:1" + path, kind).url == "http://h:1"
    assert entry("http://h:1/llama" + path, kind).url == "http://h:1/llama"


def test_a_place_that_has_moved_is_told(stand):
    server = stand(lambda path, message: (308, [], {"Location": "https://elsewhere/v1"}))
    with pytest.raises(Failed, match="points to https://elsewhere/v1: give that place as its url"):
        measured(server)


# --- keys


@pytest.mark.parametrize(
    ("more", "header", "value"),
    [
        ({"key": "sk-1"}, "Authorization", "Bearer sk-1"),
        ({"key_env": "MY_KEY"}, "Authorization", "Bearer sk-2"),
        ({"key_file": "KEY_FILE"}, "Authorization", "Bearer sk-3"),
        ({"key": "sk-1", "key_header": "X-API-Key"}, "X-API-Key", "sk-1"),
        ({"key_env": "MY_KEY", "key_header": "api-key"}, "api-key", "sk-2"),
    ],
)
def test_a_key_goes_into_its_header_and_nowhere_else(stand, monkeypatch, tmp_path, more, header, value):
    monkeypatch.setenv("MY_KEY", "sk-2\n")
    (tmp_path / "key").write_text("sk-3\n")
    more = {name: str(tmp_path / "key") if text == "KEY_FILE" else text for name, text in more.items()}
    server = stand(Completions())
    made = entry(server.url, **more)
    body = openai.measure(made, run_of())
    assert all(headers[header] == value for _, _, headers in server.asked)
    secret = value.rpartition(" ")[2]
    assert secret not in json.dumps(body) + repr(made) + json.dumps(made.message())


def test_a_name_and_password_of_an_url_are_sent_and_not_shown(stand):
    server = stand(Completions())
    made = entry(server.url.replace("//", "//me:pa%40ss@"))
    openai.measure(made, run_of())
    assert server.asked[-1][2]["Authorization"] == "Basic bWU6cGFAc3M="
    assert made.where == f"openai at {server.url}"


@pytest.mark.parametrize(
    ("status", "words"),
    [(500, "Incorrect API key provided: ***. *** is bad"), (401, "refused the API key of key_env K (401)")],
)
def test_a_key_that_a_server_repeats_is_not_shown(stand, monkeypatch, status, words):
    monkeypatch.setenv("K", "sk-secret")
    said = {"error": {"message": "Incorrect API key provided: sk-secret.\nsk-secret is bad"}}
    with pytest.raises(Failed, match=re.escape(words)) as caught:
        measured(stand(lambda path, message: (status, [said])), key_env="K")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY is not set in the environment of the agent"),
        ({"key_file": "/no/such/file"}, "/no/such/file: No such file or directory"),
        ({"key": "sk secret\r\nX: y"}, "key is not one word of ASCII letters, digits and signs"),
        ({"key": "sk-sécret"}, "key is not one word of ASCII letters, digits and signs"),
    ],
)
def test_a_key_that_cannot_be_used_is_told_without_it(stand, more, words):
    with pytest.raises(Failed, match=words) as caught:
        measured(stand(Completions()), **more)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "record", [{"key": ["sk-secret"]}, {"key_header": "X Y: sk"}, {"url": "http://a:sk-secret@h:b"}]
)
def test_a_wrong_member_is_told_without_the_secret(record):
    plain = {"runtime": "r", "kind": "openai", "model": "m", "url": "http://h:1"}
    with pytest.raises(ValueError, match=r"f: runtime 1: (key|key_header|url): got ") as caught:
        parse_entries(json.dumps([{**plain, **record}]), "f")
    assert "secret" not in str(caught.value)


# --- busy servers


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["0", "", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"])
def test_a_busy_server_is_asked_again_when_it_wants(stand, status, after):
    plain, left = Completions(), [2, 2, 2]

    def busy(path, message):
        i = ("models" in path) + 2 * ("chat" in path)
        left[i] -= 1
        return (status, [{"error": "busy"}], {"Retry-After": after}) if left[i] > 0 else plain(path, message)

    server = stand(busy)
    check_whole(measured(server), server)


def test_a_server_that_stays_busy_says_so_in_its_words(stand):
    server = stand(lambda path, message: (503, [b"Loading model"], {"Retry-After": "9999"}))
    with pytest.raises(Failed, match=re.escape("refused the request (503): Loading model")):
        measured(server)


def test_a_busy_server_is_left_when_the_run_is_given_up(stand):
    server = stand(lambda path, message: (503, [], {"Retry-After": "50"}))
    begun_s = time.monotonic()
    with pytest.raises(http.Cancelled):
        openai.measure(entry(server.url), run_of(cancelled=lambda: bool(server.asked)))
    assert time.monotonic() - begun_s < 40


# --- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return the files of a certificate of its own and of its key, valid for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    subject = ("-subj", "/CN=board", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *subject)
    subprocess.run([*command, "-keyout", folder / "key", "-out", folder / "crt"], check=True, capture_output=True)
    return folder / "crt", folder / "key"


def test_a_private_ca_is_trusted_where_the_entry_names_it(stand, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = stand(Completions(), context)
    check_whole(measured(server, ca_file=str(certificate[0])), server)
    with pytest.raises(Failed, match=r"is not trusted \(self.signed certificate\): name its CA's as ca_file"):
        measured(server)
    with pytest.raises(Failed, match=r"cannot be read: /none: No such file"):
        measured(server, ca_file="/none")
    with pytest.raises(Failed, match=r"it is not PEM"):
        measured(server, ca_file=__file__)


def test_tls_to_a_server_without_it_says_so(stand):
    server = stand(Completions())
    with pytest.raises(Failed, match=r"does not speak TLS .*: is its url one of http://"):
        openai.measure(entry(server.url.replace("http:", "https:")), run_of())


def test_a_machine_that_nobody_knows_is_told():
    with pytest.raises(Failed, match="names no machine that this board can find"):
        openai.measure(entry("http://no-such-host.invalid:1"), run_of())
