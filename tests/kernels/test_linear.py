import pytest
import torch

from kernels.linear import FORMATS, INT4_GROUP, PREFILL_ROWS, Int4Linear, apply_rows, pack

# relative to a float64 product with the dequantised weights: what rounding of activations and results may cost
TOLERANCE = {"fp32": 1e-6, "fp16": 1e-3, "bf16": 6e-3, "int8": 6e-3, "int4": 6e-3}
# relative error of the weights themselves (normally distributed)
WEIGHT_ERROR = {"fp32": 0, "fp16": 5e-4, "bf16": 3e-3, "int8": 0.012, "int4": 0.1}


@pytest.fixture(scope="module")
def weight():
    return torch.randn(96, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def x():
    return torch.randn(40, 64, generator=torch.Generator().manual_seed(1))


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
    assert torch.equal(apply_rows(linear, torch.zeros(2, 64)), torch.zeros(2, 96))


@pytest.mark.parametrize("weight_format", FORMATS)
def test_a_row_and_a_group_of_zeros_stay_zero(weight, weight_format):
    weight = weight.clone()
    weight[5] = 0
    weight[7, :INT4_GROUP] = 0
    dequantised = pack(weight, weight_format).dequantised()
    assert torch.equal(dequantised[5], torch.zeros(64))
    assert torch.equal(dequantised[7, :INT4_GROUP], torch.zeros(INT4_GROUP))


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
    weight = torch.ones(96, 64)
    byte = {f: pack(weight, f).byte for f in FORMATS}
    assert byte == {
        "fp32": 96 * 64 * 4,
        "bf16": 96 * 64 * 2,
        "fp16": 96 * 64 * 2,
        "int8": 96 * 64 + 96 * 2,
        "int4": 96 * 64 // 2 + 96 * (64 // 32) * 4,
    }


def test_a_group_that_does_not_divide_the_inputs_raises(weight):
    with pytest.raises(ValueError, match="group: got 48, expected a divisor of the 64 inputs"):
        Int4Linear(weight, group=48)


@pytest.mark.parametrize(("shape", "weight_format"), [((96, 40), "int8"), ((90, 64), "int4")])
def test_shapes_that_the_kernels_compute_wrongly_raise(shape, weight_format):
    with pytest.raises(ValueError, match="weight: got"):
        pack(torch.ones(shape), weight_format)


def test_unknown_format_raises(weight):
    with pytest.raises(ValueError, match="weights: got 'int5', expected one of fp32, bf16"):
        pack(weight, "int5")
