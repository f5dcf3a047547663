"""Kernel dispatch of linear layers: torch's or the C library's, by measurement on this machine.

A format gives the same numbers on every run of a machine, since what was chosen is remembered
(`kernels.decoder.autotune`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.bench.harness import Case, duplicate, n_copies, rotating
from kernels.decoder import autotune
from kernels.decoder.linear import (
    FORMATS,
    GRID_BITS,
    INT4_GROUPS,
    FloatLinear,
    Int4Linear,
    Int8Linear,
    Linear,
    on_grid,
)
from kernels.native import library
from kernels.native.library import FLOAT_TYPES
from kernels.native.linear import NativeLinear, float_linear, int4_linear, int8_linear
from kernels.native.rounding import Rounding, nearest

ROUNDED_TOLERANCE = 8e-3
TOLERANCE = {"fp32": 2e-6, "fp16": 2e-3}
"""Relative to a float64 product with the dequantised weights: what rounding of activations and results may cost;
`ROUNDED_TOLERANCE` where a format is not listed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to hold the weights of a format: its name, and what makes a layer of fp32 weights [n_out, n_in]."""

    name: str
    make: Callable[..., Linear]  # and a `Rounding`, which formats without rounding to a grid ignore


def variants(weight_format: str, device: str = "cpu", with_native: bool = True) -> list[Variant]:
    """List the variants that may serve a format, the one that was fastest where the project measured first."""
    if weight_format not in FORMATS:
        raise ValueError(f"weights: got {weight_format!r}, expected one of {', '.join(FORMATS)}")
    on_cpu = torch.device(device).type == "cpu"
    has_native = with_native and on_cpu and library.available()
    ours = (
        [Variant("native", lambda w, rounding=nearest: native(w, weight_format, None, rounding))] if has_native else []
    )
    if weight_format in GRID_BITS:
        bits = GRID_BITS[weight_format]
        return [Variant("torch", lambda w, rounding=nearest: FloatLinear(on_grid(w, bits, rounding), in_blocks=on_cpu))]
    if weight_format == "int8":
        return [*ours, Variant("torch _weight_int8pack_mm", Int8Linear)]
    if weight_format in INT4_GROUPS:
        group = INT4_GROUPS[weight_format]
        by_torch = Variant("torch _weight_int4pack_mm", lambda w, rounding=nearest: Int4Linear(w, group, rounding))
        return [*ours, by_torch]
    plain = Variant("torch linear", lambda w, _=nearest: FloatLinear(w, FLOAT_TYPES[weight_format]))
    if weight_format == "fp32" and on_cpu:
        return [*ours, Variant("torch bmm of row blocks", lambda w, _=nearest: FloatLinear(w, in_blocks=True)), plain]
    return [*ours, plain]


def native(
    weight: Tensor, weight_format: str, bias: Tensor | None = None, rounding: Rounding = nearest
) -> NativeLinear:
    """Hold fp32 weights [n_out, n_in] for the C library; ValueError where it has no code for their shape or format."""
    if weight_format in INT4_GROUPS:
        return int4_linear(weight, INT4_GROUPS[weight_format], bias, rounding)
    if weight_format == "int8":
        return int8_linear(weight, bias, rounding)
    if weight_format in FLOAT_TYPES:
        return float_linear(weight, weight_format, bias)
    if weight_format in GRID_BITS:
        return float_linear(on_grid(weight, GRID_BITS[weight_format], rounding), "fp32", bias)
    raise ValueError(f"weights: got {weight_format!r}, expected a format that the C library has")


def pack(weight: Tensor, weight_format: str, with_native: bool = True, rounding: Rounding = nearest) -> Linear:
    """Hold a weight matrix in a format, for the variant that is fastest for its shape here.

    Parameters
    ----------
    weight : Tensor
        fp32 [n_out, n_in].
    weight_format : str
        One of `kernels.decoder.linear.FORMATS`.
    with_native : bool
        Whether the C library is among the choices.
    rounding : Rounding
        How weights are rounded to the format's grid.

    Raises
    ------
    ValueError
        When no variant serves this shape in this format.
    """
    shape = (weight.shape[0], weight.shape[1])
    return chosen_variant(weight_format, shape, weight.device.type, with_native).make(weight, rounding)


def chosen_variant(
    weight_format: str, shape: tuple[int, int], device: str = "cpu", with_native: bool = True
) -> Variant:
    """Return the variant that `pack` takes for weights [n_out, n_in]; the first time on a machine it is measured."""
    return _chosen(weight_format, shape, torch.device(device).type, with_native, torch.get_num_threads())


@functools.cache
def _chosen(weight_format: str, shape: tuple[int, int], device: str, with_native: bool, _n_threads: int) -> Variant:
    offered = {variant.name: variant for variant in variants(weight_format, device, with_native)}
    serving = [v for v in offered.values() if not _refusal(v, shape, device)] or list(offered.values())[:1]
    if len(serving) == 1:
        return serving[0]
    cases = (case(variant, weight_format, shape, device) for variant in serving)
    kernel = "linear" if with_native else "linear by torch"
    return offered[autotune.choose(kernel, weight_format, shape, [v.name for v in serving], cases)]


def _refusal(variant: Variant, shape: tuple[int, int], device: str) -> str:
    """Return the reason that a variant does not serve a shape, tried on 32 rows of it, or ""."""
    try:
        variant.make(torch.ones(shape[0] % 32 or 32, shape[1], device=device))
    except ValueError as error:
        return str(error)
    return ""


def case(variant: Variant, weight_format: str, shape: tuple[int, int], device: str) -> Case:
    """Make the case of the bench that times a variant: one row times weights [n_out, n_in] that are in no cache."""
    n_out, n_in = shape
    generator = torch.Generator().manual_seed(0)
    linear = variant.make(torch.randn(n_out, n_in, generator=generator).to(device))
    x = torch.randn(1, n_in, generator=generator).to(device, linear.activation_dtype)
    copies = [linear, *(duplicate(linear) for _ in range(n_copies(linear.byte, device) - 1))]

    def check() -> None:
        weight = linear.dequantised()
        if weight is not None:
            check_product(linear(x), x, weight, TOLERANCE.get(weight_format, ROUNDED_TOLERANCE))

    return Case(
        f"linear {weight_format}",
        variant.name,
        (n_out, n_in),
        weight_format,
        linear.byte,
        rotating(copies, lambda layer: layer(x)),
        check,
    )


def check_product(y: Tensor, x: Tensor, weight: Tensor, tolerance: float) -> None:
    """Compare y with a float64 product; ValueError when its relative error is above the tolerance."""
    exact = x.double() @ weight.double().T
    error = float((y.double() - exact).norm() / exact.norm())
    if not error <= tolerance:
        raise ValueError(f"relative error {error:.2g}, expected at most {tolerance:.2g}")


def offered_cases(weight_format: str, shape: tuple[int, int], device: str) -> Iterator[Case]:
    """Make a case for each variant that serves a shape."""
    for variant in variants(weight_format, device):
        if not _refusal(variant, shape, device):
            yield case(variant, weight_format, shape, device)
