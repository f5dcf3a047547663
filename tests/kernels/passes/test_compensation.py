import numpy as np
import pytest
import torch

from core.physics import compensation as formula
from kernels.passes import compensation
from kernels.passes.compensation import DualLoop, feed_back


@pytest.fixture(params=[True, False], ids=["native", "torch"], autouse=True)
def path(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(compensation, "library", lambda: None)


def randn(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("x", "expected"), [([1.2, 2.2, 3.2], [1.0, 2.0, 3.0]), ([1.3, 2.1, 3.2], [1.005, 1.995, 3.0])]
)
def test_golden(x, expected):
    found = DualLoop(2.0, 0.05).apply(torch.tensor(x))
    assert torch.allclose(found, torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize("n", [1, 5, 8192, 100_003])
def test_equals_the_formula_and_tells_the_mean(n):
    x = 3 * randn(n)
    loop = DualLoop(0.7, 0.3, step=0.25)
    found = loop.apply(x.clone())
    assert np.allclose(found, formula.compensated(x.numpy(), 0.7, 0.3, 0.25), atol=1e-5)
    assert loop.mean == pytest.approx(float(found.double().mean()), abs=1e-5)


def test_given_output_leaves_the_input_alone_and_a_known_mean_is_taken():
    x = randn(1000)
    before, out = x.clone(), torch.empty(1000)
    loop = DualLoop(0.0, 0.5)
    assert loop.apply(x, out) is out
    assert torch.equal(x, before)
    shifted = loop.apply(x.clone(), mean=float(before.double().mean()) + 1)
    assert torch.allclose(out - shifted, torch.full((1000,), 0.5), atol=1e-6)


def test_values_on_the_grid_with_the_right_mean_stay():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(DualLoop(2.0, 0.05).apply(x.clone()), x)


@pytest.mark.parametrize("gain", [0.05, 0.5, 1.0, 1.9])
def test_drift_falls_as_the_formula_says(gain):
    x = torch.full((64,), 0.2)
    loop = DualLoop(0.0, gain, step=1e-4)  # so fine that rounding does not matter
    for _ in range(20):
        loop.apply(x)
    assert loop.mean == pytest.approx(formula.drift_after(0.2, gain, 20), abs=2e-4)


def test_halves_round_to_even():
    found = DualLoop(0.0, 1e-6).apply(torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5]), mean=0.0)
    assert torch.allclose(found, torch.tensor([0.0, 2.0, 2.0, 0.0, -2.0]), atol=1e-5)


def test_error_feedback_keeps_the_sum_within_half_a_step():
    n, step = 1000, 0.5
    signal = 0.3 * randn(n, 50) + 0.1
    error, total = torch.zeros(50), torch.zeros(50, dtype=torch.float64)
    out = []
    for x in signal:
        out.append(feed_back(x.clone(), error, step))
        total += out[-1] - x
        assert (total.abs() <= step / 2 + 1e-4).all()
    plain = (signal.div(step).round() * step - signal).sum(0).abs()
    assert plain.max() > 5 * step
    expected = formula.error_feedback(signal[:, 0].numpy(), step)
    assert np.mean(np.abs(torch.stack(out)[:, 0].numpy() - expected) < 1e-5) > 0.99  # but for ties
    given = torch.empty(50)
    assert feed_back(signal[0], torch.zeros(50), step, given) is given


def test_wrong_arguments_raise():
    with pytest.raises(ValueError, match="gain: got 2"):
        DualLoop(0.0, 2.0)
    with pytest.raises(ValueError, match="step: got 0"):
        DualLoop(0.0, 0.5, 0)
    with pytest.raises(ValueError, match="step: got 0"):
        feed_back(torch.ones(2), torch.zeros(2), 0)
    with pytest.raises(ValueError, match="error: got"):
        feed_back(torch.ones(2), torch.zeros(3), 1.0)
