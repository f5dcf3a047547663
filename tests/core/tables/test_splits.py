"""Splits of the times of one simulated board: what each method sees, and that seeing more errs less."""

import numpy as np
import pytest

from core.calibrate.observations import DECODE, TTFT
from core.predict import conformal
from core.predict.scenario import predict
from core.tables.as_points import compare
from core.tables.splits import DATA_SHEET_SHARE, SplitResiduals, TimeSplits
from tests.core.tables.published_row import CATALOGUE, row

MODELS = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "llama-3.2-1b", "llama-3.2-3b", "phi-3.5-mini")
FACTOR = 1.3  # the board is that much slower than the runtime's prior has it


def rows(models=MODELS, factor=FACTOR, **more):
    """Rows of RK3588's NPU whose decode times are those of the prior times a factor."""
    made = []
    for line, model in enumerate((m for m in models for _ in range(2)), 2):
        quant = ("w8a8", "w4a16")[line % 2]
        options = {"model_key": model, "quant": quant, "prompt_tokens": 64.0, "gen_tokens": 64.0, **more}
        (plain,) = compare([row(line, **options)], CATALOGUE).rows
        time_s = factor * predict(plain.decode, CATALOGUE).decode_s.median
        made.append(row(line, **{**options, "decode_tok_s": 1.0 / time_s}))
    compared = compare(made, CATALOGUE)
    assert not compared.left_out
    return compared


def times(compared):
    return TimeSplits(compared.rows, range(len(compared.rows)), compared.catalogue)


@pytest.fixture(scope="module")
def judged():
    board, found = times(rows()), SplitResiduals()
    board.evaluate(found)
    return board, found


def parts(found, method, quantity="decode_s"):
    return [part for part in found.parts[quantity, method] if part.row.size]


def error(found, method):
    return np.median(np.abs(np.concatenate([part.log_error for part in parts(found, method)])))


def test_the_data_sheet_is_bytes_over_its_share_of_the_bandwidth(judged):
    board, found = judged
    (part,) = parts(found, "data_sheet")
    costs = board.observations.decode
    expected = (
        np.log(costs.weight_byte / (DATA_SHEET_SHARE * costs.bandwidth_byte_s)) - board.observations.observed.value
    )
    np.testing.assert_allclose(part.log_error, expected)
    assert np.isnan(part.log_sd).all()


def test_methods_that_see_the_board_know_that_it_is_slower(judged):
    _, found = judged
    assert error(found, "shipped") > 0.1
    for method in ("leave_one_model_out", "k3", "k5", "same_model"):
        assert error(found, method) < 0.5 * error(found, "shipped"), method


def test_chosen_points_are_of_different_models_and_predict_others_only(judged):
    board, found = judged
    for n in (1, 3, 5):
        chosen = board._chosen(n, DECODE)
        assert len({board.model[i] for i in chosen}) == len(chosen) == n
        (part,) = parts(found, f"k{n}")
        assert not set(part.row) & {board.owner[i] for i in chosen}
        assert part.of == conformal.bucket(n)
    assert board._chosen(3, TTFT) == []


def test_each_model_is_predicted_once_from_the_others(judged):
    board, found = judged
    predicted = [set(part.row) for part in parts(found, "leave_one_model_out")]
    assert len(predicted) == len(MODELS)
    assert set().union(*predicted) == set(range(len(board.rows)))
    assert sum(map(len, predicted)) == len(board.rows)


def test_a_row_does_not_move_its_own_prediction():
    plain, changed = rows(), rows()
    times_s = plain.rows[0].row.number["decode_tok_s"]
    changed.rows[0].row.number["decode_tok_s"] = times_s / 10
    before, after = (times(c).decode_without_model([0]) for c in (plain, changed))
    np.testing.assert_allclose(before[0], after[0])
    np.testing.assert_allclose(before[1], after[1])


def test_one_model_alone_is_predicted_by_nothing_of_its_own():
    board, found = times(rows(MODELS[:1])), SplitResiduals()
    board.evaluate(found)
    assert not [part for part in found.parts.get(("decode_s", "leave_one_model_out"), []) if part.row.size]
    assert not [part for part in found.parts.get(("decode_s", "k1"), []) if part.row.size]
    assert error(found, "same_model") < error(found, "shipped")
