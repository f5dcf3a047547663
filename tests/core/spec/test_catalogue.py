"""Names of an operating point looked up, and refused with the ones that exist."""

from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()


def test_the_first_power_mode_stands_for_none():
    at = CATALOGUE.resolve(OperatingPoint(board="jetson_orin_nano_8gb_super", runtime="llamacpp_gpu", weights="q4_0"))
    assert at.mode == next(iter(CATALOGUE.boards["jetson_orin_nano_8gb_super"].power_modes.values()))


def test_a_runtime_on_the_cores_of_a_gpu_board_meets_the_rates_of_the_cores():
    point = OperatingPoint(board="jetson_orin_nano_8gb_super", runtime="llamacpp_cpu", weights="q4_0")
    gpu, cpu = (CATALOGUE.resolve(replace(point, runtime=r)) for r in ("llamacpp_gpu", "llamacpp_cpu"))
    assert (gpu.board.unit, cpu.board.unit) == ("gpu", "cpu")
    assert cpu.mode.vector_op_s == cpu.mode.compute_op_s == gpu.mode.cpu_vector_op_s
    assert cpu.mode.clock_hz is None


def test_what_a_bench_found_holds_for_its_board_only():
    runtime = CATALOGUE.runtimes["builtin"]
    benched = replace(runtime, name="benched")
    point = OperatingPoint()
    known = replace(CATALOGUE, bench_runtimes={(point.board, "builtin"): benched})
    assert known.resolve(point).runtime is benched
    assert known.resolve(replace(point, board="raspberry_pi_5")).runtime is runtime


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"board": "rk3589"}, "board 'rk3589' is unknown; .*rk3588"),
        ({"power_mode": "turbo"}, "power mode of .* 'turbo' is unknown"),
        ({"runtime": "lama.cpp"}, "runtime 'lama.cpp' is unknown"),
        ({"model": "smollm2-136m"}, "model 'smollm2-136m' is unknown; .*smollm2-135m"),
        ({"weights": "q9"}, "weight format 'q9' is unknown"),
        ({"kv": "fp17"}, "KV format 'fp17' is unknown; .*fp16"),
        ({"head": "int2"}, "weight format of the head 'int2' is unknown"),
    ],
)
def test_unknown_names_are_refused_with_those_that_exist(change, message):
    with pytest.raises(ValueError, match=message):
        CATALOGUE.resolve(replace(OperatingPoint(), **change))
