import numpy as np
import pytest

from core.tables.model_effects import MODEL_LOG_SD, SHARED_FRAC, Factor, expected_factors, scatter

KEY = ("mlc_gpu", "model.")


def factor(model, log_mean, board="a", log_var=1e-4):
    return Factor(*KEY[:1], board, KEY[1], model, log_mean, log_var)


def test_scatter_follows_the_models_and_is_shrunk():
    rng = np.random.default_rng(1)
    for sd in (0.10, 0.30):
        factors = [factor(f"m{i}", x) for i, x in enumerate(rng.normal(0.0, sd, 400))]
        before = {KEY: MODEL_LOG_SD}
        for _ in range(30):
            before = scatter(factors, before)
        assert before[KEY] == pytest.approx(sd, rel=0.15)
    few = scatter([factor("m", 0.5)], {})
    assert few[KEY] < 0.2
    assert scatter([factor("m", 0.0, log_var=MODEL_LOG_SD**2)], {}) == {}  # not measured


def test_a_measured_factor_is_half_expected_elsewhere():
    found = expected_factors([factor("slow", 0.3)], {KEY: 0.2})[KEY]["slow"]
    assert np.log(found.median) == pytest.approx(SHARED_FRAC * 0.3, rel=0.02)
    assert 0.8 * 0.2 < found.log_sd < 0.2


def test_more_boards_tell_more_and_repeats_of_one_do_not():
    one = expected_factors([factor("slow", 0.3)], {KEY: 0.2})[KEY]["slow"]
    twice = expected_factors([factor("slow", 0.3), factor("slow", 0.3)], {KEY: 0.2})[KEY]["slow"]
    three = expected_factors([factor("slow", 0.3, board) for board in "abc"], {KEY: 0.2})[KEY]["slow"]
    assert twice.median == pytest.approx(one.median)
    assert three.median > one.median
    assert three.log_sd < one.log_sd


def test_a_factor_that_was_not_measured_is_not_expected():
    assert expected_factors([factor("m", 0.1, log_var=0.04)], {KEY: 0.2}) == {}


def test_a_guessed_shape_is_off_by_as_much_elsewhere_and_says_nothing_of_the_scatter():
    guessed = factor("slow", 0.3)._replace(shape_var=0.2**2)
    known, guess = (expected_factors([one], {KEY: 0.2})[KEY]["slow"] for one in (factor("slow", 0.3), guessed))
    assert np.log(guess.median) == pytest.approx(0.75 * 0.3, rel=0.02)  # half of the scatter and all of the guess
    assert guess.median > known.median
    assert guess.log_sd < 0.2
    assert scatter([guessed], {}) == {}
