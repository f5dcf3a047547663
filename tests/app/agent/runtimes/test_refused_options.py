"""Options that a server refuses."""

import pytest

from app.agent.runtimes import llama_server, ollama
from app.agent.runtimes.outcome import Failed
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
