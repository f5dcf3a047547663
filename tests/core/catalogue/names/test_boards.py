import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.names.boards import board_called, boards_called, spelled

KNOWN = load_catalogue().boards


def test_a_board_by_its_key_or_name_however_spelled():
    for key, board in KNOWN.items():
        assert key in boards_called(key.upper().replace("_", " "), KNOWN)
        assert boards_called(board.name, KNOWN) == [key]
    assert spelled("RK-3588 ") == "rk3588"


def test_words_of_a_name_mean_every_board_that_has_them():
    assert boards_called("m1 max", KNOWN) == ["apple_m1_max"]
    assert boards_called("Orin Nano", KNOWN) == [
        "jetson_orin_nano_4gb",
        "jetson_orin_nano_8gb",
        "jetson_orin_nano_8gb_super",
    ]
    assert boards_called("Jetson AGX Orin Developer Kit", KNOWN) == ["jetson_agx_orin_32gb", "jetson_agx_orin_64gb"]
    assert boards_called("apple m1", KNOWN) == ["apple_m1"]  # a whole name, though others have its words
    assert boards_called("abacus", KNOWN) == boards_called("", KNOWN) == boards_called("rk", KNOWN) == []


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("rk3588s", "rk3588"), ("Rockchip RK3588S", "rk3588"), ("rpi4", "raspberry_pi_4"), ("RPi 5", "raspberry_pi_5"),
        ("Raspberry Pi 4 Model B 8GB", "raspberry_pi_4"), ("Raspberry Pi 4B", "raspberry_pi_4"),
        ("Raspberry Pi 500+", "raspberry_pi_5"), ("Raspberry Pi CM4", "raspberry_pi_4"), ("CM5", "raspberry_pi_5"),
        ("NVIDIA Jetson Orin NX 16 GB Developer Kit", "jetson_orin_nx_16gb"), ("orin-nx-8gb", "jetson_orin_nx_8gb"),
        ("Jetson Orin Nano Super Developer Kit", "jetson_orin_nano_8gb_super"), ("Orin NX", ""), ("Orin Nano", ""),
        ("Jetson AGX Orin", ""), ("AGX Thor", "jetson_agx_thor"), ("M4 Pro (20-core GPU)", "apple_m4_pro"),
        ("M3 Max", "apple_m3_max"), ("M3 Max 40-core", "apple_m3_max"), ("Apple M3 Max (30-core GPU)", ""),
        ("GB10", "dgx_spark"), ("Core Ultra 7 258V", "core_ultra_7_258v"),
        ("Pi 5 - 16GB (AMD Pro W7700)", ""), ("Raspberry Pi 5 Hailo-8L", ""), ("Snapdragon 8 Elite Gen 5", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_one_board_by_a_whole_name(said, key):
    assert board_called(said, KNOWN) == key
