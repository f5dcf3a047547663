"""What a model can have of a board's memory: what the board says, else what its class keeps."""

from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.memory_reserve import reserve_of, usable_memory
from core.predict.scenario import predict
from core.predict.sweep import largest_context
from core.predict.validity import memory_fit
from core.spec import Absent, Board, OperatingPoint

CATALOGUE = load_catalogue()
GIB = 1 << 30


def board(name, unit="gpu", memory_byte=8 * GIB, **facts):
    return Board("x", name, unit, {}, memory_byte=memory_byte, **facts)


@pytest.mark.parametrize(
    ("made", "wanted_gib"),
    [
        (board("Apple M4", memory_byte=16 * GIB), 0.6667 * 16),
        (board("Apple M3 Pro 36GB", memory_byte=36 * GIB), 0.6667 * 36),
        (board("Apple M5 Pro 48GB", memory_byte=48 * GIB), 36.0),
        (board("Apple M2 Max 64GB", memory_byte=64 * GIB), 48.0),
        (board("Apple M2 Max 64GB", "cpu", memory_byte=64 * GIB), 64 - 4e9 / GIB),
        (board("NVIDIA GeForce RTX 4090", memory_byte=24 * GIB), 24 - 0.5e9 / GIB),
        (board("NVIDIA Jetson Orin Nano Super 8GB"), 0.93 * 8 - 0.8e9 / GIB),
        (board("Snapdragon X Elite", "npu", memory_byte=32 * GIB), 16.0),
        (board("Snapdragon X Elite", "cpu", memory_byte=32 * GIB), 0.98 * 32 - 0.5e9 / GIB),
        (board("DGX", memory_byte=128 * GIB), 0.95 * 128 - 1e9 / GIB),
        (board("Pi", "cpu"), 0.98 * 8 - 0.5e9 / GIB),
        (board("Pi Zero 2", "cpu", memory_byte=0.5 * GIB), (0.98 - 0.25) * 0.5),
    ],
)
def test_each_class_keeps_its_share(made, wanted_gib):
    found = usable_memory(made)
    assert found.usable_byte == pytest.approx(wanted_gib * GIB)
    assert found.memory_byte == made.memory_byte
    assert found.source.startswith("[prior]")


def test_a_data_sheet_names_the_class_of_an_attached_board():
    assert reserve_of(board("This machine", data_sheet="apple_m2_max", memory_byte=64 * GIB)).usable_frac == 0.75


def test_what_the_board_says_goes_before_the_prior():
    told = usable_memory(board("NVIDIA Jetson Orin Nano Super 8GB", available_byte=6.1e9))
    assert (told.usable_byte, told.memory_byte, told.source) == (6.1e9, 8 * GIB, "")
    assert told.words == "free as the board says"


def test_the_largest_version_stands_in_where_versions_differ():
    found = usable_memory(board("Pi", "cpu", memory_byte=None, most_memory_byte=16 * GIB))
    assert found.of_largest_version
    assert found.usable_byte == pytest.approx(0.98 * 16 * GIB - 0.5e9)
    assert usable_memory(board("Pi", memory_byte=None)) is None


def test_a_data_sheet_states_a_memory_if_its_maker_does_and_leaves_most_of_it():
    for key, one in CATALOGUE.boards.items():
        if key == "this":
            continue
        if key in ("horizon_j5", "hi3559a"):  # no public source states it
            assert usable_memory(one) is None
            continue
        assert (one.memory_byte is None) != (one.most_memory_byte is None), key
        found = usable_memory(one)
        assert 0.45 * found.memory_byte < found.usable_byte < found.memory_byte, key


# ---- the wanted results of users' reports


def case(board_key, model, weights, runtime="llamacpp_gpu", **facts):
    boards = dict(CATALOGUE.boards)
    if facts:
        made = replace(boards["apple_m2_max"], key=board_key, most_memory_byte=None, listed=False, **facts)
        boards[board_key] = made
    catalogue = replace(CATALOGUE, boards=boards)
    keys = {"board": board_key, "runtime": runtime, "model": model, "weights": weights, "kv": "fp16"}
    point = OperatingPoint(**keys, context_tokens=512.0, alpha=0.0)
    had = usable_memory(catalogue.resolve(point).board)
    return point, catalogue, largest_context(point, catalogue, memory_byte=had.usable_byte)


def test_gpt_oss_120b_does_not_fit_in_64_gb_of_a_mac_or_a_jetson():
    mac = {"name": "Apple M2 Max 64GB", "memory_byte": 68.7e9}
    for point, catalogue, longest in (
        case("m2max64", "gpt-oss-120b", "mxfp4", **mac),
        case("jetson_agx_orin_64gb", "gpt-oss-120b", "mxfp4"),
    ):
        assert isinstance(longest, Absent)
        assert "does not fit in the memory of" in predict(point, catalogue).outside[0]
        assert predict(point, catalogue).outside[0].endswith(", a prior)")


def test_the_largest_context_of_an_orin_nano_leaves_its_system_some_memory():
    point, catalogue, longest = case("jetson_orin_nano_8gb_super", "llama-3.1-8b", "q6_k")
    at = catalogue.resolve(point)
    assert 1_000 < longest < 8_000
    assert memory_fit(replace(point, context_tokens=float(longest)), at).needed_byte < 6.8 * GIB


def test_a_mac_of_48_gb_lets_its_gpu_have_36():
    point, catalogue, _ = case("m5pro48", "llama-3-70b", "q4_k_m", name="Apple M5 Pro 48GB", memory_byte=48 * GIB)
    fit = memory_fit(point, catalogue.resolve(point))
    assert fit.available_byte == 36 * GIB
    assert not fit.fits
    assert "macOS lets the GPU have three quarters of it" in predict(point, catalogue).outside[0]


def test_148_gb_do_not_fit_a_dgx_spark():
    point, catalogue, longest = case("dgx_spark", "llama-3-70b", "fp16")
    assert isinstance(longest, Absent)
    assert not memory_fit(point, catalogue.resolve(point)).fits
