import numpy as np
import pytest

from core.compression import (
    adapter_params,
    adapter_reduction,
    bitmap_break_even_keep,
    bitmap_byte_ratio,
    expected_open_gates,
    kl_divergence,
    params_byte,
    quantisation_loss,
    quantisation_mse,
    skip_speedup_bound,
)

RNG = np.random.default_rng(11)


def test_expected_gates_is_the_share_of_open_gates():
    for log_alpha in (-2.0, 0.0, 1.5):
        u = (np.arange(200_000) + 0.5) / 200_000
        s = 1 / (1 + np.exp(-(np.log(u / (1 - u)) + log_alpha) / (2 / 3)))
        open_share = np.mean(np.clip(s * 1.2 - 0.1, 0, 1) > 0)
        assert expected_open_gates(log_alpha) == pytest.approx(open_share, abs=1e-4)
    gates = expected_open_gates(np.linspace(-20, 20, 41))
    assert np.all(np.diff(gates) > 0)
    assert gates[0] < 1e-7 < 1 - 1e-7 < gates[-1]


@pytest.mark.parametrize("bits", [3, 4, 5, 6, 8])
def test_rounding_error_of_random_numbers(bits: int):
    step = 2.0 / 2**bits
    x = RNG.uniform(-1, 1, 1_000_000)
    assert np.mean((step * np.round(x / step) - x) ** 2) == pytest.approx(quantisation_mse(step), rel=0.005)


def test_second_order_loss_is_that_of_a_quadratic():
    h, step = RNG.uniform(0, 2, 50), 0.02
    w = RNG.uniform(-1, 1, (20_000, 50))
    error = step * np.round(w / step) - w
    assert np.mean(0.5 * error**2 @ h) == pytest.approx(quantisation_loss(h, np.full(50, step)), rel=0.01)


def test_kl_divergence():
    p, q = RNG.dirichlet(np.ones(5)), RNG.dirichlet(np.ones(5))
    assert kl_divergence(p, p) == 0.0
    assert kl_divergence(p, q) > 0
    assert kl_divergence([1.0, 0.0], [0.0, 1.0]) == np.inf
    with pytest.raises(ValueError, match=r"p = -0\.1 "):
        kl_divergence([1.1, -0.1], [0.5, 0.5])


def test_bitmap_breaks_even_where_it_says():
    for bits in (4, 8, 16):
        assert bitmap_byte_ratio(bitmap_break_even_keep(bits), bits) == pytest.approx(1.0)
    np.testing.assert_array_equal(
        bitmap_byte_ratio(np.array([0.1, 0.9]), 8), [bitmap_byte_ratio(k, 8) for k in (0.1, 0.9)]
    )


def test_speedup_bound_of_skipping():
    assert skip_speedup_bound(0.0) == 1.0
    assert skip_speedup_bound(0.5) == 2.0
    with pytest.raises(ValueError, match="skipped_frac = 1 "):
        skip_speedup_bound(1.0)


def test_adapters():
    assert adapter_params(1024, 4096, 8) == 8 * 5120
    assert adapter_reduction(1024, 1024, 512) == 0.0
    assert params_byte(np.array([1e9, 2e9]), 4).tolist() == [0.5e9, 1e9]
    with pytest.raises(ValueError, match="rank = 2000"):
        adapter_params(1024, 1024, 2000)
