import pytest

from core.catalogue.load import load_catalogue
from core.tables.boards import UNLISTED_MODE_LOG_SD, boards_of, mode_key, mode_of_row
from core.tables.rows import PublishedRow

KNOWN = load_catalogue().boards


def row(key, name="", mode="", compute="gpu", bandwidth=None):
    number = {} if bandwidth is None else {"dram_bandwidth_gb_s": bandwidth}
    return PublishedRow(2, {"board_key": key, "board": name, "power_mode": mode, "compute": compute}, number)


def names(*rows):
    return [board.name for board in boards_of(rows, KNOWN)]


def test_known_boards_are_known_by_key_and_name_however_spelled():
    found = names(row("RK3588"), row("raspberry-pi-5"), row(KNOWN["jetson_orin_nano_8gb"].name), row("Raspberry Pi 5"))
    assert found == ["rk3588", "raspberry_pi_5", "jetson_orin_nano_8gb", "raspberry_pi_5"]
    assert names(row("rk3588", "Rock 5B"), row("rk3588", "Orange Pi 5", bandwidth=34e9)) == ["rk3588", "rk3588"]


def test_a_board_that_only_its_name_tells_is_known_unless_it_has_another_bandwidth():
    assert names(row("my-board", "Raspberry Pi 5 8GB", compute="cpu")) == ["raspberry_pi_5"]
    peak = KNOWN["apple_m4_pro"].power_modes["default"].bandwidth_byte_s
    assert names(row("mac", "M4 Pro (20-core GPU)", bandwidth=peak)) == ["apple_m4_pro"]
    assert names(row("mac", "M4 Pro (20-core GPU)", bandwidth=0.8 * peak), row("mac", "M4 Pro (20-core GPU)")) == [
        "mac",
        "mac",
    ]


def test_rows_of_one_board_stay_together_where_only_some_state_its_bandwidth():
    assert names(row("x", "A", bandwidth=1e11), row("x", "A"), row("x", "B")) == ["x", "x", "B"]


def test_a_key_of_many_boards_is_told_apart_by_names():
    assert names(row("dgpu", "A"), row("dgpu", "B")) == ["A", "B"]
    assert names(row("x", "A", bandwidth=1e11), row("x", "A rev. 2", bandwidth=1e11)) == ["x", "x"]
    assert names(row("x", "A", bandwidth=1e11), row("x", "B", bandwidth=2e11)) == ["A", "B"]
    one_board = (row("x", "A", "15W", bandwidth=68e9), row("x", "A", "MAXN", bandwidth=102e9))
    assert names(*one_board) == ["x", "x"]


def test_a_bandwidth_stated_once_is_that_of_the_board_and_mode():
    rows = (row("x"), row("x", bandwidth=5e10), row("x", mode="low"), row("rk3588"))
    assert [board.bandwidth_byte_s for board in boards_of(rows, KNOWN)] == [5e10, 5e10, None, None]


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("", "MAXN"), ("15W", "15W"), ("15 W", "15W"), ("25 watts", "25W"), ("Super (25W/MAXN)", "MAXN"),
        ("max clocks", "MAXN"), ("10W", "10W"), ("nvpmodel 2", "nvpmodel 2"),
        ("MAXN_SUPER", "MAXN"), ("maximum", "MAXN"), ("MAXQ", "MAXQ"), ("Max-Q", "Max-Q"),
        ("maxp_core_arm", "maxp_core_arm"),
        ("15W (25W peak)", "15W"), ("15W, 25W peak", "15W"), ("peak 25W", "peak 25W"), ("15W (max clocks)", "15W"),
        ("MODE_15W", "15W"), ("15.0 W", "15W"), ("1.15W", "1.15W"), ("10-15W", "10-15W"), ("15 to 25 W", "15 to 25 W"),
        ("10W max", "10W max"), ("max. 10 W", "max. 10 W"), ("10W (25W peak)", "10W (25W peak)"),
        ("max clocks (60 W)", "MAXN"), ("MAXN (15W idle)", "MAXN"), ("quiet", "quiet"), ("-", "MAXN"),
        ("10W, max clocks", "10W, max clocks"),
    ],
)  # fmt: skip
def test_modes_by_their_names(said, key):
    assert mode_key(said, KNOWN["jetson_orin_nano_8gb_super"].power_modes) == key


def test_modes_of_several_words_are_known_however_they_are_spelled():
    assert [mode_key(said, KNOWN["this"].power_modes) for said in ("2 Threads", "2-threads")] == ["2 threads"] * 2


def test_a_mode_is_not_taken_for_another_whose_name_it_begins_with():
    modes = dict.fromkeys(("MAXN", "MAXN_SUPER", "low_power"), next(iter(KNOWN["this"].power_modes.values())))
    said = ("MAXN_SUPER", "MAXN_SUPER (40W)", "maxn", "low_power, 7W", "最大")
    assert [mode_key(name, modes) for name in said] == ["MAXN_SUPER", "MAXN_SUPER", "MAXN", "low_power", "最大"]


def test_modes_of_a_board_that_nobody_knows_are_never_one_another():
    assert [mode_key(said, {}) for said in ("", "MAXN", "15W")] == ["default", "MAXN", "15W"]


def test_what_is_not_known_of_a_mode_widens_that_mode_only():
    board = KNOWN["jetson_orin_nano_8gb_super"]
    listed, new = (mode_of_row(key, "gpu", board, None) for key in ("15W", "10W"))
    assert listed == board.power_modes["15W"]
    assert new.bandwidth_byte_s == board.power_modes["MAXN"].bandwidth_byte_s
    assert new.bandwidth_log_sd == UNLISTED_MODE_LOG_SD
    assert (new.compute_op_s, new.clock_hz) == (None, None)
    assert new.vector_log_sd > 0.0
    assert mode_of_row("night", "npu", KNOWN["rk3588"], None).bandwidth_log_sd == 0.0  # it has one bandwidth
    stated = mode_of_row("10W", "gpu", board, 5e10)
    assert (stated.bandwidth_byte_s, stated.bandwidth_log_sd) == (5e10, 0.0)
    unknown = mode_of_row("x", "npu", None, None)
    assert unknown.bandwidth_log_sd >= 1.0
    assert unknown.vector_log_sd == 0.0  # NPUs unpack in their matrix units
