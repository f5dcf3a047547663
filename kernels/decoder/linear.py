"""Linear layers without bias, y = W x, with weights held in fp32, bf16, fp16, int8 or int4, by torch's own kernels.

- int8: one scale per output row, ``_weight_int8pack_mm`` with bf16 activations. With fp32 activations torch takes a
  reference path that is many times slower, so the activations of this format are always bf16.
- int4: groups of 32, 64 or 128 along the inputs with scale and offset, ``_weight_int4pack_mm_for_cpu`` or, on CUDA,
  ``_weight_int4pack_mm``, with bf16 activations, for the same reason.
- int3, int2: for accuracy only. The weights are rounded to a grid of 8 or 4 values in groups of 32 and held in fp32.

Scale and offset are rounded to bf16 before the weights are quantised against them, so that no second rounding follows.
Which kernel serves a layer, these or the C library's, is chosen in `kernels.decoder.dispatch`.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.native.linear import NativeLinear
from kernels.native.rounding import Grid, Rounding, nearest

INT4_GROUPS = {"int4": 32, "int4_g64": 64, "int4_g128": 128}
GRID_BITS = {"int3": 3, "int2": 2}
"""Formats for accuracy only: there is no kernel for them, so their speed is not known."""
FORMATS = ("fp32", "bf16", "fp16", "int8", *INT4_GROUPS, *GRID_BITS)
PREFILL_ROWS = 16
"""From this many rows on, multiplying dequantised weights is faster than the packed kernels."""
_GRID_GROUP = 32
_BLOCK_BYTE = 8 << 20


class FloatLinear:
    """Weights [n_out, n_in] in fp32, bf16 or fp16, multiplied in that type.

    Parameters
    ----------
    weight : Tensor
        fp32 [n_out, n_in].
    dtype : torch.dtype
        The type.
    in_blocks : bool
        Multiply one row as a batch of row blocks, which runs on all threads where the plain product runs on one.
    """

    def __init__(self, weight: Tensor, dtype: torch.dtype = torch.float32, in_blocks: bool = False) -> None:
        self.activation_dtype = dtype
        self._weight = weight.to(dtype).contiguous()
        n_out, n_in = weight.shape
        n_blocks = math.gcd(n_out, 1 << max(3, (torch.get_num_threads() - 1).bit_length())) if in_blocks else 1
        self._blocks = self._weight.view(n_blocks, n_out // n_blocks, n_in).transpose(1, 2)

    def __call__(self, x: Tensor) -> Tensor:
        """Map x [n, n_in] in `activation_dtype` to [n, n_out] in the same type."""
        n_blocks = self._blocks.shape[0]
        if len(x) > 1 or n_blocks == 1:
            return F.linear(x, self._weight)
        return torch.bmm(x.expand(n_blocks, 1, -1), self._blocks).view(1, -1)

    def dequantised(self) -> Tensor:
        """Return the weights as fp32 [n_out, n_in]."""
        return self._weight.float()

    def rows(self, index: Tensor) -> Tensor:
        """Return the chosen rows as fp32 [n, n_in] (a tied embedding reads them)."""
        return self._weight[index].float()

    @property
    def byte(self) -> int:
        """Bytes held."""
        return self._weight.nbytes


class Int8Linear:
    """Weights in int8 with one bf16 scale per output row: ``W[i, j] = scale[i] * q[i, j]``."""

    activation_dtype = torch.bfloat16

    def __init__(self, weight: Tensor, rounding: Rounding = nearest) -> None:
        if weight.shape[1] % 16:  # the kernel silently skips the rest
            raise ValueError(f"weight: got {weight.shape[1]} inputs, expected a multiple of 16")
        self._scale = (weight.abs().amax(1) / 127).clamp_(min=1e-30).bfloat16()
        scale = self._scale[:, None].float()
        self._q = rounding(weight, Grid(scale, torch.zeros_like(scale), weight.shape[1], -127, 127)).to(torch.int8)

    def __call__(self, x: Tensor) -> Tensor:
        """Map bf16 x [n, n_in] to bf16 [n, n_out]."""
        return torch._weight_int8pack_mm(x, self._q, self._scale)

    def dequantised(self) -> Tensor:
        """Return the weights as fp32 [n_out, n_in]."""
        return self._q.float().mul_(self._scale[:, None].float())

    def rows(self, index: Tensor) -> Tensor:
        """Return the chosen rows as fp32 [n, n_in] (a tied embedding reads them)."""
        return self._q[index].float() * self._scale[index][:, None].float()

    @property
    def byte(self) -> int:
        """Bytes held."""
        return self._q.nbytes + self._scale.nbytes


class Int4Linear:
    """Weights in 4 bits, groups of `group` inputs: ``W = scale * (q - 8) + offset``, scale and offset bf16."""

    activation_dtype = torch.bfloat16

    def __init__(self, weight: Tensor, group: int = INT4_GROUPS["int4"], rounding: Rounding = nearest) -> None:
        n_out, n_in = weight.shape
        if n_in % group:
            raise ValueError(f"group: got {group}, expected a divisor of the {n_in} inputs")
        if n_out % 32:
            raise ValueError(f"weight: got {n_out} outputs, expected a multiple of 32")
        self._group, self._shape = group, (n_out, n_in)
        low, high = weight.view(n_out, n_in // group, group).aminmax(dim=-1)
        scale = ((high - low) / 15).clamp_(min=1e-30).bfloat16()
        offset = (low + 8 * scale.float()).bfloat16()
        q = rounding(weight, Grid(scale.float(), offset.float(), group, -8, 7)).add_(8)
        self._packed = _packed_int4(q.to(torch.int32))
        self._scale_and_offset = torch.stack([scale, offset], -1).transpose(0, 1).contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """Map bf16 x [n, n_in] to bf16 [n, n_out]."""
        if x.is_cuda:
            return torch._weight_int4pack_mm(x, self._packed, self._group, self._scale_and_offset)
        return torch._weight_int4pack_mm_for_cpu(x, self._packed, self._group, self._scale_and_offset)

    def dequantised(self) -> Tensor | None:
        """Return the weights as fp32 [n_out, n_in]; None where torch packs them in an order unknown to us."""
        n_out, n_in = self._shape
        layout = None if self._packed.is_cuda else _int4_layout()
        if layout is None:
            return None
        scale, offset = self._scale_and_offset.float().transpose(0, 1).unbind(-1)
        grouped = _unpack_int4(self._packed, *layout).view(n_out, -1, self._group).float().sub_(8)
        return grouped.mul_(scale[..., None]).add_(offset[..., None]).view(n_out, n_in)

    @property
    def byte(self) -> int:
        """Bytes held."""
        return self._packed.nbytes + self._scale_and_offset.nbytes


def _packed_int4(q: Tensor) -> Tensor:
    """Pack q [n_out, n_in] of 0..15 as the device's kernel wants it; the two differ."""
    if not q.is_cuda:
        return torch._convert_weight_to_int4pack_for_cpu(q, 1)
    return torch._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]).to(torch.uint8), _inner_tiles(q.shape[1]))


def _inner_tiles(n_in: int) -> int:
    """Return how many tiles of 16 inputs CUDA's int4 kernel loads at once: the most that divide n_in, of 8, 4 and 2."""
    return next(n for n in (8, 4, 2) if n_in % (16 * n) == 0)  # groups make n_in a multiple of 32


def _unpack_int4(packed: Tensor, block: int, in_pairs: bool) -> Tensor:
    """Undo torch's packing for a CPU: blocks of `block` rows, then one of the remaining rows, in pairs always."""
    n_whole = len(packed) // block * block
    parts = [_unpack_blocks(packed[:n_whole], block, in_pairs)]
    if n_whole < len(packed):
        parts.append(_unpack_blocks(packed[n_whole:], len(packed) - n_whole, in_pairs=True))
    return torch.cat(parts)


def _unpack_blocks(packed: Tensor, block: int, in_pairs: bool) -> Tensor:
    """Unpack blocks of rows: per input, a byte holds two neighbouring rows, or row i and row i + block / 2."""
    n_in = packed.shape[1] * 2
    nibbles = packed.view(-1, n_in, block // 2)
    rows = torch.stack([nibbles & 15, nibbles >> 4], -1 if in_pairs else -2).flatten(-2)
    return rows.transpose(1, 2).reshape(-1, n_in)


@functools.cache
def _int4_layout() -> tuple[int, bool] | None:
    """Find how torch packs rows, which depends on the instruction set: rows of a block, and whether they are in pairs.

    AVX-512: 64, AVX2: 32, neither in pairs; without vectors of the processor: 16 or 32 in pairs.
    """
    generator = torch.Generator().manual_seed(0)
    q = torch.randint(16, (96, 32), dtype=torch.int32, generator=generator)  # with blocks of 64 rows, 32 remain
    packed = torch._convert_weight_to_int4pack_for_cpu(q, 1)
    layouts = [(block, in_pairs) for block in (16, 32, 64) for in_pairs in (False, True)]
    return next((layout for layout in layouts if torch.equal(_unpack_int4(packed, *layout).int(), q)), None)


def on_grid(weight: Tensor, bits: int, rounding: Rounding = nearest) -> Tensor:
    """Round fp32 weights [n_out, n_in] to 2**bits evenly spaced values in each group of 32 inputs."""
    n_out, n_in = weight.shape
    if n_in % _GRID_GROUP:
        raise ValueError(f"weight: got {n_in} inputs, expected a multiple of {_GRID_GROUP}")
    low, high = weight.view(n_out, -1, _GRID_GROUP).aminmax(dim=-1)
    scale = ((high - low) / (2**bits - 1)).clamp_(min=1e-30)
    grid = Grid(scale, low, _GRID_GROUP, 0, 2**bits - 1)
    return grid.values(rounding(weight, grid))


class BiasedLinear:
    """y = W x + bias with the weights of another layer; bias is fp32 [n_out]."""

    def __init__(self, inner: FloatLinear | Int8Linear | Int4Linear, bias: Tensor) -> None:
        self.inner, self.bias = inner, bias
        self.activation_dtype = inner.activation_dtype

    def __call__(self, x: Tensor) -> Tensor:
        """Map x [n, n_in] in `activation_dtype` to fp32 [n, n_out]."""
        return self.inner(x).float() + self.bias

    def dequantised(self) -> Tensor | None:
        """Return the weights as fp32 [n_out, n_in]; None where `inner` cannot."""
        return self.inner.dequantised()

    def rows(self, index: Tensor) -> Tensor:
        """Return the chosen rows of the weights."""
        if isinstance(self.inner, Int4Linear):
            raise ValueError("weights: got int4 for an embedding, expected a format whose rows can be read one by one")
        return self.inner.rows(index)

    @property
    def byte(self) -> int:
        """Bytes held."""
        return self.inner.byte + self.bias.nbytes


Linear = FloatLinear | Int8Linear | Int4Linear | NativeLinear | BiasedLinear


def biased(linear: Linear, bias: Tensor) -> Linear:
    """Return a layer with a bias (fp32 [n_out]) added to its own; the two share their weights."""
    if isinstance(linear, NativeLinear):
        return linear.with_bias(bias)
    if isinstance(linear, BiasedLinear):
        return BiasedLinear(linear.inner, linear.bias + bias)
    return BiasedLinear(linear, bias)


def apply_rows(linear: Linear, x: Tensor) -> Tensor:
    """Map fp32 x [n, n_in] to fp32 [n, n_out] the fastest way for many rows.

    Large products run faster on weights dequantised for the moment than through a packed or a half-precision kernel;
    the time of dequantising is part of the call. Activations are rounded to the format's type as in decoding.
    """
    x = x.to(linear.activation_dtype)
    if isinstance(linear, NativeLinear):
        return _apply_unpacked(linear, x) if x.shape[0] >= PREFILL_ROWS else linear(x)
    if isinstance(linear, BiasedLinear):
        return apply_rows(linear.inner, x).add_(linear.bias)
    if linear.activation_dtype == torch.float32:
        return linear(x)
    weight = linear.dequantised() if x.shape[0] >= PREFILL_ROWS else None
    return linear(x).float() if weight is None else F.linear(x.float(), weight)


def _apply_unpacked(linear: NativeLinear, x: Tensor) -> Tensor:
    """Multiply by weights that are unpacked a block of rows at a time, which stays in a cache."""
    x = linear.rounded(x)
    y = torch.empty(len(x), linear.n_out)
    n_rows = min(linear.n_out, max(1, _BLOCK_BYTE // (4 * linear.n_in)))
    block = torch.empty(n_rows, linear.n_in)
    for first in range(0, linear.n_out, n_rows):
        weight = linear.unpack(first, block[: linear.n_out - first])
        torch.mm(x, weight.T, out=y[:, first : first + len(weight)])
    return y if linear.bias is None else y.add_(linear.bias)
