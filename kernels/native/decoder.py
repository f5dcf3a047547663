"""A whole decoder in the C library: one call a token."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kernels.native.library import DecoderStruct, LayerStruct, address, library
from kernels.native.linear import NativeLinear
from kernels.paged import PagedKvCache
from kernels.stages import LAYER_STAGES, StageTimes
from kernels.weights import DecoderShape

ACTIVATIONS = ("silu", "gelu")
"""Numbers of the activations in decoder.c."""


@dataclass(frozen=True, slots=True)
class NativeLayer:
    """Weights of one layer."""

    attention_norm: Tensor
    qkv: NativeLinear
    out: NativeLinear
    feed_forward_norm: Tensor
    gate_up: NativeLinear
    down: NativeLinear


class NativeDecoder:
    """The weights of a decoder, described to the C library.

    Parameters
    ----------
    shape : DecoderShape
        Its sizes.
    layers : sequence of NativeLayer
        The layers.
    norm : Tensor
        fp32 [hidden_size], before the head.
    head : NativeLinear
        To the logits.
    """

    def __init__(self, shape: DecoderShape, layers: Sequence[NativeLayer], norm: Tensor, head: NativeLinear) -> None:
        found = library()
        if found is None:
            raise ValueError("the C library is not there")
        self._library, self._shape = found, shape
        self._kept = (layers, norm, head)  # the structures hold addresses in them
        described = [_layer(layer) for layer in layers]
        self._struct = DecoderStruct(
            (LayerStruct * len(described))(*described),
            address(norm),
            head.struct,
            shape.n_layers,
            shape.hidden_size,
            shape.intermediate_size,
            shape.n_heads,
            shape.n_kv_heads,
            shape.head_dim,
            ACTIVATIONS.index(shape.activation),
            shape.rms_eps,
            shape.head_dim**-0.5,
        )
        self._scratch = torch.empty(0)

    def decode(self, embedding: Tensor, rotation: Tensor, cache: PagedKvCache, stages: StageTimes | None) -> Tensor:
        """Process one token, append it to the cache and return the logits [vocab_size] behind it.

        Parameters
        ----------
        embedding : Tensor
            fp32 [hidden_size].
        rotation : Tensor
            complex64 [head_dim / 2], of the token's position in the text.
        cache : PagedKvCache
            With room for one more token.
        stages : StageTimes, optional
            Takes the seconds of each layer's stages and of the head.
        """
        position, n_threads = cache.length, torch.get_num_threads()
        attended = cache.attention_structs(position + 1, self._shape.n_groups)
        needed = self._library.trilemma_scratch_floats(ctypes.byref(self._struct), ctypes.c_int(n_threads))
        if self._scratch.numel() < needed:
            self._scratch = torch.empty(needed)
        logits = torch.empty(self._struct.head.n_out)
        stage_s = None if stages is None else np.zeros(self._shape.n_layers * len(LAYER_STAGES) + 1)
        self._library.trilemma_decode(
            ctypes.byref(self._struct),
            attended,
            *map(ctypes.c_void_p, (embedding.data_ptr(), rotation.data_ptr())),
            ctypes.c_int(position),
            *map(ctypes.c_void_p, (self._scratch.data_ptr(), logits.data_ptr())),
            None if stage_s is None else ctypes.c_void_p(stage_s.ctypes.data),
            ctypes.c_int(n_threads),
        )
        cache.length = position + 1
        if stages is not None and stage_s is not None:
            stages.layer_s[:] = stage_s[:-1].reshape(stages.layer_s.shape)
            stages.head_s = float(stage_s[-1])
        return logits


def _layer(layer: NativeLayer) -> LayerStruct:
    return LayerStruct(
        address(layer.attention_norm),
        address(layer.feed_forward_norm),
        *(linear.struct for linear in (layer.qkv, layer.out, layer.gate_up, layer.down)),
    )
