"""The layers of a decoder, loaded from a GGUF file in one weight format, and their rotary positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.decoder.dispatch import native, pack
from kernels.decoder.linear import Linear
from kernels.decoder.weights import DecoderShape, ModelFile
from kernels.native.linear import NativeLinear, from_blocks
from kernels.native.rounding import Rounding, nearest


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; what a family lacks is None."""

    attention_norm: Tensor
    qkv: Linear
    qkv_bias: Tensor | None  # added to what qkv gives, unless that adds it by itself
    head_norms: Tensor | None  # [n_heads + n_kv_heads, head_dim] of queries and keys, before they are rotated
    out: Linear
    post_attention_norm: Tensor | None
    feed_forward_norm: Tensor
    gate_up: Linear
    down: Linear
    post_feed_forward_norm: Tensor | None

    def linears(self) -> tuple[Linear, ...]:
        """Return the matrices."""
        return self.qkv, self.out, self.gate_up, self.down

    def norms(self) -> tuple[Tensor, ...]:
        """Return the norms that there are."""
        found = (
            self.attention_norm,
            self.head_norms,
            self.post_attention_norm,
            self.feed_forward_norm,
            self.post_feed_forward_norm,
        )
        return tuple(norm for norm in found if norm is not None)


Load = Callable[[ModelFile, list[str], str], Linear]
"""Reads tensors, put under each other, into one layer of a format."""


def load_layer(file: ModelFile, index: int, weight_format: str, load: Load) -> Layer:
    """Read one layer."""

    def linear(*names: str) -> Linear:
        return load(file, [f"blk.{index}.{name}.weight" for name in names], weight_format)

    def norm(name: str) -> Tensor | None:
        return file.tensor(f"blk.{index}.{name}.weight") if name in file.norms else None

    qkv = linear("attn_q", "attn_k", "attn_v")
    adds_bias = isinstance(qkv, NativeLinear) and qkv.bias is not None
    bias = None if adds_bias else file.bias([f"blk.{index}.{name}.weight" for name in ("attn_q", "attn_k", "attn_v")])
    return Layer(
        attention_norm=file.tensor(f"blk.{index}.attn_norm.weight"),
        qkv=qkv,
        qkv_bias=bias,
        head_norms=_by_head(file.shape, norm("attn_q_norm"), norm("attn_k_norm")),
        out=linear("attn_output"),
        post_attention_norm=norm("post_attention_norm"),
        feed_forward_norm=file.tensor(f"blk.{index}.ffn_norm.weight"),
        gate_up=linear("ffn_gate", "ffn_up"),
        down=linear("ffn_down"),
        post_feed_forward_norm=norm("post_ffw_norm"),
    )


def _by_head(shape: DecoderShape, q_norm: Tensor | None, k_norm: Tensor | None) -> Tensor | None:
    if q_norm is None or k_norm is None:
        return None
    return torch.cat([q_norm.expand(shape.n_heads, -1), k_norm.expand(shape.n_kv_heads, -1)])


RoundingOf = Callable[[str], Rounding]
"""How the weights of a layer are rounded, by the name of its first tensor."""


def all_nearest(_name: str) -> Rounding:
    """Round each weight for itself; a `RoundingOf`."""
    return nearest


def packed_linear(
    file: ModelFile, names: list[str], weight_format: str, with_native: bool, rounding_of: RoundingOf = all_nearest
) -> Linear:
    """Quantise for the variant that is fastest here."""
    weight = torch.cat([file.tensor(name) for name in names])
    return pack(weight, weight_format, with_native, rounding_of(names[0]))


def native_linear(
    file: ModelFile, names: list[str], weight_format: str, rounding_of: RoundingOf = all_nearest
) -> NativeLinear:
    """Take the file's own blocks where they are what the format is, else quantise."""
    wanted = {"int4": ("Q4_0", "Q4_1"), "int8": ("Q8_0",)}.get(weight_format, ())
    formats = {file.format(name) for name in names}
    if len(formats) == 1 and (stored := formats.pop()) in wanted:
        return from_blocks(np.concatenate([file.blocks(name) for name in names]), stored, file.bias(names))
    weight = torch.cat([file.tensor(name) for name in names])
    return native(weight, weight_format, file.bias(names), rounding_of(names[0]))


def rotations(shape: DecoderShape, factors: Tensor | None) -> list[Tensor]:
    """Compute what turns queries and keys in each layer, ``c exp(i position theta_j)`` with ``theta_j = base**(-2 j /
    head_dim)``, divided by the factor of j where there are any and by the scale of positions; c is 1 for most models.

    Layers with a window may have a base of their own, without factors and scale; some layers rotate nothing.

    Returns
    -------
    list of Tensor
        By layer [max_context_tokens, head_dim / 2] complex64; layers share what is equal.
    """
    theta = _theta(shape, shape.rope_base) / (shape.rope_scale * (1 if factors is None else factors.double()))
    everywhere = _turned(shape, theta)
    found = [everywhere] * shape.n_layers
    if shape.window_rope_base is not None:
        near = _turned(shape, _theta(shape, shape.window_rope_base))
        found = [everywhere if shape.rule.window(layer) is None else near for layer in range(shape.n_layers)]
    if every := shape.unrotated_period:
        still = torch.ones(1, dtype=torch.complex64).expand(shape.max_context_tokens, shape.head_dim // 2)
        found[every - 1 :: every] = [still] * (shape.n_layers // every)
    return found


def _theta(shape: DecoderShape, base: float) -> Tensor:
    return base ** (-torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim)


def _turned(shape: DecoderShape, theta: Tensor) -> Tensor:
    angle = torch.arange(shape.max_context_tokens, dtype=torch.float64)[:, None] * theta
    return torch.polar(torch.full_like(angle, shape.rotation_scale), angle).to(torch.complex64)


def normalised_heads(heads: Tensor, norms: Tensor, eps: float) -> Tensor:
    """Return heads [..., n, head_dim] with each one's RMS 1, times norms [n, head_dim]."""
    return F.rms_norm(heads, (heads.shape[-1],), None, eps).mul_(norms)
