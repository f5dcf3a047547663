import numpy as np
import pytest

from core.articles.compression import (
    adapter_params,
    adapter_reduction,
    bitmap_break_even_keep,
    bitmap_byte_ratio,
    expected_open_gates,
    joint_loss,
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


def test_gates_far_from_zero_are_shut_and_open():
    assert expected_open_gates(np.array([-1000.0, 1000.0])).tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="log_alpha = nan"):
        expected_open_gates(np.nan)


def test_joint_loss_of_open_gates_is_the_sum_of_its_terms():
    n, bits, span, price = 50, 4, 1.5, (0.1, 2.0, 3.0)
    h = RNG.uniform(0, 2, n)
    found = joint_loss(0.7, np.full(n, 50.0), h, span, bits, 1e3, price)
    assert found.n_open == pytest.approx(n)
    assert found.rounding == pytest.approx(quantisation_loss(h, np.full(n, span / 16)))
    assert found.read_s == pytest.approx(n * 0.5 / 1e3)
    assert found.total == pytest.approx(0.7 + 0.1 * n + 2 * found.rounding + 3 * found.read_s)
    shut = joint_loss(0.7, np.full(n, -1000.0), h, span, bits, 1e3, price)
    assert shut == (0.7, 0.0, 0.0, 0.0, 0.7)


def test_joint_loss_has_a_slope_by_gates_and_trades_rounding_for_time():
    h, gates, price = RNG.uniform(0, 2, 8), RNG.normal(size=8), (0.5, 10.0, 2.0)
    few, many = (joint_loss(0.0, gates, h, 2.0, bits, 100.0, price) for bits in (3, 8))
    assert many.rounding == pytest.approx(few.rounding / 4**5)
    assert many.read_s == pytest.approx(few.read_s * 8 / 3)
    for i in range(8):
        step = 1e-6 * np.eye(8)[i]
        up, down = (joint_loss(0.0, gates + s, h, 2.0, 3.0, 100.0, price).total for s in (step, -step))
        p = float(expected_open_gates(gates[i]))
        exact = p * (1 - p) * (0.5 + 10 * h[i] * 0.25**2 / 24 + 2 * 3 / 800)
        assert (up - down) / 2e-6 == pytest.approx(exact, rel=1e-7)
    for changed, message in (
        ({"bits": 0}, "bits = 0 "),
        ({"span": -1}, "span = -1"),
        ({"bandwidth_byte_s": 0}, "byte_s = 0"),
    ):
        given = {"bits": 4, "span": 1.0, "bandwidth_byte_s": 1.0} | changed
        with pytest.raises(ValueError, match=message):
            joint_loss(0.0, gates, h, **given)


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
    of_ranks = adapter_params(np.array([1024, 64]), 4096, np.array([8, 64]))
    assert np.array_equal(of_ranks, [adapter_params(1024, 4096, 8), adapter_params(64, 4096, 64)])
    with pytest.raises(ValueError, match="rank / smaller size"):
        adapter_params(1024, 1024, 2000)
