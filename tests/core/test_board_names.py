from core.board_names import boards_called, spelled
from core.load import load_catalogue

KNOWN = load_catalogue().boards


def test_a_board_by_its_key_or_name_however_spelled():
    for key, board in KNOWN.items():
        assert key in boards_called(key.upper().replace("_", " "), KNOWN)
        assert boards_called(board.name, KNOWN) == [key]
    assert spelled("RK-3588 ") == "rk3588"


def test_words_of_a_name_mean_every_board_that_has_them():
    assert boards_called("m1 max", KNOWN) == ["apple_m1_max"]
    assert boards_called("Orin Nano", KNOWN) == ["jetson_orin_nano_8gb", "jetson_orin_nano_8gb_super"]
    assert boards_called("apple m1", KNOWN) == ["apple_m1"]  # a whole name, though others have its words
    assert boards_called("abacus", KNOWN) == boards_called("", KNOWN) == boards_called("rk", KNOWN) == []
