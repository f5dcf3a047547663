import numpy as np
import pytest

from core.articles.limits import max_context_by_latency, max_context_by_memory


def test_the_last_token_that_fits_fits():
    n = max_context_by_latency(0.1, 50e9, 4e9, 131072.0, 5e-3)
    assert (4e9 + n * 131072) / 50e9 + 5e-3 <= 0.1 < (4e9 + (n + 1) * 131072) / 50e9 + 5e-3
    m = max_context_by_memory(8e9, 4e9, 131072.0)
    assert 4e9 + m * 131072 <= 8e9 < 4e9 + (m + 1) * 131072


def test_a_limit_that_a_context_meets_exactly_gives_that_context():
    n = np.arange(1.0, 5000.0)
    for bandwidth, weights, kv, constant in (
        (51.2e9 * 0.73, 3.3e9, 114688.0, 0.0),
        (13e9, 0.7e9, 9216.0, 4.7e-3),
        (13e9, 1e6, 512.0, 1.3),
    ):
        time = (weights + n * kv) / bandwidth + constant
        np.testing.assert_array_equal(max_context_by_latency(time, bandwidth, weights, kv, constant), n)
        np.testing.assert_array_equal(max_context_by_memory(weights + n * kv, weights, kv), n)


def test_none_fits_where_the_weights_do_not():
    assert max_context_by_memory(1e9, 4e9, 131072.0) == 0
    assert max_context_by_latency(0.01, 50e9, 4e9, 131072.0) == 0


def test_arrays_equal_scalars_and_rise_with_the_limit():
    limits = np.array([0.05, 0.1, 0.2])
    n = max_context_by_latency(limits, 50e9, 1e9, 23040.0)
    np.testing.assert_array_equal(n, [max_context_by_latency(float(t), 50e9, 1e9, 23040.0) for t in limits])
    assert np.all(np.diff(n) > 0)


def test_refusals():
    with pytest.raises(ValueError, match="time_s = 0"):
        max_context_by_latency(0, 1e9, 1e9, 1.0)
    with pytest.raises(ValueError, match="kv_byte_per_token = 0"):
        max_context_by_memory(1e9, 1e8, 0)
