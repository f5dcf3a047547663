from types import SimpleNamespace

import numpy as np
import pytest

from core.predict import conformal
from core.tables import held_out
from core.tables.scores import Residuals

ROWS = [
    SimpleNamespace(group=(board, "gpu", "llama.cpp", ""), outside=outside, decode=SimpleNamespace(model=model))
    for board, model, outside in (
        *(("many", f"m{i}", "") for i in range(9)),
        ("one", "m0", ""),
        ("one", "m0", ""),  # the same model in another format
        ("one", "m1", "2 bits a weight"),
    )
]
COMPARED = SimpleNamespace(rows=ROWS)
SCORE = np.array([5.0] * 9 + [20.0, 30.0, 90.0])  # beyond those of a model that knows itself, so these count alone


def quantile(level: float, without_board: str = "") -> float:
    fit = Residuals(np.arange(len(ROWS)), -0.1 * SCORE, np.full(len(ROWS), 0.1), of="3")
    found = held_out.scores({("decode_s", "k3"): [fit]}, COMPARED, without_board).scores["decode_s"]["3"]
    return float(np.interp(level, conformal.LEVELS, found))


def test_each_board_counts_once_and_in_it_each_model():
    assert quantile(0.40) == pytest.approx(5.0)  # nine models of one board are half of all
    assert 20.0 <= quantile(0.66) < quantile(0.86) <= 30.0  # two rows of the only model of the other the other half


def test_a_board_left_out_and_rows_outside_say_nothing():
    assert quantile(0.98, without_board="one") == pytest.approx(5.0)
    assert quantile(0.02, without_board="many") == pytest.approx(20.0)
    assert quantile(0.98, without_board="many") == pytest.approx(30.0)
