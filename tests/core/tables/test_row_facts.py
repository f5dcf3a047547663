"""Bytes and tokens that a published row states."""

import pytest

from core.tables import row_facts
from core.tables.as_points import compare
from core.tables.models import models_of
from core.tables.row_facts import streamed_byte
from tests.core.tables.published_row import CATALOGUE, one, row


def test_total_size_loses_what_a_token_does_not_read():
    def read_byte(**changes):
        (model,) = models_of([row(**changes)], CATALOGUE.models)
        return streamed_byte(row(**changes), model)

    assert 1.85e9 < read_byte(model="A 2B", params_b=2e9, weight_bytes=2e9) < 2e9
    assert read_byte(model="A 30B-A3B", params_b=30e9, weight_bytes=30e9) == pytest.approx(3e9)
    assert read_byte(model="A 2B", params_b=2e9, params_streamed_b=1.8e9, weight_stream_bytes=1.9e9) == 1.9e9
    assert read_byte(model="A 2B", params_streamed_b=1.8e9, bits_per_weight=8.5) == pytest.approx(1.8e9 * 8.5 / 8)
    assert read_byte(model="A 2B", params_b=2e9, weight_bits=8.0) is None  # scales are not told


def test_context_follows_what_is_stated():
    def tokens(**changes):
        return one(params_b=1e9, **changes)[0].decode.context_tokens

    assert tokens(context_tokens=700.0) == 700.0
    assert tokens(prompt_tokens=512.0, gen_tokens=128.0) == 576.0
    assert tokens() == 128.0
    assert one(params_b=1e9, prompt_tokens=512.0)[0].prefill.context_tokens == 512.0


def test_a_compiled_graph_reads_its_whole_context():
    qnn = {"runtime": "Genie/QNN", "quant": "w4a16", "model_key": "llama-3-8b", "board_key": "snapdragon_8_elite"}
    timed, _ = one(**qnn, ttft_ms=0.1, ttft_full_context_ms=1.6, context_limit_tokens=4096.0)
    assert timed.decode.context_tokens == 16 * 128  # what its times show, not what the table states
    stated, _ = one(**qnn, context_limit_tokens=4096.0)
    assert stated.decode.context_tokens == 4096.0
    assert stated.decode.kv == "int8"
    bare, _ = one(**qnn)
    assert bare.decode.context_tokens == 128.0
    other, _ = one(model_key="qwen2.5-1.5b", context_limit_tokens=4096.0)
    assert other.decode.context_tokens == 128.0
    assert other.decode.kv == "bf16"


def test_a_prompt_of_unknown_length_is_left_out():
    qnn = {"runtime": "Genie/QNN", "quant": "w4a16", "model_key": "llama-2-7b", "ttft_ms": 1.44}
    unknown, _ = one(**qnn, ttft_full_context_ms=1.44)
    assert unknown.row.ttft_s is None
    assert unknown.row.decode_s is not None
    limited, _ = one(**qnn, ttft_full_context_ms=1.44, context_limit_tokens=1024.0)
    assert limited.row.ttft_s == pytest.approx(1.44)
    assert limited.prefill.context_tokens == 1024.0


def test_estimates_by_nominal_bits_give_way_to_the_shape():
    estimate = {"model_key": "qwen2.5-1.5b", "weight_stream_bytes": 1e9, "params_streamed_b": 1.55e9}
    assert streamed_byte(row(**estimate), CATALOGUE.models["qwen2.5-1.5b"]) == 1e9
    named = row(**estimate, weight_basis="estimate (name parameters x bits)")
    assert streamed_byte(named, CATALOGUE.models["qwen2.5-1.5b"]) is None


def test_a_time_copied_from_another_format_is_left_out():
    text = {"board_key": "snapdragon_8_elite", "runtime": "Genie/QNN", "model_key": "llama-3.2-3b"}
    rows = [
        row(line=line, quant=quant, ttft_ms=ttft_s, prompt_tokens=128.0, **text)
        for line, quant, ttft_s in (
            (2, "w4a16", 88.195e-3),
            (3, "w4", 88.195e-3),  # copied
            (4, "w4a16", 88.195e-3),  # the same measurement again
            (5, "w8a8", 0.3),
            (6, "w4", 0.3),  # round figures agree by chance
        )
    ]
    compared = compare(rows, CATALOGUE)
    assert [(line, "w4a16" in why) for line, why in compared.without_ttft] == [(3, True)]
    assert [r.row.ttft_s is None for r in compared.rows] == [False, True, False, False, False]


def test_a_prompt_of_unstated_length_has_no_time_to_first_token():
    (_, why), *_ = compare([row(ttft_ms=1.0)], CATALOGUE).without_ttft
    assert "prompt_tokens" in why
    assert one(ttft_ms=1.0, prefill_tok_s=100.0)[0].prefill.context_tokens == 100.0
    assert one(ttft_ms=1.0, context_tokens=192.0, gen_tokens=256.0)[0].prefill.context_tokens == 64.0


def test_contexts_and_prompts_follow_from_each_other():
    assert row_facts.context_tokens(row()) == row_facts.UNKNOWN_TOKENS
    assert row_facts.context_tokens(row(prompt_tokens=100.0, gen_tokens=50.0)) == 125.0
    assert row_facts.context_tokens(row(prompt_tokens=100.0, context_tokens=7.0)) == 7.0
    assert row_facts.with_prompt_tokens(row(ttft_ms=0.5, prefill_tok_s=100.0)).number["prompt_tokens"] == 50.0
    assert "prompt_tokens" not in row_facts.with_prompt_tokens(row(ttft_ms=0.001, prefill_tok_s=100.0)).number
    stated = row(prompt_tokens=3.0, ttft_ms=0.5, prefill_tok_s=100.0)
    assert row_facts.with_prompt_tokens(stated) is stated


def test_a_graph_is_as_long_as_its_runs_over_a_full_context():
    timed = row(ttft_ms=100.0, ttft_full_context_ms=3190.0, context_limit_tokens=999.0)
    assert row_facts.compiled_graph_tokens(timed, 128.0) == 32 * 128.0
    assert row_facts.compiled_graph_tokens(row(context_limit_tokens=999.0), 128.0) == 999.0
    assert row_facts.compiled_graph_tokens(row(), 128.0) == 0.0
    assert row_facts.graph_tokens(row(prompt_tokens=100.0, gen_tokens=0.0), 128.0) == 100.0


def test_streamed_bytes_are_the_share_that_a_token_reads():
    model = CATALOGUE.models["qwen3-30b-a3b"]
    read = model.body_params + model.head_params
    share = row_facts.streamed_byte(row(weight_bytes=1e9), model)
    assert share == pytest.approx(1e9 * read / model.total_params)
    assert row_facts.streamed_byte(row(weight_stream_bytes=2e9, params_streamed_b=3.0), model) == 2e9
    assert row_facts.streamed_byte(row(bits_per_weight=4.0), model) == pytest.approx(read / 2)
    assert row_facts.streamed_byte(row(), model) is None
