"""The products of the C library against float64, and the blocks of a GGUF file against that format's own reader."""

import gguf
import numpy as np
import pytest
import torch

from kernels.bench.harness import duplicate
from kernels.decoder.linear import PREFILL_ROWS, apply_rows
from kernels.native import library
from kernels.native.linear import GROUPS, float_linear, from_blocks, int4_linear, int8_linear

SHAPES = [(96, 64), (101, 96), (7, 576), (33, 1536)]
MAKERS = {
    "fp32": lambda w, b=None: float_linear(w, "fp32", b),
    "bf16": lambda w, b=None: float_linear(w, "bf16", b),
    "fp16": lambda w, b=None: float_linear(w, "fp16", b),
    "int8": int8_linear,
    "int4": lambda w, b=None: int4_linear(w, 32, b),
    "int4_g64": lambda w, b=None: int4_linear(w, 64, b),
    "int4_g128": lambda w, b=None: int4_linear(w, 128, b),
}
WEIGHT_ERROR = {
    "fp32": 0, "fp16": 5e-4, "bf16": 3e-3, "int8": 0.012, "int4": 0.1, "int4_g64": 0.11, "int4_g128": 0.12
}  # fmt: skip
# what fp32 sums may lose; the rounding of the activations is part of the reference
TOLERANCE = 1e-6


@pytest.fixture(autouse=True)
def built():
    assert library.available(), library.status().absent  # a compiler is part of the tests' machine


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight_format", MAKERS)
def test_product_equals_float64_with_the_weights_held(weight_format, shape):
    bias = normal(shape[0], seed=2)
    linear, x = MAKERS[weight_format](normal(*shape), bias), normal(3, shape[1], seed=1)
    exact = linear.rounded(x).double() @ linear.dequantised().double().T + bias
    assert relative(linear(x), exact) < TOLERANCE


@pytest.mark.parametrize("weight_format", MAKERS)
def test_weights_held_are_close_to_the_given_ones(weight_format):
    weight = normal(64, 576)
    assert relative(MAKERS[weight_format](weight).dequantised(), weight) <= WEIGHT_ERROR[weight_format]


@pytest.mark.parametrize("weight_format", ["int8", "int4", "int4_g64", "int4_g128"])
def test_activations_are_rounded_to_eight_bits_of_their_group(weight_format):
    linear, x = MAKERS[weight_format](normal(8, 576)), normal(4, 576, seed=1)
    x[:, ::64] *= 20  # an outlier in each group of 64
    rounded = linear.rounded(x)
    group = linear.group or 32
    padded = torch.nn.functional.pad(x, (0, -576 % group)).view(4, -1, group)
    step = (padded.abs().amax(-1, keepdim=True) / 127).expand_as(padded).reshape(4, -1)[:, :576]
    assert ((rounded - x).abs() <= step / 2 * (1 + 1e-5)).all()


@pytest.mark.parametrize("weight_format", MAKERS)
def test_linear_in_the_scale_of_activations_and_weights(weight_format):
    weight, x = normal(40, 96), normal(1, 96, seed=1)
    y = MAKERS[weight_format](weight)(x)
    assert torch.equal(MAKERS[weight_format](weight)(4 * x), 4 * y)  # powers of two round alike
    assert relative(MAKERS[weight_format](weight * 8)(x), 8 * y) < 1e-6
    assert torch.equal(MAKERS[weight_format](weight)(torch.zeros(1, 96)), torch.zeros(1, 40))


@pytest.mark.parametrize("weight_format", MAKERS)
def test_a_row_and_a_group_of_zeros_stay_zero(weight_format):
    weight = normal(8, 256)
    weight[5] = 0
    weight[6, :128] = 0
    held = MAKERS[weight_format](weight).dequantised()
    assert torch.equal(held[5], torch.zeros(256))
    assert torch.equal(held[6, :128], torch.zeros(128))


@pytest.mark.parametrize("weight_format", MAKERS)
def test_rows_are_the_dequantised_rows(weight_format):
    linear = MAKERS[weight_format](normal(20, 96))
    index = torch.tensor([3, 0, 19])
    assert torch.equal(linear.rows(index), linear.dequantised()[index])
    for i in index:
        assert torch.equal(linear.rows(i[None]), linear.dequantised()[i[None]])


@pytest.mark.parametrize("weight_format", MAKERS)
def test_one_thread_gives_what_several_give(weight_format):
    linear, x = MAKERS[weight_format](normal(37, 160)), normal(1, 160, seed=1)
    several = linear(x)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(linear(x), several)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("weight_format", MAKERS)
def test_many_rows_equal_the_same_rows_one_by_one(weight_format):
    linear, x = MAKERS[weight_format](normal(24, 96)), normal(PREFILL_ROWS + 3, 96, seed=1)
    assert relative(apply_rows(linear, x), torch.cat([linear(row[None]) for row in x])) < TOLERANCE


@pytest.mark.parametrize("weight_format", MAKERS)
def test_a_copy_computes_the_same_from_other_memory(weight_format):
    linear, x = MAKERS[weight_format](normal(24, 96)), normal(1, 96, seed=1)
    copy = duplicate(linear)
    assert copy.struct.weight != linear.struct.weight
    assert torch.equal(copy(x), linear(x))


def test_int4_reproduces_weights_on_its_grid_and_the_largest_products_do_not_overflow():
    weight = torch.full((4, 128), 15.0)
    weight[:, ::2] = 0
    linear = int4_linear(weight, 128)
    assert torch.equal(linear.dequantised(), weight)
    x = torch.full((1, 128), 127.0)
    assert linear(x).tolist() == [[15 * 127 * 64] * 4]
    assert linear(-x).tolist() == [[-15 * 127 * 64] * 4]
    all_high = int4_linear(torch.cat([torch.full((4, 127), 15.0), torch.zeros(4, 1)], 1), 128)
    assert all_high(x).tolist() == [[15 * 127 * 127] * 4]


def test_int8_extremes_do_not_overflow():
    linear = int8_linear(torch.tensor([[127.0, -127.0] * 32]))
    x = torch.tensor([[127.0, -127.0] * 32])
    assert linear(x).item() == 127 * 127 * 64
    assert linear(-x).item() == -127 * 127 * 64


def test_tiny_and_huge_activations_keep_their_accuracy():
    for weight_format, maker in MAKERS.items():
        linear = maker(normal(16, 64))
        for factor in (1e-15, 1e15):
            x = normal(1, 64, seed=1) * factor
            exact = linear.rounded(x).double() @ linear.dequantised().double().T
            assert relative(linear(x), exact) < TOLERANCE, (weight_format, factor)


@pytest.mark.parametrize("block_format", ["Q4_0", "Q4_1", "Q8_0"])
@pytest.mark.parametrize("n_in", [64, 96, 576])
def test_blocks_of_a_file_are_taken_without_loss(block_format, n_in):
    weight = normal(24, n_in).numpy()
    kind = gguf.GGMLQuantizationType[block_format]
    blocks = gguf.quantize(weight, kind)
    linear, x = from_blocks(blocks, block_format), normal(2, n_in, seed=1)
    assert np.array_equal(linear.dequantised().numpy(), gguf.dequantize(blocks, kind))
    exact = linear.rounded(x).double() @ linear.dequantised().double().T
    assert relative(linear(x), exact) < TOLERANCE
    assert torch.equal(linear.rows(torch.tensor([5])), linear.dequantised()[5:6])


def test_negative_scales_of_blocks_are_kept():
    blocks = gguf.quantize(-normal(8, 64).abs().numpy() - 1, gguf.GGMLQuantizationType.Q4_0)
    assert (blocks.view(np.float16).reshape(8, 2, 9)[..., 0] > 0).all()  # Q4_0: the sign of the largest value, over -8
    positive = gguf.quantize(normal(8, 64).abs().numpy() + 1, gguf.GGMLQuantizationType.Q4_0)
    linear = from_blocks(positive, "Q4_0")
    assert (linear.dequantised() > 0).all()
    x = normal(1, 64, seed=1)
    assert relative(linear(x), linear.rounded(x).double() @ linear.dequantised().double().T) < TOLERANCE


def test_bytes_held():
    weight = torch.ones(32, 128)
    byte = {name: maker(weight).byte for name, maker in MAKERS.items()}
    n = 32 * 128
    assert byte == {
        "fp32": n * 4,
        "bf16": n * 2,
        "fp16": n * 2,
        "int8": n + 32 * 4,
        "int4": n // 2 + n // 32 * 4,
        "int4_g64": n // 2 + n // 64 * 4,
        "int4_g128": n // 2 + n // 128 * 4,
    }
    assert int8_linear(weight[:10]).byte == (n + 32 * 4) // 2  # rows are held in blocks of 16


def test_what_the_kernels_do_not_serve_raises():
    with pytest.raises(ValueError, match="weight: got 40 inputs, expected a multiple of 32"):
        int8_linear(torch.ones(4, 40))
    with pytest.raises(ValueError, match="weight: got 36 inputs, expected a multiple of 8"):
        float_linear(torch.ones(4, 36), "fp32")
    with pytest.raises(ValueError, match="group: got 48, expected one of 32, 64, 128"):
        int4_linear(torch.ones(4, 96), 48)
    assert set(GROUPS) == {32, 64, 128}
