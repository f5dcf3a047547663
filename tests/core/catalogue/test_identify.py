"""Boards recognised by what they say of themselves; strings of real boards."""

from dataclasses import replace

import pytest

from core.catalogue.identify import Identified, identify
from core.catalogue.load import load_catalogue
from core.spec import Absent

BOARDS = load_catalogue().boards
GIB = 2**30
ORIN = "nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234"
SUPER = "nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"
NANO = "nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"
T14S = "lenovo,thinkpad-t14s", "qcom,x1e78100", "qcom,x1e80100"


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        ({"name": "Orange Pi 5 Plus", "compatible": ["xunlong,orangepi-5-plus", "rockchip,rk3588"]}, "rk3588"),
        ({"name": "Radxa ROCK 5A", "compatible": ["radxa,rock-5a", "rockchip,rk3588s"]}, "rk3588"),
        ({"name": "Raspberry Pi 5 Model B Rev 1.0"}, "raspberry_pi_5"),
        ({"name": "Raspberry Pi Compute Module 5", "compatible": ["x", "brcm,bcm2712"]}, "raspberry_pi_5"),
        ({"name": "NVIDIA Jetson AGX Orin Developer Kit", "memory_byte": 61.4 * GIB}, "jetson_agx_orin_64gb"),
        ({"name": "NVIDIA Jetson AGX Orin Developer Kit", "memory_byte": 29.8 * GIB}, "jetson_agx_orin_32gb"),
        ({"name": "NVIDIA Jetson AGX Orin Developer Kit", "compatible": [*ORIN]}, "jetson_agx_orin_64gb"),
        ({"name": "...Developer Kit Super", "compatible": [*SUPER]}, "jetson_orin_nano_8gb_super"),
        ({"name": "NVIDIA Jetson Orin Nano Developer Kit", "compatible": [*NANO]}, "jetson_orin_nano_8gb"),
        ({"name": "NVIDIA Jetson Orin NX", "memory_byte": 7.3 * GIB}, "jetson_orin_nx_8gb"),
        ({"name": "NVIDIA Jetson Orin NX", "memory_byte": 15.3 * GIB}, "jetson_orin_nx_16gb"),
        ({"name": "NVIDIA Jetson Orin Nano Developer Kit", "memory_byte": 7.4 * GIB}, "jetson_orin_nano_8gb"),
        ({"name": "NVIDIA Jetson Orin Nano", "memory_byte": 3.6 * GIB}, "jetson_orin_nano_4gb"),
        ({"compatible": [*T14S]}, "snapdragon_x_elite"),
        ({"cpu": "Snapdragon(R) X Elite - X1E78100 - Qualcomm(R) Oryon(TM) CPU"}, "snapdragon_x_elite"),
        ({"cpu": "Apple M1"}, "apple_m1"),
        ({"cpu": "Apple M1 Max"}, "apple_m1_max"),
        ({"compatible": ["apple,j314c", "apple,t6001", "apple,arm-platform"]}, "apple_m1_max"),
        ({"cpu": "Apple M4 Max", "n_threads": 16}, "apple_m4_max"),
        ({"name": "NVIDIA NVIDIA_DGX_Spark"}, "dgx_spark"),
        ({"name": "Rockchip RK3576 (simulated)", "key": "rk3576"}, "rk3576"),
    ],
)
def test_boards_are_recognised(facts, key):
    found = identify(facts, BOARDS)
    assert isinstance(found, Identified)
    assert found.key == key


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, "none of the catalogue fits"),
        ({"cpu": "AMD EPYC", "n_threads": 2}, "none of the catalogue fits"),
        ({"cpu": "Apple M5 Pro"}, "none of the catalogue fits"),  # no M5
        ({"cpu": "Apple M4 Max", "n_threads": 14}, "none of the catalogue fits"),  # fewer GPU cores and less bandwidth
        ({"compatible": ["dell,inspiron", "qcom,x1p64100", "qcom,x1e80100"]}, "none of the catalogue fits"),  # X Plus
        ({"name": "NVIDIA Jetson AGX Orin Developer Kit"}, "it may be NVIDIA Jetson AGX Orin 32GB or "),
        (
            {"name": "NVIDIA Jetson Orin NX", "memory_byte": 3.6 * GIB},
            "its memory is not that of NVIDIA Jetson Orin NX",
        ),
        ({"name": 3, "compatible": "rockchip,rk3588", "cpu": None, "memory_byte": "8"}, "none of the catalogue fits"),
    ],
)
def test_what_is_not_known_is_not_guessed(facts, why):
    found = identify(facts, BOARDS)
    assert isinstance(found, Absent)
    assert found.reason.startswith(why)


def test_how_it_was_found_is_told_and_the_device_tree_is_believed_first():
    facts = {"name": "Raspberry Pi 5 in disguise", "compatible": ["rockchip,rk3588"]}
    assert identify(facts, BOARDS) == Identified("rk3588", "by its device tree, rockchip,rk3588")
    assert identify({"cpu": "Apple M2"}, BOARDS).by == "by its processor, Apple M2"


def test_patterns_are_checked_against_whole_texts_in_any_case():
    board = replace(BOARDS["this"], key="x", identify=("board [ab]*", "!*beta"))
    assert identify({"name": "BOARD A 1"}, {"x": board}) == Identified("x", "by its name, BOARD A 1")
    for name in ("my board a", "board c", "board a beta"):
        assert isinstance(identify({"name": name}, {"x": board}), Absent)
