"""A whole decoder in the C library: one call a token."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kernels.cache.paged import PagedKvCache
from kernels.decoder.stages import LAYER_STAGES, StageTimes
from kernels.decoder.weights import DecoderShape
from kernels.native.library import LAYER_ARRAYS, DecoderStruct, LayerStruct, address, library
from kernels.native.linear import NativeLinear

ACTIVATIONS = ("silu", "gelu")
"""Numbers of the activations in decoder.c."""


@dataclass(frozen=True, slots=True)
class NativeLayer:
    """Weights of one layer."""

    attention_norm: Tensor
    feed_forward_norm: Tensor
    post_attention_norm: Tensor | None
    post_feed_forward_norm: Tensor | None
    head_norms: Tensor | None
    rotations: Tensor | None  # fp32 [max_context_tokens, head_dim / 2, 2]; None where nothing is rotated
    qkv: NativeLinear
    out: NativeLinear
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
            shape.q_scale,
        )
        self._scratch = torch.empty(0)

    def decode(self, embedding: Tensor, position: int, cache: PagedKvCache, stages: StageTimes | None) -> Tensor:
        """Process one token, append it to the cache and return the logits [vocab_size] behind it.

        Parameters
        ----------
        embedding : Tensor
            fp32 [hidden_size].
        position : int
            Where the token stands in the text.
        cache : PagedKvCache
            With room for one more token.
        stages : StageTimes, optional
            Takes the seconds of each layer's stages and of the head.
        """
        cached, n_threads = cache.length, torch.get_num_threads()
        if not 0 <= position < self._shape.max_context_tokens:
            raise ValueError(f"position: got {position}, expected 0 to {self._shape.max_context_tokens - 1}")
        attended = cache.attention_structs(cached + 1, self._shape.n_groups)
        needed = self._library.trilemma_scratch_floats(ctypes.byref(self._struct), ctypes.c_int(n_threads))
        if self._scratch.numel() < needed:
            self._scratch = torch.empty(needed)
        logits = torch.empty(self._struct.head.n_out)
        stage_s = None if stages is None else np.zeros(self._shape.n_layers * len(LAYER_STAGES) + 1)
        self._library.trilemma_decode(
            ctypes.byref(self._struct),
            attended,
            ctypes.c_void_p(embedding.data_ptr()),
            ctypes.c_int(cached),
            ctypes.c_int(position),
            *map(ctypes.c_void_p, (self._scratch.data_ptr(), logits.data_ptr())),
            None if stage_s is None else ctypes.c_void_p(stage_s.ctypes.data),
            ctypes.c_int(n_threads),
        )
        cache.length = cached + 1
        if stages is not None and stage_s is not None:
            stages.layer_s[:] = stage_s[:-1].reshape(stages.layer_s.shape)
            stages.head_s = float(stage_s[-1])
        return logits


def _layer(layer: NativeLayer) -> LayerStruct:
    return LayerStruct(
        *(address(getattr(layer, name)) for name in LAYER_ARRAYS),
        *(linear.struct for linear in (layer.qkv, layer.out, layer.gate_up, layer.down)),
    )
