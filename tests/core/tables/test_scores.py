from dataclasses import replace

import numpy as np
import pytest

from core.tables.scores import Residuals, Score, Summary

JUDGED = Residuals(np.arange(4), np.log([1.1, 0.9, 1.0, 2.0]), np.array([0.1, 0.1, 0.1, 0.1]))


def test_errors_are_relative_and_absolute():
    score = Score.of(JUDGED, ["a", "a", "b", "c"])
    assert score.n_rows == 4
    assert score.n_models == 3
    assert score.median_error_frac == pytest.approx(0.1)
    assert score.mean_error_frac == pytest.approx(0.3)
    assert score.median_signed_frac == pytest.approx(0.05)
    assert score.coverage_frac == pytest.approx(2 / 3)  # the two rows of one model count as one
    assert score.interval_ratio == pytest.approx(np.exp(2 * 1.6448536 * 0.1))


def test_predictions_without_intervals_have_no_coverage():
    bare = Residuals(JUDGED.row, JUDGED.log_error, np.full(4, np.nan))
    score = Score.of(bare, ["a"] * 4)
    assert score.coverage_frac is None
    assert Summary.of([score], ["x"]).interval_ratio is None
    assert Score.of(JUDGED.only([]), ["a"] * 4) is None
    assert Summary.of([], []) is None


def test_groups_count_once_and_coverage_by_models():
    small = Score.of(JUDGED.only([3]), ["a"] * 4)
    large = Score.of(JUDGED.only([0, 1, 2]), ["a"] * 4)
    summary = Summary.of([small, large], ["x", "x"])
    assert (summary.n_groups, summary.n_boards) == (2, 1)
    assert summary.median_q05_frac is summary.median_q95_frac is None  # one board says nothing of others
    assert summary.n_rows == 4
    assert summary.median_of_medians_frac == pytest.approx((1.0 + 0.1) / 2)
    assert summary.coverage_frac == 0.5
    assert summary.coverage_of_groups_frac == 0.5


def test_resampling_boards_tells_how_sure_a_median_is():
    rng = np.random.default_rng(1)
    medians = rng.exponential(0.1, 31)
    scores = [replace(Score.of(JUDGED, ["a"] * 4), median_error_frac=median) for median in medians]
    boards = [str(i // 2) for i in range(31)]
    summary = Summary.of(scores, boards)
    drawn = [
        np.median(np.concatenate([medians[2 * b : 2 * b + 2] for b in rng.integers(0, 16, 16)])) for _ in range(2000)
    ]
    assert (summary.median_q05_frac, summary.median_q95_frac) == pytest.approx(
        np.quantile(drawn, (0.05, 0.95)), rel=0.1
    )
    assert summary.median_of_medians_frac == pytest.approx(np.median(medians))


def test_parts_are_joined():
    both = Residuals.joined([JUDGED.only([0]), JUDGED.only([2, 3])])
    np.testing.assert_array_equal(both.row, [0, 2, 3])
    assert Residuals.joined([]).row.size == 0
