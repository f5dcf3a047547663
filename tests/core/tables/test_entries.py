"""The catalogue's entries that rows mean, and new ones for what they describe."""

from dataclasses import replace

import pytest

from core.predict.parameters import same_model
from core.predict.scenario import predict
from core.tables.as_points import compare
from tests.core.tables.published_row import CATALOGUE, one, row


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
    assert found.bandwidth_known
    assert not found.compute_known
    unknown, catalogue = one(board_key="rk9999", params_b=2e9, weight_bits=8.0)
    assert not unknown.bandwidth_known
    assert catalogue.boards[unknown.decode.board].power_modes[unknown.decode.power_mode].bandwidth_log_sd >= 1.0


def test_other_unit_of_a_known_board_is_a_board_of_its_own():
    found, catalogue = one(compute="cpu", runtime="llama.cpp", params_b=2e9, weight_bits=8.0)
    assert found.decode.board == "rk3588.cpu"
    assert catalogue.boards["rk3588.cpu"].unit == "cpu"
    assert CATALOGUE.boards["rk3588"].unit == "npu"
    assert catalogue.boards["rk3588"] == CATALOGUE.boards["rk3588"]


def test_two_files_of_one_model_and_format_stay_apart_but_are_one_model():
    rows = [row(line=i, params_streamed_b=1e9, weight_stream_bytes=byte) for i, byte in ((2, 1.0e9), (3, 1.2e9))]
    keys = [r.decode.model for r in compare(rows, CATALOGUE).rows]
    assert keys[0] != keys[1]
    assert same_model(keys[0]) == same_model(keys[1])


def test_other_unit_has_the_cpu_s_vector_rate():
    found, catalogue = one(compute="cpu", runtime="llama.cpp", params_b=2e9, weight_bits=8.0)
    mode = catalogue.boards[found.decode.board].power_modes["default"]
    assert mode.vector_op_s == CATALOGUE.boards["rk3588"].power_modes["default"].cpu_vector_op_s
    assert mode.vector_log_sd == 0.0
    unknown, catalogue = one(board_key="x", compute="gpu", runtime="llama.cpp", params_b=2e9, weight_bits=8.0)
    assert catalogue.boards[unknown.decode.board].power_modes["default"].vector_log_sd > 0.0


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


def test_a_runtime_that_nobody_knows_is_one_of_its_own():
    found, catalogue = one(runtime="NewRT 2.1")
    assert catalogue.runtimes[found.decode.runtime].priors == CATALOGUE.runtimes["other_npu"].priors
    assert catalogue.runtimes[found.decode.runtime].name == "NewRT 2.1"
    known = replace(found.decode, runtime="other_npu")
    assert predict(found.decode, catalogue).decode_s == predict(known, catalogue).decode_s


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
