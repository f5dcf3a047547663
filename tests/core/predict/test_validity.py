"""What lies outside: each rule says its sentence where it holds, and nothing where it does not."""

from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.predict.validity import memory_fit, outside
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()


def said(board: str, runtime: str, weights: str, **fields: float) -> tuple[str, ...]:
    point = replace(OperatingPoint(model="qwen2.5-1.5b", weights=weights, kv="fp16"), board=board, runtime=runtime)
    point = replace(point, **fields)
    return outside(point, CATALOGUE.resolve(point))


@pytest.mark.parametrize(
    ("board", "runtime", "weights", "sentence"),
    [
        ("apple_m1", "rkllm_npu", "w8a8", "rkllm on a Rockchip NPU does not run on Apple M1"),
        ("rk3588", "mlx_gpu", "w4a16", "MLX on a GPU does not run on Rockchip RK3588"),
        ("raspberry_pi_5", "llamacpp_gpu", "q4_k_m", "the data sheet of Raspberry Pi 5 has no GPU"),
        ("apple_m1", "other_npu", "w8a8", "the data sheet of Apple M1 has no NPU"),
        ("rk3588", "rkllm_npu", "q4_k_m", "rkllm on a Rockchip NPU does not support GGUF Q4_K_M weights"),
        ("raspberry_pi_5", "llamacpp_cpu", "w4a16", "llama.cpp or Ollama on a CPU does not support"),
    ],
)
def test_what_does_not_run_is_said(board, runtime, weights, sentence):
    (only,) = said(board, runtime, weights)
    assert only.startswith(sentence)


@pytest.mark.parametrize(
    ("board", "runtime", "weights"),
    [
        ("rk3588", "rkllm_npu", "w8a8"),
        ("rk3588", "llamacpp_gpu", "q4_0"),  # of its Mali
        ("rk3588", "llamacpp_cpu", "q4_k_m"),
        ("jetson_orin_nx_16gb", "tensorrt_gpu", "w4a16"),
        ("snapdragon_8_elite", "qnn_npu", "w4a16"),
        ("apple_m1", "mlx_gpu", "q4f16"),
        ("this", "llamacpp_gpu", "q4_0"),  # nothing is known of its GPU
    ],
)
def test_of_what_runs_nothing_is_said(board, runtime, weights):
    assert said(board, runtime, weights) == ()


def test_an_attached_board_is_judged_by_its_data_sheet():
    point = OperatingPoint(runtime="rkllm_npu", weights="w8a8")
    at = CATALOGUE.resolve(point)
    assert outside(point, at) == ()
    told = replace(at, board=replace(at.board, data_sheet="raspberry_pi_5"))
    assert outside(point, told) == ("rkllm on a Rockchip NPU does not run on This machine",)


def test_of_a_machine_that_nobody_listed_it_is_not_known_what_it_runs():
    point = OperatingPoint(board="jetson_orin_nx_16gb", runtime="rkllm_npu", weights="w8a8")
    at = CATALOGUE.resolve(point)
    assert len(outside(point, at)) == 1
    assert outside(point, replace(at, board=replace(at.board, key="mine", listed=False))) == ()


def test_every_published_fit_is_inside():
    for board, runtime, _ in CATALOGUE.board_posteriors:
        assert not any("run on" in text or "data sheet" in text for text in said(board, runtime, "fp16")), (
            board,
            runtime,
        )


def test_an_upper_bound_of_the_cache_is_named_with_the_prediction_and_its_memory():
    point = OperatingPoint(model="starcoder2-7b", board="raspberry_pi_5", runtime="llamacpp_cpu", weights="q4_k_m")
    at = CATALOGUE.resolve(point)
    bound = "the KV cache of StarCoder2-7B is an upper bound: its configuration has windows of 4096 tokens"
    assert any(text.startswith(bound) for text in outside(point, at))
    large = replace(point, board="jetson_orin_nano_8gb", weights="fp16", context_tokens=16384)
    over = CATALOGUE.resolve(large)
    assert ": it takes up to " in outside(large, over)[0]
    assert memory_fit(large, over).upper_bound
    exact = replace(over, model=CATALOGUE.models["llama-3-8b"])
    assert not any("upper bound" in text or "up to" in text for text in outside(large, exact))


@pytest.mark.parametrize(
    ("runtime", "compensation", "there"),
    [("builtin", "both", False), ("llamacpp_cpu", "both", True), ("llamacpp_cpu", "none", False)],
)
def test_only_trilemma_s_own_decoder_compensates_weights(runtime, compensation, there):
    sentences = said("this", runtime, "int4", compensation=compensation)
    assert any("does not compensate weights" in text for text in sentences) is there
