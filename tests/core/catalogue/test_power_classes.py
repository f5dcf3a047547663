import math

import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.power_classes import power_class
from core.units import Z90

CATALOGUE = load_catalogue()
USUAL_READ_SHARE = 0.6


@pytest.mark.parametrize(
    ("board", "least_w", "most_w"),
    [
        ("rk3588", 5.0, 12.0), ("rk3576", 2.0, 8.0), ("snapdragon_8_gen3", 4.0, 10.0), ("apple_m1", 10.0, 25.0),
        ("jetson_orin_nx_16gb", 15.0, 35.0), ("a100_pcie_80gb", 150.0, 300.0), ("ascend_310b", 10.0, 25.0),
        ("raspberry_pi_4", 5.0, 13.0), ("core_ultra_7_258v", 15.0, 35.0),
    ],
)  # fmt: skip
def test_a_board_draws_what_boards_of_its_class_do(board, least_w, most_w):
    made = CATALOGUE.boards[board]
    usual_w = made.system_energy_j_byte * USUAL_READ_SHARE * next(iter(made.power_modes.values())).bandwidth_byte_s
    assert least_w <= usual_w <= most_w
    assert made.energy_assumed


def test_every_board_has_a_power_and_a_wide_prior_is_marked():
    for board in CATALOGUE.boards.values():
        assert board.system_energy_j_byte, board.key
        if board.energy_assumed:
            assert board.system_energy_log_sd >= 0.4
            assert board.sources["system_energy_j_byte"].startswith("[prior] ")
            assert "a prior of its class" in board.power_rail


def test_slow_boards_have_a_class_of_their_own():
    slow, usual = power_class("cpu", "HiFive Premier P550"), power_class("cpu", "some board")
    assert slow.energy_j_byte > 10.0 * usual.energy_j_byte
    assert math.log(66.7e-9 / slow.energy_j_byte) < Z90 * slow.log_sd


def test_a_name_of_no_class_has_that_of_its_unit():
    assert {power_class(unit, "zzz").words for unit in ("cpu", "gpu", "npu")} == {
        "computers, decoding on the CPU", "computers, decoding on the GPU", "chips with an NPU",
    }  # fmt: skip
