import pytest

from core.catalogue.load import load_catalogue
from core.physics.traffic import weight_byte
from core.predict.parameters import same_model
from core.predict.scenario import predict
from core.tables.as_points import compare
from core.tables.models import models_of
from core.tables.row_facts import streamed_byte
from core.tables.rows import PublishedRow

CATALOGUE = load_catalogue()
TEXTS = ("board", "power_rail", "power_mode", "model_key", "moe_or_sparse", "kv_quant", "trust", "row_id")


def row(line=2, **changes):
    text = {
        "board_key": "rk3588",
        "compute": "npu",
        "runtime": "rkllm",
        "model": "Qwen2.5 1.5B",
        "quant": "w8a8",
        **dict.fromkeys(TEXTS, ""),
    }
    number = {"decode_tok_s": 16.0}
    for name, value in changes.items():
        (text if isinstance(value, str) else number)[name] = value
    return PublishedRow(line, text, number)


def one(**changes):
    compared = compare([row(**changes)], CATALOGUE)
    assert not compared.left_out, compared.left_out
    return compared.rows[0], compared.catalogue


def test_known_names_are_the_catalogue_s():
    found, catalogue = one(model_key="qwen2.5-1.5b", power_mode="max CPU/NPU clocks")
    point = found.decode
    assert (point.board, point.runtime, point.power_mode) == ("rk3588", "rkllm_npu", "default")
    assert (point.model, point.weights) == ("qwen2.5-1.5b", "w8a8")
    assert found.bandwidth_stated
    assert found.compute_stated
    known = CATALOGUE.models["qwen2.5-1.5b"]
    assert weight_byte(catalogue.models[point.model], catalogue.weight_formats["w8a8"]) == weight_byte(
        known, CATALOGUE.weight_formats["w8a8"]
    )
    predict(point, catalogue)


@pytest.mark.parametrize(
    ("runtime", "compute", "key"),
    [
        ("ollama", "cpu", "llamacpp_cpu"),
        ("SmallThinker (llama.cpp fork)", "cpu", "llamacpp_cpu"),
        ("Genie/QNN", "npu", "qnn_npu"),
        ("MLC", "gpu", "mlc_gpu"),
        ("TensorRT-Edge-LLM", "gpu", "tensorrt_gpu"),
        ("a new one 1.2", "npu", "other-a-new-one_npu"),
        ("llama.cpp", "npu", "other-llama-cpp_npu"),
    ],
)
def test_runtimes_by_their_names(runtime, compute, key):
    assert one(runtime=runtime, compute=compute, params_b=1.5e9, bits_per_weight=8.0)[0].decode.runtime == key


@pytest.mark.parametrize(
    ("quant", "key"),
    [
        ("Q4_K_M", "q4_k_m"),
        ("ollama default (Q4_K_M)", "q4_k_m"),
        ("INT4 (q4f16)", "q4f16"),
        ("INT4-AWQ g128", "w4a16_g128"),
        ("FP16/BF16 (checkpoint default)", "bf16"),
        ("F16", "fp16"),
        ("w8a8 (not stated)", "w8a8"),
        ("NVFP4", "nvfp4"),
    ],
)
def test_formats_by_their_names(quant, key):
    found, catalogue = one(quant=quant, params_b=1.5e9, bits_per_weight=4.5)
    assert found.decode.weights == key
    assert key in catalogue.weight_formats


def test_unlisted_board_is_described_by_its_row():
    found, catalogue = one(board_key="rk9999", dram_bandwidth_gb_s=50e9, params_b=2e9, weight_bits=8.0)
    board = catalogue.boards[found.decode.board]
    assert board.unit == "npu"
    assert board.power_modes[found.decode.power_mode].bandwidth_byte_s == 50e9
    assert found.bandwidth_stated
    assert not found.compute_stated
    unknown, catalogue = one(board_key="rk9999", params_b=2e9, weight_bits=8.0)
    assert not unknown.bandwidth_stated
    assert catalogue.boards[unknown.decode.board].power_modes[unknown.decode.power_mode].bandwidth_log_sd >= 1.0


def test_other_unit_of_a_known_board_is_a_board_of_its_own():
    found, catalogue = one(compute="cpu", runtime="llama.cpp", params_b=2e9, weight_bits=8.0)
    assert found.decode.board == "rk3588.cpu"
    assert catalogue.boards["rk3588.cpu"].unit == "cpu"
    assert CATALOGUE.boards["rk3588"].unit == "npu"
    assert catalogue.boards["rk3588"] == CATALOGUE.boards["rk3588"]


def test_row_s_own_bandwidth_and_bytes_win():
    found, catalogue = one(model_key="qwen2.5-1.5b", weight_stream_bytes=1.6e9, params_streamed_b=1.55e9)
    assert weight_byte(catalogue.models[found.decode.model], catalogue.weight_formats["w8a8"]) == 1.6e9
    rows = [row(), row(line=3, dram_bandwidth_gb_s=20e9), row(line=4)]
    assert [r.decode.bandwidth_byte_s for r in compare(rows, CATALOGUE).rows] == [None, 20e9, None]
    assert [r.decode.bandwidth_byte_s for r in compare(rows[1:], CATALOGUE).rows] == [20e9, None]


def test_two_files_of_one_model_and_format_stay_apart_but_are_one_model():
    rows = [row(line=i, params_streamed_b=1e9, weight_stream_bytes=byte) for i, byte in ((2, 1.0e9), (3, 1.2e9))]
    keys = [r.decode.model for r in compare(rows, CATALOGUE).rows]
    assert keys[0] != keys[1]
    assert same_model(keys[0]) == same_model(keys[1])


def test_total_size_loses_what_a_token_does_not_read():
    def read_byte(**changes):
        (model,) = models_of([row(**changes)], CATALOGUE.models)
        return streamed_byte(row(**changes), model)

    assert 1.85e9 < read_byte(model="A 2B", params_b=2e9, weight_bytes=2e9) < 2e9
    assert read_byte(model="A 30B-A3B", params_b=30e9, weight_bytes=30e9) == pytest.approx(3e9)
    assert read_byte(model="A 2B", params_b=2e9, params_streamed_b=1.8e9, weight_stream_bytes=1.9e9) == 1.9e9
    assert read_byte(model="A 2B", params_streamed_b=1.8e9, bits_per_weight=8.5) == pytest.approx(1.8e9 * 8.5 / 8)
    assert read_byte(model="A 2B", params_b=2e9, weight_bits=8.0) is None  # scales are not told


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


def test_context_follows_what_is_stated():
    def tokens(**changes):
        return one(params_b=1e9, **changes)[0].decode.context_tokens

    assert tokens(context_tokens=700.0) == 700.0
    assert tokens(prompt_tokens=512.0, gen_tokens=128.0) == 576.0
    assert tokens() == 128.0
    assert one(params_b=1e9, prompt_tokens=512.0)[0].prompt.context_tokens == 512.0


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
    assert limited.prompt.context_tokens == 1024.0


def test_estimates_by_nominal_bits_give_way_to_the_shape():
    estimate = {"model_key": "qwen2.5-1.5b", "weight_stream_bytes": 1e9, "params_streamed_b": 1.55e9}
    assert streamed_byte(row(**estimate), CATALOGUE.models["qwen2.5-1.5b"]) == 1e9
    named = row(**estimate, weight_basis="estimate (name parameters x bits)")
    assert streamed_byte(named, CATALOGUE.models["qwen2.5-1.5b"]) is None


def test_other_unit_has_the_cpu_s_vector_rate():
    found, catalogue = one(compute="cpu", runtime="llama.cpp", params_b=2e9, weight_bits=8.0)
    mode = catalogue.boards[found.decode.board].power_modes["default"]
    assert mode.vector_op_s == CATALOGUE.boards["rk3588"].power_modes["default"].cpu_vector_op_s
    assert mode.vector_log_sd == 0.0
    unknown, catalogue = one(board_key="x", compute="gpu", runtime="llama.cpp", params_b=2e9, weight_bits=8.0)
    assert catalogue.boards[unknown.decode.board].power_modes["default"].vector_log_sd > 0.0


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


def test_figures_of_another_unit_are_told():
    (bandwidth,) = compare([row(dram_bandwidth_gb_s=34.1e12)], CATALOGUE).left_out  # MB/s in the column of GB/s
    assert "dram_bandwidth_gb_s is 34100, and Rockchip RK3588 has 34.1: a wrong unit?" in bandwidth[1]
    stated = {"params_streamed_b": 1.5e9, "weight_stream_bytes": 1.5e12}
    (size,) = compare([row(**stated)], CATALOGUE).left_out
    assert "7.77e+03 bits a weight" in size[1]
    (slow,) = compare([row(decode_tok_s=0.02)], CATALOGUE).rows
    assert "wrong unit" in slow.outside


def test_bits_that_a_name_and_a_column_do_not_share_are_refused():
    assert "weight_bits is 4, expected the same" in compare([row(weight_bits=4.0)], CATALOGUE).left_out[0][1]
    assert "names formats of different bits" in compare([row(quant="FP16 or INT4")], CATALOGUE).left_out[0][1]
    assert one(quant="FP16 or INT4", weight_bits=16.0)[0].decode.weights == "fp16"


def test_formats_of_one_name_and_several_bits_are_as_many():
    rows = [row(line=n, quant="custom", weight_bits=bits) for n, bits in ((2, 4.0), (3, 8.0), (4, 4.0))]
    compared = compare(rows, CATALOGUE)
    keys = [r.decode.weights for r in compared.rows]
    assert keys[0] == keys[2] != keys[1]
    four, eight = (compared.catalogue.weight_formats[key] for key in keys[:2])
    assert (four.bits_per_weight, four.needs_unpacking) == (4.5, True)
    assert (eight.bits_per_weight, eight.needs_unpacking) == (8.0, False)


def test_caches_are_named_by_their_bits_or_refused():
    assert one(kv_quant="INT8")[0].decode.kv == one(kv_quant="8-bit")[0].decode.kv == "int8"
    assert one(kv_quant="KV8")[0].decode.kv == one(kv_quant="kv cache: int8")[0].decode.kv == "int8"
    assert {one(kv_quant=name)[0].decode.kv for name in ("", "auto", "Default", "off")} == {"bf16"}
    assert "kv_quant" in compare([row(kv_quant="turbo")], CATALOGUE).left_out[0][1]


def test_a_prompt_of_unstated_length_has_no_time_to_first_token():
    (_, why), *_ = compare([row(ttft_ms=1.0)], CATALOGUE).without_ttft
    assert "prompt_tokens" in why
    assert one(ttft_ms=1.0, prefill_tok_s=100.0)[0].prompt.context_tokens == 100.0
    assert one(ttft_ms=1.0, context_tokens=192.0, gen_tokens=256.0)[0].prompt.context_tokens == 64.0


def test_a_runtime_that_nobody_knows_is_one_of_its_own():
    found, catalogue = one(runtime="NewRT 2.1")
    assert catalogue.runtimes[found.decode.runtime].priors == CATALOGUE.runtimes["other_npu"].priors
    assert catalogue.runtimes[found.decode.runtime].name == "NewRT 2.1"
    predict(found.decode, catalogue)


def test_units_and_modes_of_an_unknown_board_are_apart():
    text = {"board_key": "x", "runtime": "llama.cpp", "quant": "Q8_0", "model_key": "qwen2.5-1.5b"}
    rows = [
        row(line=n, compute=unit, power_mode=mode, dram_bandwidth_gb_s=gb_s, **text)
        for n, (unit, mode, gb_s) in enumerate((("cpu", "", 5e10), ("gpu", "15W", 5e10), ("gpu", "MAXN", 1e11)), 2)
    ]
    compared = compare(rows, CATALOGUE)
    boards = [compared.catalogue.resolve(r.decode).board for r in compared.rows]
    assert [board.unit for board in boards] == ["cpu", "gpu", "gpu"]
    assert [r.decode.power_mode for r in compared.rows] == ["default", "15W", "MAXN"]
    assert {r.group[0] for r in compared.rows} == {"x"}
