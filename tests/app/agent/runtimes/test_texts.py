"""Prompts of the user: answers and probabilities of servers with OpenAI's interface, and what is refused."""

import math

import pytest

from app.agent.runtimes import texts
from app.agent.runtimes.outcome import Failed, Run
from tests.app.agent.runtimes.served import POINT, entry

ASKED = {"prompt": "Two and two is", "reference": " four.", "n_tokens": 3}


def run_of(**options):
    return Run(POINT, ("texts",), lambda done_frac, text: None, lambda: False, {**ASKED, **options})


def completions(*, echo=True, text=True):
    def answer(path, message):
        if path.endswith("/models"):
            return 200, [{"data": [{"id": "m"}]}]
        if "chat" in path:
            return 200, [{"choices": [{"message": {"content": " five"}}]}]
        if message.get("echo"):
            if not echo:
                return 400, [{"error": {"message": "echo is not supported"}}]
            told = {
                "tokens": ["Two and two is", " four", ".", " It"],
                "token_logprobs": [None, -0.5, -3.0, -1.0],
                "top_logprobs": [None, {" four": -0.5, " five": -2.0}, {"!": -0.1, ".": -3.0}, {" It": -1.0}],
                "text_offset": [0, 14, 19, 20],
            }
            return 200, [{"choices": [{"text": "...", "logprobs": told}]}]
        return (200, [{"choices": [{"text": " four, said"}]}]) if text else (404, [{"detail": "Not Found"}])

    return answer


def test_an_echoed_reference_is_scored_without_prompt_and_answer(stand):
    body = texts.measure(entry(stand(completions()).url), run_of())
    answer = body["answer"]
    assert answer["text"] == " four, said"
    assert answer["request_s"] > 0.0
    assert [one["log_probability"] for one in answer["tokens"]] == [-0.5, -3.0]
    assert [one["first"] for one in answer["tokens"]] == [True, False]
    assert answer["tokens"][0]["top"] == {" four": -0.5, " five": -2.0}


def test_a_server_that_only_chats_answers_without_probabilities(stand):
    answer = texts.measure(entry(stand(completions(echo=False, text=False)).url), run_of())["answer"]
    assert answer["text"] == " five"
    assert "tells no probabilities" in answer["tokens"]["absent"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prompt": ""}, "prompt: got ''"),
        ({"reference": None}, "reference: got None"),
        ({"reference": "x" * 12001}, "expected a text of 1 to 12000 characters"),
        ({"n_tokens": 0}, "n_tokens: got 0"),
        ({"n_tokens": -1}, "n_tokens: got -1"),
        ({"n_tokens": math.nan}, "n_tokens: got nan"),
        ({"n_tokens": True}, "n_tokens: got True"),
        ({"n_tokens": 10**9}, "expected 1 to 512"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(stand, options, says):
    server = stand(completions())
    with pytest.raises(Failed) as error:
        texts.measure(entry(server.url), run_of(**options))
    assert says in str(error.value)
    assert not server.asked


def test_a_kind_without_prompts_says_so():
    with pytest.raises(Failed, match="answers no prompts of the user"):
        texts.measure(entry("http://127.0.0.1:1", kind="ollama"), run_of())
