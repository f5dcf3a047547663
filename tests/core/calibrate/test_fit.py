"""Fits of simulated boards: coverage, outliers, identifiability, plans, energy."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.fit import calibrate, calibration_plan
from core.calibrate.observations import MeasuredPoint, measured_point
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint, Provenance
from core.units import Z90
from tests.core.calibrate.simulated_board import BASE, CATALOGUE, FORMATS, GRID, Board, grid


def test_recovers_a_board():
    board, points = grid(seed=3, scatter=0.005)
    calibration = calibrate(points, CATALOGUE, check=False)
    for point in GRID[::5]:
        found, true = predict(point, CATALOGUE, calibration.posterior), board.true(point)
        assert found.decode_s.median == pytest.approx(true.decode_s.median, rel=0.02)
        assert found.ttft_s.median == pytest.approx(true.ttft_s.median, rel=0.02)
        assert found.decode_s.provenance is Provenance.CALIBRATED
    by_key = {p.key: p for p in calibration.parameters}
    for weights in FORMATS:
        names = ("eta", f"eta.{weights}")
        true = board.truth.bandwidth_byte_s * np.exp(
            sum(m for name, m in zip(board.truth.names, board.truth.log_mean, strict=True) if name in names)
        )
        estimate = by_key[f"eta.{weights}"].estimate
        assert estimate.q05 / 1.3 < true < estimate.q95 * 1.3


def test_predictions_cover_what_they_should():
    """90 % intervals of points never measured, after 8 points each, over 200 boards drawn from the prior."""
    plan = calibration_plan(CATALOGUE)
    unseen = [p for p in GRID if p not in plan][::9]
    inside = []
    for seed in range(200):
        board = Board(seed, scatter=0.03, points=[*GRID, *plan])
        posterior = calibrate([board.measure(p) for p in plan], CATALOGUE, check=False).posterior
        for point in unseen:
            said, measured = predict(point, CATALOGUE, posterior).decode_s, board.measure(point).decode_s
            inside.append(said.q05 <= measured <= said.q95)
    assert 0.85 <= np.mean(inside) <= 0.95


def test_prior_predictions_cover_what_they_should():
    inside, said = [], {point: predict(point, CATALOGUE).decode_s for point in GRID[::13]}
    for seed in range(200):
        board = Board(seed, scatter=0.03)
        inside += [s.q05 <= board.measure(point).decode_s <= s.q95 for point, s in said.items()]
    assert 0.85 <= np.mean(inside) <= 0.95


def test_no_points_leave_the_prior():
    calibration = calibrate([], CATALOGUE)
    assert calibration.posterior.n_decode == 0
    assert predict(BASE, CATALOGUE, calibration.posterior) == predict(BASE, CATALOGUE)
    assert calibration.check is None
    assert calibration.condition_number == pytest.approx(1.0)


def test_order_of_points_does_not_matter():
    _, points = grid()
    shuffled = [points[i] for i in np.random.default_rng(7).permutation(len(points))]
    one, other = (calibrate(p, CATALOGUE, check=False).posterior for p in (points, shuffled))
    order = [other.names.index(name) for name in one.names]
    np.testing.assert_allclose(other.log_mean[order], one.log_mean, atol=1e-8)
    np.testing.assert_allclose(other.log_cov[np.ix_(order, order)], one.log_cov, atol=1e-8)
    assert other.decode_log_sd == pytest.approx(one.decode_log_sd, rel=1e-8)


def test_outlier_is_flagged_and_pulls_nothing():
    _, points = grid()
    clean = calibrate(points, CATALOGUE, check=False)
    spoiled = [*points]
    spoiled[17] = replace(points[17], decode_s=points[17].decode_s * 1.8)
    calibration = calibrate(spoiled, CATALOGUE, check=False)
    assert np.flatnonzero(calibration.outlier).tolist() == [17]
    assert len(calibration.points) == len(points)
    for point in GRID[::7]:
        there = predict(point, CATALOGUE, calibration.posterior).decode_s.median
        assert there == pytest.approx(predict(point, CATALOGUE, clean.posterior).decode_s.median, rel=0.01)


def test_repeats_narrow_a_point_but_not_below_their_own_scatter():
    board, _ = grid()
    point = GRID[5]
    wide = [
        predict(point, CATALOGUE, calibrate([board.measure(point)] * n, CATALOGUE, check=False).posterior).decode_s
        for n in (1, 3, 12)
    ]
    spread = [e.q95 / e.q05 for e in wide]
    assert spread[0] > spread[1] > spread[2]
    posterior = calibrate([board.measure(point) for _ in range(40)], CATALOGUE, check=False).posterior
    said = predict(point, CATALOGUE, posterior).decode_s
    assert np.log(said.q95 / said.q05) / (2 * Z90) == pytest.approx(0.02, rel=0.5)


def test_says_what_the_points_do_not_identify():
    board, _ = grid()
    short = [board.measure(replace(BASE, weights="int8", context_tokens=16.0)) for _ in range(3)]
    calibration = calibrate(short, CATALOGUE, check=False)
    verdicts = {p.key: p.verdict for p in calibration.parameters}
    assert verdicts["kappa.bf16"] == "not identified by these points"
    assert verdicts["rho"] == "not identified by these points"
    assert verdicts["eta.int8"].startswith("narrowed by")
    _, points = grid()
    assert {p.key: p for p in calibrate(points, CATALOGUE, check=False).parameters}["kappa.bf16"].identified


def test_two_models_share_a_board():
    models = ("smollm2-135m", "qwen2.5-0.5b")
    points = [replace(BASE, model=m, weights=w, context_tokens=1024.0) for m in models for w in FORMATS]
    board = Board(1, points=points)
    calibration = calibrate([board.measure(p) for p in points], CATALOGUE, check=False)
    assert {f"model.{m}" for m in models} <= {p.key for p in calibration.parameters}
    unseen = replace(BASE, model="qwen2.5-1.5b", context_tokens=1024.0)
    narrow, wide = (predict(unseen, CATALOGUE, p).decode_s for p in (calibration.posterior, None))
    assert narrow.q95 / narrow.q05 < 0.7 * wide.q95 / wide.q05


def test_bandwidth_of_the_catalogue_is_what_eta_is_a_share_of():
    _, points = grid()
    doubled = {
        key: replace(mode, bandwidth_byte_s=2 * mode.bandwidth_byte_s)
        for key, mode in CATALOGUE.boards["this"].power_modes.items()
    }
    boards = {**CATALOGUE.boards, "this": replace(CATALOGUE.boards["this"], power_modes=doubled)}
    posterior = calibrate(points, replace(CATALOGUE, boards=boards), check=False).posterior
    assert posterior.bandwidth_byte_s == 2 * calibrate(points, CATALOGUE, check=False).posterior.bandwidth_byte_s
    # A posterior remembers its bandwidth, so it says the same whatever the catalogue thinks later.
    said = predict(GRID[0], CATALOGUE, posterior).decode_s.median
    assert said == pytest.approx(points[0].decode_s, rel=0.1)


def test_points_of_two_boards_are_refused():
    points = [MeasuredPoint(BASE, 0.01), MeasuredPoint(replace(BASE, runtime="llamacpp_cpu"), 0.01)]
    with pytest.raises(ValueError, match="this/builtin/default and this/llamacpp_cpu/default; expected one board"):
        calibrate(points, CATALOGUE)


def test_plan_spans_formats_and_extremes_within_a_minute():
    plan = calibration_plan(CATALOGUE)
    assert 6 <= len(plan) <= 10
    assert {p.weights for p in plan} == set(FORMATS)
    assert {p.alpha for p in plan} == {0.0, 0.9}
    assert max(p.context_tokens for p in plan) <= 2048
    assert len(set(plan)) == len(plan)


def test_plan_beats_points_at_random():
    rng = np.random.default_rng(0)
    board = Board(5, scatter=0.01)

    def spread(points):
        posterior = calibrate([board.measure(p) for p in points], CATALOGUE, check=False).posterior
        said = [predict(p, CATALOGUE, posterior).decode_s for p in both]
        return np.mean([np.log(s.q95 / s.q05) for s in said])

    both = [replace(p, kv=kv) for p in GRID for kv in ("bf16", "int8")]
    short = [p for p in both if p.context_tokens <= 2048]
    at_random = [spread([short[i] for i in rng.choice(len(short), 8, replace=False)]) for _ in range(10)]
    assert spread(calibration_plan(CATALOGUE)) < np.median(at_random)


def test_plan_for_a_model_of_short_context():
    short = replace(CATALOGUE.models["smollm2-135m"], max_context_tokens=128)
    plan = calibration_plan(replace(CATALOGUE, models={**CATALOGUE.models, "smollm2-135m": short}))
    assert {p.context_tokens for p in plan} == {128.0}


def test_measured_energy_teaches_the_energy_per_byte():
    board, _ = grid()
    rng = np.random.default_rng(0)
    points = []
    for point in GRID[::6]:
        moved = (
            float(predict(point, CATALOGUE).energy_j_per_token.median) / CATALOGUE.boards["this"].system_energy_j_byte
        )
        energy_j = 300e-12 * moved * np.exp(rng.normal(0, 0.1))
        points.append(replace(board.measure(point), energy_j=energy_j, power_covers="the package"))
    other_rail = replace(points[0], energy_j=10 * points[0].energy_j, power_covers="the wall")
    posterior = calibrate([other_rail, *points], CATALOGUE, check=False).posterior
    assert (posterior.n_energy, posterior.power_covers) == (len(points), "the package")
    for measured in points:
        said = predict(measured.point, CATALOGUE, posterior)
        assert said.power_w.provenance is said.energy_j_per_token.provenance is Provenance.CALIBRATED
        assert said.energy_j_per_token.median == pytest.approx(measured.energy_j, rel=0.3)
        assert said.energy_j_per_token.q95 / said.energy_j_per_token.q05 < 2
        assert said.power_w.median == pytest.approx(said.energy_j_per_token.median / said.decode_s.median)


def test_energy_of_a_board_that_states_none():
    bare = replace(CATALOGUE.boards["this"], system_energy_j_byte=None)
    catalogue = replace(CATALOGUE, boards={**CATALOGUE.boards, "this": bare})
    time, power = ({"median": value, "q05": value, "q95": value, "n": 9} for value in (0.01, 5.0))
    idle = {"median": 1.5, "q05": 1.5, "q95": 1.5, "n": 1}
    point = measured_point(BASE, {"decode_s": time, "power_w": power, "idle_power_w": idle})
    assert point.energy_j == pytest.approx(0.05)
    posterior = calibrate([point], catalogue).posterior
    assert posterior.idle_power_w == 1.5
    said = predict(BASE, catalogue, posterior)
    assert said.energy_j_per_token.median == pytest.approx(0.05, rel=0.15)
    assert said.energy_j_per_token.provenance is Provenance.CALIBRATED


def test_what_published_rows_taught_together_stays_a_covariance():
    catalogue = load_catalogue()
    known = catalogue.board_posteriors["rk3588", "rkllm_npu", "default"]
    at = OperatingPoint(
        board="rk3588", runtime="rkllm_npu", model="qwen2.5-1.5b", weights="w8a8", kv="bf16", context_tokens=96
    )
    slower = 1.5 * predict(at, catalogue, known).decode_s.median  # the factor of this model has to give
    posterior = calibrate([MeasuredPoint(at, decode_s=slower)], catalogue, known=known, check=False).posterior
    n = len(known.names)
    assert np.linalg.eigvalsh(posterior.log_cov)[0] > 0
    assert np.all(np.diag(posterior.log_cov)[:n] <= np.diag(known.log_cov) * (1 + 1e-9))
