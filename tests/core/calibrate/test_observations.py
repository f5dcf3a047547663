"""Measured points from the records of runs; repeats of a point."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibrate import disturbance
from core.calibrate.observations import (
    DECODE,
    KL,
    TOP1,
    AccuracyRows,
    MeasuredPoint,
    Rows,
    measured_point,
    pooled,
)
from core.predict.scenario import predict
from core.units import Z90
from tests.core.calibrate.simulated_board import BASE, CATALOGUE, grid, prior_of


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_impossible_times_are_refused(value):
    with pytest.raises(ValueError, match="decode_s"):
        MeasuredPoint(BASE, value)


def test_reads_the_record_of_a_run():
    body = {
        "decode_s": {"median": 0.01, "q05": 0.0098, "q95": 0.0103, "n": 40, "provenance": "measured"},
        "ttft_s": {"absent": "not asked for"},
    }
    point = measured_point(BASE, body)
    assert (point.decode_s, point.ttft_s) == (0.01, None)
    assert point.log_sd == pytest.approx(np.sqrt(np.pi / 2) * np.log(0.0103 / 0.0098) / (2 * Z90) / np.sqrt(40))


def test_a_run_on_a_busy_machine_counts_less():
    body = {"decode_s": {"median": 0.01, "q05": 0.0098, "q95": 0.0103, "n": 40, "provenance": "measured"}}
    quiet, half, busy = (measured_point(BASE, {**body, "conditions": {"quiet_share": q}}) for q in (1.0, 0.9, 0.0))
    assert quiet.log_sd == measured_point(BASE, body).log_sd
    assert half.log_sd < 1.5 * quiet.log_sd
    assert busy.log_sd == pytest.approx(disturbance.OWN_LOG_SD, rel=0.01)
    assert (quiet.disturbed, half.disturbed, busy.disturbed) == pytest.approx((0.0, 0.001, 1.0))


def test_repeats_of_a_point_stand_for_one():
    other = replace(BASE, alpha=0.5)
    first = MeasuredPoint(BASE, 0.012, 0.03)
    points = [
        first,
        MeasuredPoint(other, 0.009, 0.01),
        MeasuredPoint(BASE, 0.010, 0.02, ttft_s=1.0, mean_kl=0.3, kl_log_sd=0.1),
        MeasuredPoint(BASE, 0.015, 0.01, ttft_s=2.0, mean_kl=0.2, kl_log_sd=0.2, top1_agreement=0.9, n_scored=10),
    ]
    together, alone = pooled(points)
    assert (together.decode_s, together.ttft_s, together.mean_kl, together.top1_agreement) == (0.010, 1.0, 0.2, 0.9)
    assert together.log_sd == pytest.approx(0.02 / 3)
    assert (together.kl_log_sd, together.n_scored) == (0.2, 10)
    assert alone == points[1]
    assert pooled([first]) == [first]
    assert pooled([MeasuredPoint(BASE, None)]) == [MeasuredPoint(BASE, None)]


def laid_out(points):
    before = prior_of(tuple(point.point for point in points))
    return Rows.of(points, CATALOGUE, before), before


def test_rows_predict_what_the_scenario_predicts():
    _, points = grid()
    rows, before = laid_out(points)
    predicted = np.exp(rows.model(before.log_mean)[0])
    assert len(predicted) == 2 * len(points)
    for value, owner, kind in zip(predicted, rows.owner, rows.observed.kind, strict=True):
        there = predict(points[owner].point, CATALOGUE, before)
        expected = there.decode_s if kind == DECODE else there.ttft_s
        assert value == pytest.approx(expected.median, rel=1e-9)


def test_the_jacobian_is_that_of_finite_differences():
    _, points = grid()
    rows, before = laid_out(points[::7])
    _, jacobian = rows.model(before.log_mean)
    for i in range(len(before.names)):
        step = np.zeros(len(before.names))
        step[i] = 1e-5
        slope = (rows.model(before.log_mean + step)[0] - rows.model(before.log_mean - step)[0]) / 2e-5
        np.testing.assert_allclose(jacobian[:, i], slope, atol=1e-7)


def test_rows_without_some_are_the_others():
    _, points = grid()
    rows, before = laid_out(points)
    out = rows.group == rows.group[0]
    kept = rows.without(out)
    assert np.count_nonzero(out) == 2  # a decode time and a time to first token
    np.testing.assert_array_equal(kept.observed.value, rows.observed.value[~out])
    np.testing.assert_array_equal(kept.model(before.log_mean)[0], rows.model(before.log_mean)[0][~out])


def test_exact_accuracy_says_nothing_and_an_agreement_is_a_share_of_tokens():
    point = replace(BASE, weights="int4")
    rows = AccuracyRows.of(
        [
            MeasuredPoint(point, None, mean_kl=0.02, kl_log_sd=0.1),
            MeasuredPoint(point, None, mean_kl=0.0, top1_agreement=1.0, n_scored=99),
            MeasuredPoint(point, None, top1_agreement=0.9, n_scored=99),
        ],
        CATALOGUE,
    )
    assert rows.observed.kind.tolist() == [KL, TOP1]
    assert rows.observed.value[0] == pytest.approx(np.log(0.02))
    assert rows.observed.value[1] == pytest.approx(np.log(-np.log(1 - 10.4 / 100)))
    theta = np.zeros(len(rows.names))
    _, jacobian = rows.model(theta)
    for i in range(len(rows.names)):
        step = np.where(np.arange(len(theta)) == i, 1e-5, 0.0)
        slope = (rows.model(step)[0] - rows.model(-step)[0]) / 2e-5
        np.testing.assert_allclose(jacobian[:, i], slope, atol=1e-7)


def test_compensated_weights_tell_their_time_and_nothing_of_the_accuracy_of_their_format():
    plain = MeasuredPoint(replace(BASE, weights="int8"), 0.01, mean_kl=0.02, kl_log_sd=0.1)
    compensated = replace(plain, point=replace(plain.point, compensation="both"), mean_kl=0.001)
    rows = AccuracyRows.of([plain, compensated], CATALOGUE)
    assert np.exp(rows.observed.value).tolist() == pytest.approx([0.02])
    assert len(pooled([plain, compensated])) == 2
    assert [m.decode_s for m in pooled([plain, compensated])] == [0.01, 0.01]
