from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.energy_fit import ENERGY_NAMES, energy_check, energy_fit, energy_prior, log_energy
from core.calibrate.observations import MeasuredPoint
from core.catalogue.load import load_catalogue
from core.physics import power
from core.predict.scenario import decode_costs
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
BOARD = {"board": "jetson_agx_orin_64gb", "runtime": "llamacpp_gpu"}
MODELS = ("smollm2-135m", "qwen2.5-1.5b", "llama-3-8b", "llama-2-13b")


def points(per_byte, static_w, seconds=(4e-3, 14e-3, 45e-3, 90e-3)):
    made = []
    for model, decode_s in zip(MODELS, seconds, strict=True):
        point = OperatingPoint(**BOARD, model=model, weights="q4_k_m")
        energy_j = float(power.mixed_energy_j(moved(point), decode_s, per_byte, static_w))
        made.append(MeasuredPoint(point, decode_s, energy_j=energy_j))
    return made


def moved(point):
    costs = decode_costs(point, CATALOGUE.resolve(point), 1.0)
    return float(costs.weight_byte + costs.kv_byte)


def fit(given, rail="wall"):
    return energy_fit(given, CATALOGUE, energy_prior(rail, 204.8e9, 5e-10, 1.0), 0.02)


def test_golden_mix():
    assert power.mixed_energy_j(1e9, 0.05, 4e-10, 8.0) == pytest.approx(0.8)  # half and half
    np.testing.assert_allclose(power.mixed_energy_j(np.array([0.0, 1e9]), 0.05, 4e-10, np.array([8.0, 0.0])), 0.4)
    with pytest.raises(ValueError, match="static_w"):
        power.mixed_energy_j(1e9, 0.05, 4e-10, -1.0)


@pytest.mark.parametrize(("rail", "share"), [("wall, peak", 0.6), ("Wall", 0.6), ("VDD_CPU_GPU_CV", 0.3), ("", 0.3)])
def test_the_prior_shares_by_the_rail(rail, share):
    mean, cov = energy_prior(rail, 100e9, 5e-10, 1.0)
    per_byte, static_w = np.exp(mean)
    usual_w = static_w / (power.USUAL_READ_SHARE * 100e9)  # per byte at the usual pace
    assert per_byte + usual_w == pytest.approx(5e-10)
    assert usual_w / 5e-10 == pytest.approx(share)
    assert np.all(np.linalg.eigvalsh(cov) > 0.0)


@pytest.mark.parametrize(("per_byte", "static_w"), [(4e-10, 30.0), (8e-10, 3.0), (5e-11, 60.0)])
def test_figures_of_several_models_tell_bytes_from_time(per_byte, static_w):
    found = fit(points(per_byte, static_w))
    assert np.exp(found.mean) == pytest.approx([per_byte, static_w], rel=0.25)  # the prior still pulls a little
    assert ENERGY_NAMES == ("energy_j_byte", "static_power_w")


def test_one_figure_predicts_a_slow_model_better_than_bytes_alone():
    fast, _, large, _ = points(2e-10, 25.0)
    found = fit([large])
    log_j, _ = log_energy(found.mean, np.array([moved(fast.point)]), np.array([fast.decode_s]))
    by_bytes = large.energy_j / moved(large.point) * moved(fast.point)
    assert abs(log_j[0] - np.log(fast.energy_j)) < 0.5 * abs(np.log(by_bytes / fast.energy_j))


def test_slopes_are_the_shares_of_the_parts():
    theta = np.log([4e-10, 20.0])
    byte, seconds = np.array([1e9, 5e9]), np.array([0.02, 0.05])
    log_j, slopes = log_energy(theta, byte, seconds)
    for i in range(2):
        step = np.zeros(2)
        step[i] = 1e-6
        rise = (log_energy(theta + step, byte, seconds)[0] - log_energy(theta - step, byte, seconds)[0]) / 2e-6
        np.testing.assert_allclose(slopes[:, i], rise, atol=1e-8)
    np.testing.assert_allclose(slopes.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(log_j), 4e-10 * byte + 20.0 * seconds)


def test_a_point_without_a_time_takes_the_usual_one():
    timed, *_ = points(4e-10, 30.0)
    bare = MeasuredPoint(timed.point, None, energy_j=timed.energy_j)
    usual_s = moved(timed.point) / (power.USUAL_READ_SHARE * CATALOGUE.resolve(timed.point).mode.bandwidth_byte_s)
    same = MeasuredPoint(timed.point, usual_s, energy_j=timed.energy_j)
    np.testing.assert_allclose(fit([bare]).mean, fit([same]).mean)


def checked(given, scatter=0.05):
    return energy_check(given, CATALOGUE, energy_prior("wall", 204.8e9, 5e-10, 1.0), scatter)


def test_the_power_of_a_left_out_point_follows_from_the_others():
    good = points(4e-10, 30.0)
    check = checked(good)
    assert check.n == len(good)
    np.testing.assert_allclose(check.measured_s, [m.energy_j / m.decode_s for m in good])  # powers [W]
    assert check.median_error_frac < 0.1
    assert check.coverage_frac == 1.0
    wrong = [replace(good[0], energy_j=2.0 * good[0].energy_j), *good[1:]]
    error = np.abs(checked(wrong).error_frac)
    assert error.argmax() == 0
    assert error[0] == pytest.approx(0.5, abs=0.1)


def test_repeats_of_a_point_are_left_out_together_and_two_points_are_too_few():
    one, two, three, _ = points(4e-10, 30.0)
    assert checked([one, two]) is None
    assert checked([one, one, two, two]) is None
    assert checked([one, replace(one, energy_j=1.2 * one.energy_j), two, three]).n == 4
