from importlib.resources import files

import numpy as np
import pytest

from core.catalogue.power_classes import power_class
from core.tables.power_left_out import left_out
from core.tables.rows import PublishedRow, read_table

ROWS = read_table(str(files("resources").joinpath("measurements", "llm_decode.csv"))).rows


def row(board, energy_j, rail="wall"):
    text = {"board_key": board, "board": board, "compute": "cpu", "power_rail": rail}
    return PublishedRow(2, text, {"energy_j_per_tok": energy_j, "weight_stream_bytes": 1e9, "decode_tok_s": 1.0})


def test_each_board_is_predicted_by_the_others():
    (check,) = left_out([row("a", 1.0), row("a", 1.0), row("b", 2.0), row("c", 4.0), row("d", 9.0, "GPU rail")])
    np.testing.assert_allclose(check.energy_j_byte, [1e-9, 2e-9, 4e-9])
    np.testing.assert_allclose(check.predicted_j_byte, [np.sqrt(8) * 1e-9, 2e-9, np.sqrt(2) * 1e-9])
    assert check.rms_log_error == pytest.approx(np.log(np.sqrt(8)) * np.sqrt(2 / 3))
    assert check.coverage_frac == pytest.approx(1 / 3)


def test_a_single_board_is_predicted_by_the_prior():
    (check,) = left_out([row("a", 1.0)])
    assert check.predicted_j_byte == [power_class("cpu", "a").energy_j_byte]


def test_the_priors_are_the_means_of_their_boards_and_the_intervals_hold():
    checks = {check.words: check for check in left_out(ROWS)}
    assert len(checks) >= 6
    for words, check in checks.items():
        if words != "Jetson modules":  # from rails
            of = power_class(check.boards[0].rpartition(", ")[2].partition("/")[0], check.boards[0].rpartition(", ")[0])
            assert of.energy_j_byte == pytest.approx(np.exp(np.log(check.energy_j_byte).mean()), rel=0.02)
        assert check.coverage_frac >= 0.9
    assert sum(len(check.boards) for check in checks.values()) >= 40
