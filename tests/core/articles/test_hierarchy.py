import numpy as np
import pytest

from core.articles.hierarchy import (
    bus_bandwidth_byte_s,
    bytes_in_flight,
    core_bandwidth_byte_s,
    filled_bandwidth_byte_s,
    overlapped_bandwidth_byte_s,
    serial_bandwidth_byte_s,
    worst_over_estimate,
)

RNG = np.random.default_rng(3)


def test_the_versions_are_ordered_and_bounded():
    for _ in range(200):
        n = int(RNG.integers(1, 6))
        share, speed = RNG.dirichlet(np.ones(n)), np.sort(RNG.uniform(1, 1000, n))[::-1]
        serial = serial_bandwidth_byte_s(share, speed)
        assert filled_bandwidth_byte_s(share, speed) <= serial * (1 + 1e-12)
        assert serial <= overlapped_bandwidth_byte_s(share, speed) * (1 + 1e-12)
        assert speed.min() * (1 - 1e-12) <= serial <= share @ speed * (1 + 1e-12)


def test_harmonic_equals_arithmetic_only_at_the_ends():
    for h in (0.0, 1.0):
        assert serial_bandwidth_byte_s((h, 1 - h), (768, 176)) == pytest.approx(h * 768 + (1 - h) * 176)
    assert serial_bandwidth_byte_s((0.3, 0.7), (50, 50)) == pytest.approx(50)
    assert serial_bandwidth_byte_s((0.5, 0.5), (768, 176)) < 0.99 * (768 + 176) / 2


@pytest.mark.parametrize("version", [serial_bandwidth_byte_s, filled_bandwidth_byte_s, overlapped_bandwidth_byte_s])
def test_arrays_of_mixes_are_those_of_each_and_levels_may_take_no_time(version):
    share, speed = RNG.dirichlet(np.ones(3), size=(4, 2)), np.array([900.0, 200.0, 20.0])
    together = version(share, speed)
    assert together.shape == (4, 2)
    for i in np.ndindex(4, 2):
        assert together[i] == version(share[i], speed)
    assert version((0.25, 0.75), (np.inf, 150.0)) == pytest.approx(200.0)
    assert version((1.0, 0.0), (np.inf, 150.0)) == np.inf


def test_worst_over_estimate_is_the_largest_ratio_of_means():
    h = np.linspace(0, 1, 10_001)
    ratio = (h * 4 + (1 - h)) * (h / 4 + (1 - h))
    assert worst_over_estimate(4.0) == pytest.approx(ratio.max(), rel=1e-6)
    assert worst_over_estimate(1.0) == 1.0
    np.testing.assert_array_equal(worst_over_estimate(np.array([1.0, 4.0])), [1.0, worst_over_estimate(4.0)])


def test_little():
    assert core_bandwidth_byte_s(10, 80e-9) == pytest.approx(8e9)
    flight = bytes_in_flight(np.array([1e9, 2e9]), 1e-7)
    np.testing.assert_allclose(flight, [100, 200])
    assert core_bandwidth_byte_s(flight[1] / 64, 1e-7) == pytest.approx(2e9)
    assert bus_bandwidth_byte_s(6400e6, 2, 64) == pytest.approx(102.4e9)


def test_refusals():
    with pytest.raises(ValueError, match=r"sum of byte_share = 0\.9"):
        serial_bandwidth_byte_s((0.5, 0.4), (1, 1))
    with pytest.raises(ValueError, match="bandwidth_byte_s = 0 "):
        serial_bandwidth_byte_s((0.5, 0.5), (1, 0))
    with pytest.raises(ValueError, match="expected the fastest first"):
        filled_bandwidth_byte_s((0.5, 0.5), (100, 200))
    with pytest.raises(ValueError, match="not one value a level"):
        serial_bandwidth_byte_s((0.5, 0.5), (1,))
    with pytest.raises(ValueError, match="latency_s = 0"):
        core_bandwidth_byte_s(10, 0)
