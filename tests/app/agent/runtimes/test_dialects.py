"""Dialects of a stream."""

import json
import re
import time
from dataclasses import replace

import pytest

from app.agent.runtimes import openai
from app.agent.runtimes.outcome import Failed, Silent
from tests.app.agent.runtimes.served import Completions, check_whole, data, entry, measured, run_of

pytestmark = pytest.mark.usefixtures("quick")


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
