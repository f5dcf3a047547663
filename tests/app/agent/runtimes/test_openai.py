"""Servers with OpenAI's interface."""

import json

import pytest

from app.agent.runtimes import openai
from app.agent.runtimes.outcome import Failed
from tests.app.agent.runtimes.stand import entry, openai_answers, run_of, timeline


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


def test_a_point_is_measured_with_a_server_of_openai_interface(stand, tmp_path):
    server = stand(openai_answers)
    key = tmp_path / "key"
    key.write_text("secret\n", encoding="utf-8")
    body = openai.measure(entry("openai", server.url, key_file=str(key)), run_of())
    assert body["decode_s"]["n"] == 47 * body["conditions"]["runs"]
    assert server.asked[-1][2]["Authorization"] == "Bearer secret"
    assert "secret" not in json.dumps(body)
    assert "stream_options" in server.asked[-1][1]
