"""Names of models and paths before them."""

import re

import pytest

from app.agent.runtimes import llama_server, ollama, openai
from app.agent.runtimes.outcome import Failed, Refused
from tests.app.agent.runtimes.served import (
    Completions,
    check_whole,
    data,
    entry,
    llama_server_answers,
    measured,
    ollama_answers,
    run_of,
)

pytestmark = pytest.mark.usefixtures("quick")


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


@pytest.mark.parametrize("key", ["response", "thinking"])
def test_what_ollama_thinks_counts_and_empty_pieces_do_not(stand, key):
    server = stand(lambda path, message: ollama_answers(path, message, key=key))
    body = ollama.measure(entry(server.url, "ollama", name="m"), run_of())
    assert body["decode_s"]["n"] == 47 * body["conditions"]["runs"]


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
