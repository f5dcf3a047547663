import numpy as np
import pytest

from core.physics.compensation import compensated, drift_after, error_feedback, steps_to_halve

RNG = np.random.default_rng(2)


def test_values_on_the_grid_at_their_mean_stay():
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(compensated(x, 2.0, 0.05), x)
    np.testing.assert_allclose(compensated(x * 0.1, 0.2, 0.05, step=0.1), x * 0.1, atol=1e-15)


def test_it_blends_rounding_with_the_value_and_subtracts_the_drift():
    x = RNG.normal(size=100)
    a = 0.3
    expected = np.round(x) + a * (x - np.round(x)) - a * (x.mean() - 0.5)
    np.testing.assert_allclose(compensated(x, 0.5, a), expected, atol=1e-14)


@pytest.mark.parametrize("gain", [0.05, 0.5, 1.0, 1.5, 1.95])
def test_the_outer_loop_is_stable_between_0_and_2(gain: float):
    drift, n = 0.2, np.arange(0, 400)
    path = drift_after(drift, gain, n)
    assert abs(path[-1]) == pytest.approx(drift * abs(1 - gain) ** 399, rel=1e-9)
    assert abs(path[-1]) < 1e-8
    assert np.all(np.diff(np.abs(path)) <= 0)
    mean = 1.7
    for _ in range(5):
        mean -= gain * (mean - 1.5)
    assert mean - 1.5 == pytest.approx(drift_after(0.2, gain, 5))


def test_half_life():
    gains = np.array([0.05, 0.5])
    assert drift_after(1.0, gains, steps_to_halve(gains)) == pytest.approx(0.5)
    assert steps_to_halve(0.05) == steps_to_halve(gains)[0]


def test_error_feedback_never_strays_by_more_than_half_a_step():
    for _ in range(50):
        x, step = RNG.normal(size=1000), float(RNG.uniform(0.01, 1))
        fed = error_feedback(x, step)
        assert np.max(np.abs(np.cumsum(fed - x))) <= step / 2 + 1e-9
        np.testing.assert_allclose(fed / step, np.round(fed / step), atol=1e-6)


def test_refusals():
    for gain in (0.0, 2.0, -0.1):
        with pytest.raises(ValueError, match=f"gain = {gain:g}"):
            compensated([1.0], 1.0, gain)
    with pytest.raises(ValueError, match="step = 0"):
        error_feedback([1.0], 0.0)
    with pytest.raises(ValueError, match="expected one signal"):
        error_feedback([[1.0]], 1.0)
