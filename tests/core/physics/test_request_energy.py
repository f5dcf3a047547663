from itertools import pairwise

import numpy as np
import pytest

from core.physics.power import dynamic_power_w, request_energy, window_energy_j

T = np.arange(0, 20.0, 0.1)


def power(t):
    return np.interp(t, [0, 4.95, 5.05, 20], [3.0, 3.0, 9.0, 12.0])


def test_prefill_decode_and_idle_are_kept_apart():
    found = request_energy(T, power(T), 6.0, 8.0, 15.0, 71)
    slope = (12 - 9) / 14.95
    at = lambda t: 9 + slope * (t - 5.05)  # noqa: E731
    assert found.prefill_j == pytest.approx(2 * (at(6) + at(8)) / 2, rel=1e-9)
    assert found.decode_j == pytest.approx(7 * (at(8) + at(15)) / 2, rel=1e-9)
    assert found.decode_j_per_token == pytest.approx(found.decode_j / 70)
    assert found.idle_w == pytest.approx((4.95 * 3 + 0.1 * 6 + 0.85 * (9 + at(5.9)) / 2) / 5.9, rel=0.01)


def test_windows_add_up_whatever_the_samples():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 10, 200))
    p = rng.uniform(1, 9, 200)
    cuts = np.sort(rng.uniform(t[0], t[-1], 6))
    parts = sum(window_energy_j(t, p, a, b) for a, b in pairwise(cuts))
    assert parts == pytest.approx(window_energy_j(t, p, cuts[0], cuts[-1]), rel=1e-12)
    assert window_energy_j(t, p, 5.0, 5.0) == 0.0


def test_dynamic_power_follows_clock_and_voltage_squared():
    volts = np.array([0.7, 0.85])
    power = dynamic_power_w(0.5, 4e-9, np.array([0.5e9, 1e9]), volts)
    np.testing.assert_allclose(power, [0.5 * 4e-9 * 0.5e9 * 0.49, 0.5 * 4e-9 * 1e9 * 0.7225])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_tokens": 1}, "n_tokens = 1"),
        ({"start_s": -1.0}, "start_s = -1"),
        ({"last_token_s": 30.0}, "last_token_s = 30"),
        ({"first_token_s": 5.0}, "first_token_s - start_s = -1"),
        ({"start_s": 0.05}, "samples before the request = 1"),
    ],
)
def test_windows_outside_the_trace_are_refused(change, says):
    given = {"start_s": 6.0, "first_token_s": 8.0, "last_token_s": 15.0, "n_tokens": 71} | change
    with pytest.raises(ValueError, match=says):
        request_energy(T, power(T), **given)


def test_activity_beyond_one_is_refused():
    with pytest.raises(ValueError, match=r"activity_frac = 1\.5"):
        dynamic_power_w(1.5, 1e-9, 1e9, 1.0)
