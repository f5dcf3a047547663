"""Output of llama-bench."""

import json

import pytest

from app.agent.runtimes import llama_bench

BENCH = {
    "build_commit": "b4d2950",
    "model_filename": "C:\\models\\tiny.gguf",
    "model_type": "llama 1B Q4_K - Medium",
    "n_threads": 4,
    "n_prompt": 0,
    "n_gen": 32,
    "n_depth": 512,
    "a_new_member": [1],
    "avg_ns": 6.4e8,
    "samples_ns": [6.4e8, 6.5e8, 6.3e8],
}


def test_llama_bench_output_is_read_as_array_and_as_lines():
    for text in (json.dumps([BENCH, BENCH]), f"noise\n{json.dumps(BENCH)}\n{json.dumps(BENCH)}\n"):
        tests = llama_bench.parse(text)
        assert len(tests) == 2
        assert tests[0]["model_filename"] == "tiny.gguf"  # no path of the board goes along
        assert tests[0]["a_new_member"] == [1]
        assert llama_bench.samples_s(tests[0]) == pytest.approx([0.64, 0.65, 0.63])
        assert llama_bench.weights_of(tests[0]) == "Q4_K - Medium"


def test_llama_bench_without_samples_gives_its_average_and_without_both_nothing():
    bare = {key: value for key, value in BENCH.items() if key != "samples_ns"}
    assert llama_bench.samples_s(bare) == pytest.approx([0.64])
    for wrong in ({}, {"avg_ns": -3}, {"avg_ns": "6"}, {"samples_ns": [1.0, None]}, {"avg_ns": True}):
        assert llama_bench.samples_s(wrong) == []
        with pytest.raises(ValueError, match="holds no test of llama-bench"):
            llama_bench.parse(json.dumps([wrong]))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("before", ["", "[ggml] a line\n", "{not json}\nload_backend: [CPU]\n"])
def test_llama_bench_output_is_found_among_other_lines_and_before_a_broken_end(before, indent):
    text = before + json.dumps([BENCH, {**BENCH, "n_gen": 64}], indent=indent)
    assert [test["n_gen"] for test in llama_bench.parse(text + "\n~ggml: done\n")] == [32, 64]
    if indent:
        assert [test["n_gen"] for test in llama_bench.parse(text[:-60])] == [32]
