"""Cases of the bench: one row of activations times a matrix. Shapes are (n_out, n_in).

Besides the variants that may be chosen, the ones are shown that look right and are not: traps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from kernels.bench.harness import Case, n_copies, rotating
from kernels.decoder.dispatch import ROUNDED_TOLERANCE, case, check_product, offered_cases, variants
from kernels.decoder.linear import GRID_BITS, INT4_GROUPS, Int4Linear
from kernels.native import library

SHAPES = ((4096, 4096), (1536, 576), (49152, 576))
QUICK_SHAPES = ((4096, 4096),)
FORMATS = ("fp32", "bf16", "fp16", "int8", *INT4_GROUPS)
GOALS = {"fp32 native": (0.75, 0.75), "int4 native": (0.85, 0.85), "int4 torch": (0.80, 0.52)}
"""Shares of the read probe in the slow and the fast regime."""
INT8_GOAL = (0.90, 0.90)
ONE_SCALE_TOLERANCE = 0.02
"""What rounding a whole row of activations with one scale may cost."""

T = TypeVar("T")


def cases(quick: bool, device: str) -> Iterator[Case]:
    """Yield the cases; `quick` takes one shape."""
    for shape in QUICK_SHAPES if quick else SHAPES:
        for weight_format in FORMATS:
            for found in offered_cases(weight_format, shape, device):
                yield replace(found, goal_share=_goal(found)) if shape in QUICK_SHAPES else found
    if torch.device(device).type == "cpu":
        yield from _traps(QUICK_SHAPES[0])
    for weight_format in GRID_BITS:
        found = case(variants(weight_format, device)[0], weight_format, (576, 576), device)
        yield replace(found, untimed=f"{weight_format} is for accuracy only: there is no kernel for it")


def _goal(found: Case) -> tuple[float, float] | None:
    if found.dtype == "int8":  # held by the fastest variant
        return INT8_GOAL if found.variant == "native" or not library.available() else None
    return GOALS.get(f"{found.dtype.partition('_')[0]} {found.variant.partition(' ')[0]}")


def _traps(shape: tuple[int, int]) -> Iterator[Case]:
    n_out, n_in = shape
    generator = torch.Generator().manual_seed(0)
    q = torch.randint(-127, 128, shape, generator=generator, dtype=torch.int8)
    scale = torch.full((n_out,), 1 / 128)
    x = torch.randn(1, n_in, generator=generator)
    weight = q.float() * scale[:, None]
    int8, bf16 = _copies(q), _copies(weight.bfloat16())

    def trap(
        variant: str,
        dtype: str,
        copies: Sequence[T],
        call: Callable[[T], Tensor],
        tolerance: float = ROUNDED_TOLERANCE,
        weight: Tensor = weight,
    ) -> Case:
        def check() -> None:
            check_product(call(copies[0]), x, weight, tolerance)

        byte = n_out * n_in * {"bf16": 2, "int8": 1, "int4": 0.625}[dtype]
        return Case(f"linear {dtype}", variant, shape, dtype, byte, rotating(copies, call), check, trap=True)

    yield trap("torch mv", "bf16", bf16, lambda w: torch.mv(w, x[0].bfloat16())[None])
    yield trap("torch _weight_int8pack_mm, fp32 x", "int8", int8, lambda w: torch._weight_int8pack_mm(x, w, scale))
    yield trap("torch dequantise, mv", "int8", int8, lambda w: torch.mv(w.float().mul_(scale[:, None]), x[0])[None])
    yield trap("torch _int_mm, one scale for x", "int8", int8, lambda w: _int_mm(x, w, scale), ONE_SCALE_TOLERANCE)
    yield trap("torch dynamic, one scale for x", "int8", _dynamic(weight), lambda m: m(x), ONE_SCALE_TOLERANCE)
    int4 = Int4Linear(weight)
    exact, scale_and_offset = int4.dequantised(), int4._scale_and_offset.float()
    if exact is not None:
        call = torch._weight_int4pack_mm_for_cpu
        copies = _copies(int4._packed)
        yield trap(
            "torch _weight_int4pack_mm, fp32 x",
            "int4",
            copies,
            lambda packed: call(x, packed, INT4_GROUPS["int4"], scale_and_offset),
            weight=exact,
        )


def _copies(tensor: Tensor) -> list[Tensor]:
    return [tensor.clone() for _ in range(n_copies(tensor.nbytes))]


def _int_mm(x: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    x_scale = x.abs().amax() / 127
    return torch._int_mm((x / x_scale).round_().to(torch.int8), q.T).float() * (scale * x_scale)


def _dynamic(weight: Tensor) -> list[torch.nn.Module]:
    """Make layers of torch's dynamic quantisation; seven bits, since the 16-bit sums of AVX2 saturate with eight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao.quantization is to go, and has no successor as fast
        dense = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        dense.weight = torch.nn.Parameter(weight)
        module = torch.nn.Sequential(dense)
        quantise = torch.ao.quantization.quantize_dynamic
        n = n_copies(weight.numel())
        return [quantise(module, dtype=torch.qint8) for _ in range(n)]
