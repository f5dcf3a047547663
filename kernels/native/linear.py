"""Linear layers of the C library: weights in fp32, bf16, fp16, int8 or int4, activations and results in fp32.

int8 and int4 multiply integers: the activations are rounded to 8 bits, each group of inputs with its own scale.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from kernels.native.library import FLOAT_TYPES, FORMATS, LinearStruct, address, multiply, round_rows, unpack_rows
from kernels.native.rounding import Grid, Rounding, nearest

GROUPS = (32, 64, 128)
_INPUTS = 32
_BLOCK = 16  # rows that int8 and int4 hold side by side


class NativeLinear:
    """y = W x + bias by the C library.

    Parameters
    ----------
    weight_format : str
        One of `kernels.native.library.FORMATS`.
    weight : Tensor
        [n_out, n_in] in the format's type; int8, int4: packed, [blocks, words of a row, 16 rows, 4] uint8.
    scale : Tensor, optional
        int8: fp32 [padded rows], or fp16 [blocks, n_in / 32, 16 rows, 1]. int4: fp16 [blocks, padded inputs / group, 16
        rows, 2] with scale and minimum.
    group : int
        Inputs that share a scale; 0 for a whole row.
    n_in, n_out : int
        Inputs and outputs.
    bias : Tensor, optional
        fp32 [n_out].
    """

    activation_dtype = torch.float32

    def __init__(
        self,
        weight_format: str,
        weight: Tensor,
        scale: Tensor | None,
        group: int,
        n_in: int,
        n_out: int,
        bias: Tensor | None = None,
    ) -> None:
        self.weight_format, self.group, self.n_in, self.n_out = weight_format, group, n_in, n_out
        self._weight, self._scale, self.bias = weight, scale, bias
        self.struct = LinearStruct(
            address(weight), address(scale), address(bias), FORMATS[weight_format], group, n_in, n_out
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Map fp32 x [n, n_in] to fp32 [n, n_out]."""
        y = torch.empty(len(x), self.n_out)
        multiply(self.struct, x.contiguous(), y)
        return y

    def __deepcopy__(self, memo: object) -> NativeLinear:
        scale = None if self._scale is None else self._scale.clone()
        sizes = self.group, self.n_in, self.n_out
        return NativeLinear(self.weight_format, self._weight.clone(), scale, *sizes, self.bias)

    def with_bias(self, bias: Tensor) -> NativeLinear:
        """Return a layer with a bias [n_out] added to its own; the two share their weights."""
        total = (bias if self.bias is None else self.bias + bias).float().contiguous()
        sizes = self.group, self.n_in, self.n_out
        return NativeLinear(self.weight_format, self._weight, self._scale, *sizes, total)

    def rounded(self, x: Tensor) -> Tensor:
        """Round fp32 activations [n, n_in] as the kernel does."""
        return round_rows(self.struct, x.contiguous()) if self.weight_format in ("int8", "int4") else x

    def dequantised(self) -> Tensor:
        """Return the weights as fp32 [n_out, n_in]."""
        return self.unpack(0, torch.empty(self.n_out, self.n_in))

    def unpack(self, first: int, out: Tensor) -> Tensor:
        """Fill fp32 `out` [n, n_in] with the weights of the rows from `first` on."""
        unpack_rows(self.struct, first, out)
        return out

    def rows(self, index: Tensor) -> Tensor:
        """Return the chosen rows as fp32 [n, n_in] (a tied embedding reads them)."""
        out = torch.empty(len(index), self.n_in)
        unpack_rows(self.struct, index, out)
        return out

    @property
    def byte(self) -> int:
        """Bytes held."""
        held = self._weight.nbytes + (0 if self._scale is None else self._scale.nbytes)
        return held + (0 if self.bias is None else self.bias.nbytes)


def float_linear(weight: Tensor, weight_format: str, bias: Tensor | None = None) -> NativeLinear:
    """Hold fp32 weights [n_out, n_in] in fp32, bf16 or fp16."""
    _check_inputs(weight, 8)
    n_out, n_in = weight.shape
    return NativeLinear(weight_format, weight.to(FLOAT_TYPES[weight_format]).contiguous(), None, 0, n_in, n_out, bias)


def int8_linear(weight: Tensor, bias: Tensor | None = None, rounding: Rounding = nearest) -> NativeLinear:
    """Hold fp32 weights [n_out, n_in] in int8 with a scale per row."""
    _check_inputs(weight, _INPUTS)
    scale = (weight.abs().amax(1) / 127).clamp_(min=1e-30)
    grid = Grid(scale[:, None], torch.zeros(len(scale), 1), weight.shape[1], -127, 127)
    q = rounding(weight, grid).to(torch.int8)
    return _int8(q, F.pad(scale, (0, -len(q) % _BLOCK)), 0, bias)


def int4_linear(weight: Tensor, group: int, bias: Tensor | None = None, rounding: Rounding = nearest) -> NativeLinear:
    """Hold fp32 weights [n_out, n_in] in 4 bits with an fp16 scale and minimum per group; the last group of a row may
    be shorter.
    """
    if group not in GROUPS:
        raise ValueError(f"group: got {group}, expected one of 32, 64, 128")
    _check_inputs(weight, _INPUTS)
    n_out, n_in = weight.shape
    padded = F.pad(weight, (0, -n_in % group), mode="replicate")
    low, high = padded.view(n_out, -1, group).aminmax(dim=-1)
    scale = ((high - low) / 15).half()
    low = low.half()
    grid = Grid(scale.float().clamp(min=1e-30), low.float(), group, 0, 15)
    return _int4(rounding(weight, grid).to(torch.uint8), torch.stack([scale, low], -1), group, bias)


def from_blocks(blocks: NDArray[np.uint8], block_format: str, bias: Tensor | None = None) -> NativeLinear:
    """Hold the blocks of a GGUF tensor without loss.

    Parameters
    ----------
    blocks : array
        [n_out, bytes of a row] uint8, as the file has them.
    block_format : str
        "Q4_0", "Q4_1" or "Q8_0": 32 weights behind an fp16 scale (and minimum).
    bias : Tensor, optional
        fp32 [n_out].
    """
    head_byte, body_byte = {"Q4_0": (2, 16), "Q4_1": (4, 16), "Q8_0": (2, 32)}[block_format]
    n_out = len(blocks)
    block = torch.from_numpy(np.array(blocks)).view(n_out, -1, head_byte + body_byte)
    head = block[..., :head_byte].contiguous().view(torch.float16)
    body = block[..., head_byte:]
    if block_format == "Q8_0":
        return _int8(body.contiguous().view(torch.int8).view(n_out, -1), _in_blocks(head), 32, bias)
    if block_format == "Q4_0":  # W = scale * (q - 8)
        head = torch.cat([head, head * -8], -1)
    q = torch.cat([body & 15, body >> 4], -1)
    return _int4(q.view(n_out, -1), head.contiguous(), 32, bias)


def _check_inputs(weight: Tensor, multiple: int) -> None:
    if weight.shape[1] % multiple:
        raise ValueError(f"weight: got {weight.shape[1]} inputs, expected a multiple of {multiple}")


def _int8(q: Tensor, scale: Tensor, group: int, bias: Tensor | None) -> NativeLinear:
    """Pack int8 q [n_out, n_in]; `scale` is padded already."""
    n_out, n_in = q.shape
    plus_128 = F.pad(q, (0, 0, 0, -n_out % _BLOCK)).view(torch.uint8) ^ 128
    return NativeLinear("int8", _packed(plus_128, 1), scale, group, n_in, n_out, bias)


def _int4(q: Tensor, scale: Tensor, group: int, bias: Tensor | None) -> NativeLinear:
    """Pack q [n_out, n_in] of 0..15 with fp16 scale [n_out, groups, 2]."""
    n_out, n_in = q.shape
    q = F.pad(q, (0, -n_in % group, 0, -n_out % _BLOCK))
    return NativeLinear("int4", _packed(q, 2), _in_blocks(scale), group, n_in, n_out, bias)


def _in_blocks(scale: Tensor) -> Tensor:
    """Put the scales [n_out, groups, n] of 16 rows side by side: [blocks, groups, 16, n]."""
    padded = F.pad(scale, (0, 0, 0, 0, 0, -len(scale) % _BLOCK))
    return padded.view(-1, _BLOCK, *scale.shape[1:]).transpose(1, 2).contiguous()


def _packed(q: Tensor, n_nibbles: int) -> Tensor:
    """Put inputs into 32-bit words, and those of 16 rows side by side: n inputs in a byte, the even ones in the first
    half of a word from its low end on.
    """
    parts = q.view(len(q) // _BLOCK, _BLOCK, -1, 2, n_nibbles, 2)  # block, row, word, byte of a half, nibble, half
    byte = parts[..., 0, :] if n_nibbles == 1 else parts[..., 0, :] | parts[..., 1, :] << 4
    return byte.permute(0, 2, 1, 4, 3).reshape(len(parts), -1, _BLOCK, 4)
