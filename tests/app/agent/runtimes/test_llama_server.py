"""Answers of llama-server."""

import math

import pytest

from app.agent.runtimes import llama_server
from app.agent.runtimes.outcome import Failed
from tests.app.agent.runtimes.stand import entry, timeline

SERVED = {
    "stop": True,
    "tokens_predicted": 5,
    "tokens_evaluated": 128,
    "timings": {"cache_n": 0, "prompt_n": 128, "prompt_ms": 640.0, "predicted_n": 5, "predicted_ms": 40.0},
}


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
