import numpy as np
import pytest

from core.articles.relax import (
    access_time,
    access_time_gradient,
    best_width,
    choice_probabilities,
    gumbel_noise,
    relaxed_access_time,
    relaxed_mean,
    relaxed_mean_gradient,
)

WIDTHS = np.array([32.0, 64.0, 128.0, 256.0])
RNG = np.random.default_rng(5)


def test_gradient_is_that_of_complex_steps():
    for _ in range(20):
        logits, noise, tau = RNG.normal(size=4) * 0.1, gumbel_noise(RNG.random(4)) * 0.1, float(RNG.uniform(0.2, 2))

        def mean(z: np.ndarray, noise: np.ndarray = noise, tau: float = tau) -> complex:
            p = np.exp((z + noise) / tau)
            return complex(p @ WIDTHS / p.sum())

        exact = [mean(logits + 1e-30j * np.eye(4)[i]).imag / 1e-30 for i in range(4)]
        gradient = relaxed_mean_gradient(WIDTHS, logits, tau, noise)
        np.testing.assert_allclose(gradient, exact, rtol=1e-10, atol=1e-10)
        assert gradient.sum() == pytest.approx(0.0, abs=1e-10)
        assert relaxed_mean(WIDTHS, logits, tau, noise) == pytest.approx(mean(logits).real)


def test_tensors_go_through_with_their_gradient():
    torch = pytest.importorskip("torch")
    logits, noise, tau = RNG.normal(size=4) * 0.2, gumbel_noise(RNG.random(4)) * 0.1, 0.3  # the noise is frozen
    widths = torch.tensor(WIDTHS)

    def mean(z):
        return relaxed_mean(widths, z, tau, torch.tensor(noise))

    def time_of(z, line, burst):
        return relaxed_access_time(widths, z, tau, line, burst, 10.0, 1.0)

    z = torch.tensor(logits, requires_grad=True)
    line, burst = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (64.0, 8.0))
    assert torch.autograd.gradcheck(mean, (z,))
    assert torch.autograd.gradcheck(time_of, (z, line, burst))
    assert mean(z) == relaxed_mean(WIDTHS, z, tau, noise)  # numbers beside a tensor
    (slope,) = torch.autograd.grad(mean(z), z)
    np.testing.assert_allclose(slope, relaxed_mean_gradient(WIDTHS, logits, tau, noise), rtol=1e-12)
    assert mean(z).item() == pytest.approx(relaxed_mean(WIDTHS, logits, tau, noise), rel=1e-14)
    width = torch.tensor(128.0, dtype=torch.float64, requires_grad=True)
    slopes = torch.autograd.grad(access_time(line, width, burst, 10.0, 1.0), (line, width, burst))
    assert [s.item() for s in slopes] == pytest.approx(list(access_time_gradient(64, 128, 10, 1).values()))
    with pytest.raises(ValueError, match="width = -1"):
        access_time(line, -width / 128, burst, 10.0, 1.0)


def test_probabilities_saturate_and_do_not_overflow():
    p = choice_probabilities([1000.0, 0.0], 0.1)
    assert p.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(choice_probabilities([1.0, 2.0], 1e9), [0.5, 0.5], atol=1e-8)


def test_access_time_and_its_gradient():
    gradient = access_time_gradient(64, 128, 10, 1)
    h = 1e-6
    assert gradient["line"] == pytest.approx((access_time(64 + h, 128, 8, 10, 1) - access_time(64, 128, 8, 10, 1)) / h)
    assert gradient["width"] < 0 < gradient["line"]
    np.testing.assert_array_equal(access_time(64, WIDTHS, 8, 10, 1), [access_time(64, w, 8, 10, 1) for w in WIDTHS])


def test_relaxing_the_width_underestimates_relaxing_the_time():
    for _ in range(50):
        logits = RNG.normal(size=4) * 0.05
        width = relaxed_mean(WIDTHS, logits, 0.1)
        assert access_time(64, width, 8, 10, 1) <= relaxed_access_time(WIDTHS, logits, 0.1, 64, 8, 10, 1) + 1e-12


def test_enumeration_finds_the_limit_of_the_relaxation():
    best, times = best_width(WIDTHS, 64, 8, 10, 1)
    assert best == WIDTHS[np.argmin(times)]
    sure = np.where(best == WIDTHS, 50.0, 0.0)
    assert relaxed_access_time(WIDTHS, sure, 0.1, 64, 8, 10, 1) == pytest.approx(times.min())


def test_refusals():
    with pytest.raises(ValueError, match="temperature = 0"):
        choice_probabilities([0.0, 0.0], 0.0)
    with pytest.raises(ValueError, match="uniform = 1 "):
        gumbel_noise([0.5, 1.0])
    with pytest.raises(ValueError, match="width = 0"):
        access_time(64, 0, 8, 10, 1)
    with pytest.raises(ValueError, match=r"logits \(2,\) and values \(4,\) are not one of each choice"):
        relaxed_mean(WIDTHS, [0.0, 0.0], 0.1)
    with pytest.raises(ValueError, match="per_beat = -1"):
        best_width(WIDTHS, 64, 8, -1, 1)
