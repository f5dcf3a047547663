import pytest
import torch

from kernels.decoder.dispatch import pack as pack_for
from kernels.decoder.linear import (
    FORMATS,
    GRID_BITS,
    INT4_GROUPS,
    PREFILL_ROWS,
    Int4Linear,
    _inner_tiles,
    apply_rows,
    on_grid,
)

# relative to a float64 product with the dequantised weights: what rounding of activations and results may cost
TOLERANCE = {
    "fp32": 1e-6, "fp16": 1e-3, "bf16": 6e-3, "int8": 6e-3,
    "int4": 6e-3, "int4_g64": 6e-3, "int4_g128": 6e-3, "int3": 1e-6, "int2": 1e-6,
}  # fmt: skip
# relative error of the weights themselves (normally distributed)
WEIGHT_ERROR = {
    "fp32": 0, "fp16": 5e-4, "bf16": 3e-3, "int8": 0.012,
    "int4": 0.1, "int4_g64": 0.11, "int4_g128": 0.12, "int3": 0.2, "int2": 0.42,
}  # fmt: skip


def pack(weight, weight_format):
    """torch's own kernels, which serve where there is no C library."""
    return pack_for(weight, weight_format, with_native=False)


@pytest.fixture(scope="module")
def weight():
    return torch.randn(96, 128, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def x():
    return torch.randn(40, 128, generator=torch.Generator().manual_seed(1))


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("n_rows", [1, 3, PREFILL_ROWS - 1])
@pytest.mark.parametrize("weight_format", FORMATS)
def test_product_equals_float64_with_the_dequantised_weights(weight, x, weight_format, n_rows):
    linear = pack(weight, weight_format)
    exact = x[:n_rows].double() @ linear.dequantised().double().T
    assert relative(linear(x[:n_rows].to(linear.activation_dtype)), exact) < TOLERANCE[weight_format]


@pytest.mark.parametrize("weight_format", FORMATS)
def test_dequantised_weights_are_close_to_the_given_ones(weight, weight_format):
    assert relative(pack(weight, weight_format).dequantised(), weight) <= WEIGHT_ERROR[weight_format]


@pytest.mark.parametrize("weight_format", FORMATS)
def test_many_rows_equal_the_same_rows_one_by_one(weight, x, weight_format):
    linear = pack(weight, weight_format)
    one_by_one = torch.cat([linear(row[None].to(linear.activation_dtype)).float() for row in x])
    assert relative(apply_rows(linear, x), one_by_one) < 2 * TOLERANCE[weight_format]


@pytest.mark.parametrize("weight_format", FORMATS)
def test_linear_in_x_and_in_the_scale_of_the_weights(weight, x, weight_format):
    linear = pack(weight, weight_format)
    y = apply_rows(linear, x)
    assert relative(apply_rows(linear, 4 * x), 4 * y) < 1e-6  # powers of two round alike
    assert relative(apply_rows(pack(weight * 8, weight_format), x), 8 * y) < 1e-6
    assert torch.equal(apply_rows(linear, torch.zeros(2, 128)), torch.zeros(2, 96))


@pytest.mark.parametrize("weight_format", FORMATS)
def test_a_row_and_a_group_of_zeros_stay_zero(weight, weight_format):
    weight = weight.clone()
    weight[5] = 0
    weight[7] = 1
    weight[7, :32] = 0
    dequantised = pack(weight, weight_format).dequantised()
    assert torch.equal(dequantised[5], torch.zeros(128))
    assert torch.equal(dequantised[7, :32], torch.zeros(32))


def test_int4_reproduces_weights_that_lie_on_a_four_bit_grid():
    q = torch.arange(16).repeat(96, 4).float()  # each group of 32 spans its whole range
    scale = 2.0 ** -(torch.arange(96) % 5).float()[:, None]
    weight = scale * (q - 8)
    assert torch.equal(pack(weight, "int4").dequantised(), weight)


@pytest.mark.parametrize("weight_format", ["fp32", "bf16", "fp16", "int8"])
def test_rows_are_the_dequantised_rows(weight, weight_format):
    linear = pack(weight, weight_format)
    index = torch.tensor([3, 0, 95])
    assert torch.equal(linear.rows(index), linear.dequantised()[index])


def test_bytes_held():
    weight = torch.ones(96, 128)
    n = weight.numel()
    byte = {f: pack(weight, f).byte for f in FORMATS}
    assert byte == {
        "fp32": n * 4,
        "bf16": n * 2,
        "fp16": n * 2,
        "int8": n + 96 * 2,
        "int4": n // 2 + n // 32 * 4,
        "int4_g64": n // 2 + n // 64 * 4,
        "int4_g128": n // 2 + n // 128 * 4,
        "int3": n * 4,  # held in fp32: there is no kernel for them
        "int2": n * 4,
    }


def test_a_group_that_does_not_divide_the_inputs_raises(weight):
    with pytest.raises(ValueError, match="group: got 48, expected a divisor of the 128 inputs"):
        Int4Linear(weight, group=48)


@pytest.mark.parametrize(("shape", "weight_format"), [((96, 40), "int8"), ((90, 64), "int4")])
def test_shapes_that_the_kernels_compute_wrongly_raise(shape, weight_format):
    with pytest.raises(ValueError, match="weight: got"):
        pack(torch.ones(shape), weight_format)


def test_unknown_format_raises(weight):
    with pytest.raises(ValueError, match="weights: got 'int5', expected one of fp32, bf16"):
        pack(weight, "int5")


@pytest.mark.parametrize("bits", GRID_BITS.values())
def test_a_group_takes_no_more_values_than_its_bits_allow(weight, bits):
    rounded = on_grid(weight, bits).view(96, -1, 32)
    assert max(len(group.unique()) for row in rounded for group in row) <= 2**bits
    assert torch.equal(rounded.aminmax(dim=-1).min, weight.view(96, -1, 32).aminmax(dim=-1).min)
    step = (weight.view(96, -1, 32).amax(-1) - weight.view(96, -1, 32).amin(-1)) / (2**bits - 1)
    assert ((rounded - weight.view(96, -1, 32)).abs() <= step[..., None] / 2 * (1 + 1e-4)).all()


def test_coarser_weights_are_farther_from_the_given_ones(weight):
    errors = [relative(pack(weight, f).dequantised(), weight) for f in FORMATS if f not in ("bf16", "fp16")]
    assert errors == sorted(errors)


@pytest.mark.parametrize(("n_in", "n"), [(512, 8), (576, 4), (96, 2), (160, 2)])
def test_cuda_packs_int4_in_tiles_that_divide_the_inputs(n_in, n):
    assert _inner_tiles(n_in) == n
    assert n_in % (16 * n) == 0


def test_the_groups_are_in_the_names():
    assert INT4_GROUPS == {"int4": 32, "int4_g64": 64, "int4_g128": 128}
