"""Answers of Ollama."""

import pytest

from app.agent.runtimes import ollama
from app.agent.runtimes.outcome import Failed
from tests.app.agent.runtimes.stand import entry, ollama_answers, run_of, timeline


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
    assert body["applied"]["weights"] == "Q4_K_M"
    assert len({message["prompt"][:20] for message in asked}) == len(asked)  # no prompt begins like an earlier one
    assert len({message["options"]["num_ctx"] for message in asked}) == 1  # so the model is not loaded again
    assert body["perplexity"]["absent"]
