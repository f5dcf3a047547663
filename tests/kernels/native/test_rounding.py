"""Rounding with error feedback: never worse than plain rounding in what it minimises, equal where nothing is won."""

import pytest
import torch

from kernels.decoder.dispatch import pack
from kernels.native.rounding import Grid, nearest, output_error, with_feedback


def layer(n_out=24, n_in=96, seed=0, correlated=0.9):
    """Random weights, and the second moment of inputs that resemble each other."""
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(n_out, n_in, generator=g)
    common = torch.randn(400, 4, generator=g) @ torch.randn(4, n_in, generator=g)
    x = correlated * common + (1 - correlated) * torch.randn(400, n_in, generator=g)
    return weight, x.T @ x / len(x), x


def grid_of(weight, bits=3, group=32):
    low, high = weight.view(len(weight), -1, group).aminmax(dim=-1)
    return Grid((high - low) / (2**bits - 1), low, group, 0, 2**bits - 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("correlated", [0.0, 0.5, 1.0])
def test_feedback_is_never_worse_than_plain_rounding_in_any_row(seed, bits, correlated):
    weight, moment, _ = layer(seed=seed, correlated=correlated)
    grid = grid_of(weight, bits)
    plain, fed = (grid.values(way(weight, grid)) for way in (nearest, with_feedback(moment)))
    assert (output_error(weight, fed, moment) <= output_error(weight, plain, moment)).all()


def test_feedback_lowers_the_error_of_outputs_where_inputs_resemble_each_other():
    weight, moment, x = layer()
    grid = grid_of(weight)
    errors = [
        float((x @ (weight - grid.values(way(weight, grid))).T).square().mean())
        for way in (nearest, with_feedback(moment))
    ]
    assert errors[1] < 0.3 * errors[0]


def test_the_error_is_the_mean_square_of_the_change_of_outputs():
    weight, moment, x = layer()
    rounded = weight + 0.1 * torch.randn(weight.shape)
    found = output_error(weight, rounded, moment)
    assert torch.allclose(found, (x @ (weight - rounded).T).square().mean(0), rtol=1e-3)


def test_independent_inputs_leave_nothing_to_feed_back():
    weight, _, _ = layer()
    grid = grid_of(weight)
    assert torch.equal(with_feedback(torch.eye(96))(weight, grid), nearest(weight, grid))


def test_weights_on_the_grid_stay():
    weight, moment, _ = layer()
    grid = grid_of(weight)
    on_grid = grid.values(nearest(weight, grid))
    for way in (nearest, with_feedback(moment)):
        assert torch.allclose(grid.values(way(on_grid, grid)), on_grid, atol=1e-6)


def test_values_stay_between_first_and_last():
    weight, moment, _ = layer()
    for way in (nearest, with_feedback(moment)):
        q = way(3 * weight, grid_of(weight))
        assert (q.min(), q.max()) == (0, 7)
        assert torch.equal(q, q.round())


def test_a_last_group_may_be_shorter():
    grid = Grid(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0]]), 64, 0, 15)
    scale, low = grid.by_input(96)
    assert scale[0].tolist() == [1.0] * 64 + [2.0] * 32
    assert low[0].tolist() == [0.0] * 64 + [1.0] * 32


@pytest.mark.parametrize("moment", [torch.zeros(96, 96), torch.ones(96, 96)])
def test_inputs_that_never_vary_are_no_trouble(moment):
    weight, _, _ = layer()
    assert with_feedback(moment)(weight, grid_of(weight)).isfinite().all()


@pytest.mark.parametrize("weight_format", ["int8", "int4", "int4_g64", "int4_g128", "int3", "int2"])
@pytest.mark.parametrize("with_native", [True, False])
def test_every_format_that_rounds_can_feed_back(weight_format, with_native):
    weight, moment, _ = layer(32, 128)
    plain, fed = (
        pack(weight, weight_format, with_native, way).dequantised() for way in (nearest, with_feedback(moment))
    )
    assert output_error(weight, fed, moment).sum() < output_error(weight, plain, moment).sum()


def test_a_moment_of_another_size_raises():
    weight, _, _ = layer()
    with pytest.raises(ValueError, match="moment: got"):
        with_feedback(torch.eye(64))(weight, grid_of(weight))
