"""The outer loop: the drift falls as the formula says, the loop stops, and a gain of 0 changes nothing."""

import pytest
import torch

from core.physics.compensation import drift_after, steps_to_halve
from kernels.passes.offsets import MAX_ROUNDS, OffsetLoop

DRIFT = torch.tensor([0.2, -1.0, 3.0], dtype=torch.float64)
ONE = torch.ones(3, dtype=torch.float64)


def closed(gain, n, drift=DRIFT):
    """Run the loop on channels that nothing else moves."""
    loop = OffsetLoop(3, gain, max_rounds=n)
    for _ in range(n):
        loop.update(drift + loop.offsets, ONE)
    return loop


@pytest.mark.parametrize("gain", [0.05, 0.5, 0.7, 1.0, 1.5])
def test_drift_falls_as_the_formula_says(gain):
    left = DRIFT + closed(gain, 12).offsets
    expected = [drift_after(float(drift), gain, 12) for drift in DRIFT]
    assert left.tolist() == pytest.approx(expected, abs=1e-12)


def test_drift_halves_in_the_steps_that_the_formula_predicts():
    gain = 0.05
    n = round(float(steps_to_halve(gain)))
    drifts = closed(gain, n + 1).drifts
    assert drifts[n] / drifts[0] == pytest.approx(0.5, rel=0.03)
    assert drifts[n // 2] / drifts[0] > 0.65


def test_a_gain_of_zero_is_the_identity():
    loop = closed(0.0, 3)
    assert not loop.offsets.any()
    assert len(set(loop.drifts)) == 1


def test_the_loop_stops_when_a_round_hardly_helps_and_keeps_the_best():
    loop = OffsetLoop(3, 0.7)
    for size in (1.0, 0.3, 0.29):
        assert not loop.done
        best = loop.offsets.clone()
        loop.update(size * ONE, ONE)
    assert loop.done
    assert torch.equal(loop.best, best)
    worse = OffsetLoop(3, 0.7)
    worse.update(ONE, ONE)
    worse.update(5 * ONE, ONE)
    assert worse.done
    assert not worse.best.any()


def test_the_loop_ends_without_drift_and_after_its_rounds():
    still = OffsetLoop(3)
    still.update(0 * ONE, ONE)
    assert still.done
    falling = OffsetLoop(3)
    for i in range(MAX_ROUNDS):
        assert not falling.done
        falling.update(0.5**i * ONE, ONE)
    assert falling.done


def test_drift_is_in_standard_deviations_of_its_channel():
    loop = OffsetLoop(3)
    loop.update(torch.tensor([1.0, 20.0, 0.3], dtype=torch.float64), torch.tensor([1.0, 20.0, 0.3]).double())
    assert loop.drifts == [pytest.approx(1.0)]
    constant = OffsetLoop(2)
    constant.update(torch.tensor([1.0, 1.0]).double(), torch.tensor([0.0, 2.0]).double())
    assert constant.drifts == [pytest.approx((0.5 * (1.0 + 0.25)) ** 0.5)]


@pytest.mark.parametrize("gain", [-0.1, 2.0, float("nan")])
def test_wrong_gains_raise(gain):
    with pytest.raises(ValueError, match="gain: got"):
        OffsetLoop(3, gain)


def test_wrong_sizes_raise():
    with pytest.raises(ValueError, match="max_rounds: got 0"):
        OffsetLoop(3, max_rounds=0)
    with pytest.raises(ValueError, match="drift, sd: got shapes"):
        OffsetLoop(3).update(ONE[:2], ONE)
