"""Published rows as operating points: what is compared, left out or outside the range."""

import pytest

from core.physics.traffic import weight_byte
from core.predict.scenario import predict
from core.tables.as_points import compare
from core.tables.rows import PublishedRow
from tests.core.tables.published_row import CATALOGUE, one, row


def test_known_names_are_the_catalogue_s():
    found, catalogue = one(model_key="qwen2.5-1.5b", power_mode="max CPU/NPU clocks")
    point = found.decode
    assert (point.board, point.runtime, point.power_mode) == ("rk3588", "rkllm_npu", "default")
    assert (point.model, point.weights) == ("qwen2.5-1.5b", "w8a8")
    assert found.bandwidth_known
    assert found.compute_known
    known = CATALOGUE.models["qwen2.5-1.5b"]
    assert weight_byte(catalogue.models[point.model], catalogue.weight_formats["w8a8"]) == weight_byte(
        known, CATALOGUE.weight_formats["w8a8"]
    )
    predict(point, catalogue)


def test_row_s_own_bandwidth_and_bytes_win():
    found, catalogue = one(model_key="qwen2.5-1.5b", weight_stream_bytes=1.6e9, params_streamed_b=1.55e9)
    assert weight_byte(catalogue.models[found.decode.model], catalogue.weight_formats["w8a8"]) == 1.6e9
    rows = [row(), row(line=3, dram_bandwidth_gb_s=20e9), row(line=4)]
    assert [r.decode.bandwidth_byte_s for r in compare(rows, CATALOGUE).rows] == [None, 20e9, None]
    assert [r.decode.bandwidth_byte_s for r in compare(rows[1:], CATALOGUE).rows] == [20e9, None]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trust": "X", "params_b": 1e9}, "trust X"),
        ({"batch": 8.0, "params_b": 1e9}, "8 sequences"),
        ({"compute": "gpu/cpu", "params_b": 1e9}, "gpu/cpu"),
        ({"model": "Hal 9000"}, "parameters (params_b) are not stated"),
        ({"params_b": 1e9, "quant": "secret"}, "neither the bytes"),
    ],
)
def test_rows_that_cannot_be_compared_say_why(changes, reason):
    compared = compare([row(line=7, **changes)], CATALOGUE)
    assert not compared.rows
    ((line, why),) = compared.left_out
    assert line == 7
    assert reason in why


def test_few_bits_and_few_threads_are_outside_the_range():
    assert "bits a weight" in one(params_b=1e9, quant="W2", weight_bits=2.0)[0].outside
    rows = [row(line=i, params_b=1e9, threads=float(n)) for i, n in ((2, 1), (3, 8))]
    outside = [r.outside for r in compare(rows, CATALOGUE).rows]
    assert "1 of 8 threads" in outside[0]
    assert outside[1] == ""


def test_prompt_faster_than_the_peak_rate_was_cached():
    text = {"board_key": "apple_m1_max", "compute": "gpu", "runtime": "ollama", "quant": "Q4_K_M"}
    rows = [
        row(line=line, model_key="qwen2.5-7b", ttft_ms=ttft_s, prompt_tokens=512.0, **text)
        for line, ttft_s in ((2, 1.5), (3, 0.1))
    ]
    compared = compare(rows, CATALOGUE)
    assert [r.row.ttft_s for r in compared.rows] == [1.5, None]
    assert [line for line, _ in compared.without_ttft] == [3]
    assert "peak rate" in compared.without_ttft[0][1]
    only = PublishedRow(4, rows[1].text, {"ttft_ms": 0.1, "prompt_tokens": 512.0})
    assert [line for line, _ in compare([only], CATALOGUE).left_out] == [4]


def test_tokens_faster_than_their_weights_can_be_read_are_outside():
    text = {"board_key": "apple_m1_max", "compute": "gpu", "runtime": "ollama", "quant": "Q4_K_M"}
    rows = [row(line=n, model_key="qwen2.5-7b", decode_tok_s=tok_s, **text) for n, tok_s in ((2, 50.0), (3, 50e3))]
    right, wrong = compare(rows, CATALOGUE).rows
    assert right.outside == ""
    assert "wrong unit" in wrong.outside


def test_idle_experts_count_in_the_total_of_an_unlisted_mixture():
    for text in ({"model": "New 3B(A570M)"}, {"model": "New 3B", "moe_or_sparse": "True"}):
        found, catalogue = one(params_b=3e9, params_streamed_b=0.57e9, **text)
        shape = catalogue.models[found.decode.model]
        assert shape.total_params == 3e9
        assert shape.body_params + shape.head_params == pytest.approx(0.57e9)
    found, catalogue = one(params_b=3e9, model="Dense 3B")
    assert catalogue.models[found.decode.model].total_params == 3e9


def test_what_does_not_fit_in_memory_is_outside():
    text = {"board_key": "jetson_orin_nano_8gb_super", "compute": "gpu", "runtime": "llama.cpp", "quant": "Q4_K_M"}
    assert CATALOGUE.boards["jetson_orin_nano_8gb_super"].memory_byte is not None
    rows = [
        row(line=2, model_key="llama-3.2-1b", context_tokens=2048.0, **text),
        row(line=3, model_key="llama-3.2-1b", context_tokens=1e6, **text),
        row(line=4, model_key="llama-2-70b", decode_tok_s=0.1, **text),
    ]
    fits, long, large = (one.outside for one in compare(rows, CATALOGUE).rows)
    assert fits == ""
    for said in (long, large):
        assert "times the memory of" in said
        assert "Orin Nano" in said


def test_a_mixture_s_file_is_no_even_share_of_its_experts():
    """Attention and head of gpt-oss are of 8 bits, its experts of 4: an even share of the file says 2.09 GB."""
    stated = {"weight_stream_bytes": 2087726632.0, "params_streamed_b": 3.6071e9, "weight_basis": "source (GiB)"}
    found, catalogue = one(board_key="dgx_spark", compute="gpu", runtime="ollama", model="gpt-oss-20b", quant="MXFP4",
                           model_key="gpt-oss-20b", **stated)  # fmt: skip
    byte = weight_byte(catalogue.models[found.decode.model], catalogue.weight_formats[found.decode.weights])
    experts, others = 2.391e9, 0.637e9 + 201088 * 2880
    assert byte == pytest.approx(experts * 4.25 / 8 + others * 8.5 / 8, rel=1e-3)
    dense, catalogue = one(model_key="qwen2.5-1.5b", weight_stream_bytes=1.4e9, params_streamed_b=1.54e9)
    assert weight_byte(catalogue.models[dense.decode.model], catalogue.weight_formats["w8a8"]) == 1.4e9
