"""Cases of the bench: the tokens of a prompt. Causal attention: shapes are (n_heads, n_kv_heads, head_dim, n_new,
n_keys). Products: (n_rows, n_out, n_in).

Both are bound by arithmetic, so no share of the bandwidth is asked for. The variants of the attention are there to be
compared; the products, unpacking and rounding included, are held against torch's own in fp32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from kernels.attention.prefill import cases as variants
from kernels.bench.harness import Case
from kernels.decoder.dispatch import ROUNDED_TOLERANCE, check_product, pack
from kernels.decoder.linear import apply_rows
from kernels.native.linear import NativeLinear

QUICK_SHAPES = ((9, 3, 64, 512, 1024),)
SHAPES = (*QUICK_SHAPES, (32, 8, 128, 256, 1024), (16, 16, 64, 1024, 1024))
QUICK_PRODUCTS = ((512, 3072, 576),)
PRODUCTS = (*QUICK_PRODUCTS, (512, 4096, 4096))
PRODUCT_GOAL = 0.8
"""Time of torch's product of fp32 matrices over that of ours."""


def cases(quick: bool, device: str) -> Iterator[Case]:
    """Yield the cases; `quick` takes one shape of each."""
    for heads in QUICK_SHAPES if quick else SHAPES:
        yield from variants(heads, torch.float32, device)
    for shape in QUICK_PRODUCTS if quick else PRODUCTS:
        for weight_format in ("int8", "int4") if quick else ("bf16", "int8", "int4", "int4_g128"):
            yield _product(shape, weight_format, device)


def _product(shape: tuple[int, int, int], weight_format: str, device: str) -> Case:
    n_rows, n_out, n_in = shape
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(n_out, n_in, generator=generator).to(device)
    x = torch.randn(n_rows, n_in, generator=generator).to(device)
    linear = pack(weight, weight_format)
    run = functools.partial(apply_rows, linear, x)

    def check() -> None:
        exact = linear.dequantised()
        if exact is not None:
            check_product(run(), x, exact, ROUNDED_TOLERANCE)

    byte = float(linear.byte + x.nbytes + 4 * n_rows * n_out)
    dense = functools.partial(F.linear, x, weight)
    name = f"product of a prompt, {weight_format}"
    variant = "native, then torch mm" if isinstance(linear, NativeLinear) else "torch"
    return Case(name, variant, shape, weight_format, byte, run, check, baseline=dense, goal_speedup=PRODUCT_GOAL)
