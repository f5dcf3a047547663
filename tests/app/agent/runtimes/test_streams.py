"""Times of tokens in a stream."""

import re
import threading

import pytest

from app.agent.runtimes import openai
from app.agent.runtimes.http import Exchange
from app.agent.runtimes.outcome import Cancelled, Failed, Timeline
from app.agent.runtimes.streams import Answer, disturbed, repeat, token_times_s
from tests.app.agent.runtimes.stand import chunk, entry, run_of
from tests.waiting import PATIENCE_S


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


def test_a_run_is_cancelled_while_the_server_generates(stand):
    hold, begun, ended = threading.Event(), threading.Event(), threading.Event()

    def answer(path, message):
        def pieces():
            yield chunk("a")
            begun.set()
            hold.wait(PATIENCE_S)
            ended.set()

        return 200, pieces()

    server = stand(answer)
    with pytest.raises(Cancelled):
        openai.ask(entry("openai", server.url), run_of(cancelled=begun.is_set), "/v1/completions", {})
    assert not ended.is_set()
    hold.set()
