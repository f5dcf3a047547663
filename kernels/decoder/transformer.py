"""A Llama-family decoder (grouped-query attention, rotary positions, RMSNorm, SwiGLU, tied or own head) from a GGUF
file.

The residual stream is fp32; each linear layer gets its input in the type its format needs. Rotary positions follow
the GGUF convention of the llama architecture: the file's query and key rows are permuted so that neighbouring values
form the pairs that are rotated, which makes the rotation one complex product.

A token is decoded in one call of the C library where that is there and serves the model's sizes, else operator by
operator by torch; both apply the same formats, and the cache decides what is read.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.attention.prefill import attend_prompt, fastest_variant
from kernels.attention.window import attend_rows_by_rule, capped
from kernels.cache.contiguous import KvCache, new_cache
from kernels.cache.laid_out import LaidOutKvCache
from kernels.cache.paged import PagedKvCache
from kernels.decoder.layers import (
    Layer,
    RoundingOf,
    all_nearest,
    load_layer,
    native_linear,
    normalised_heads,
    packed_linear,
    rotations,
)
from kernels.decoder.linear import INT4_GROUPS, Int4Linear, Linear, apply_rows, biased
from kernels.decoder.stages import StageTimes, marker, no_mark
from kernels.decoder.weights import DecoderShape, ModelFile
from kernels.native import library
from kernels.native.decoder import NativeDecoder, NativeLayer
from kernels.native.linear import NativeLinear
from kernels.passes.activation import keep_largest

CHUNK_TOKENS = 512
"""Prompt tokens processed together: enough for the matrix products, short enough to report progress and to cancel."""
N_OBSERVED = 32
"""The last queries of a prompt, kept for the attention-mass policy."""


Observer = Callable[[int, str, Tensor, Tensor], None]
"""Called with a layer's number, the name of one of its matrices, and input and output [n, n_in], [n, n_out] of that."""


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A prompt that has been processed."""

    cache: KvCache
    logits: Tensor  # [vocab_size] behind the last token
    queries: Tensor  # [n_layers, n_heads, <= N_OBSERVED, head_dim], scaled: of the last tokens
    rotations: Sequence[Tensor]  # by layer [max_context_tokens, head_dim / 2] complex: of each position


class Decoder:
    """The model with its weights in one format.

    Parameters
    ----------
    file : ModelFile
        Where the weights come from.
    weight_format : str
        One of `kernels.decoder.linear.FORMATS`. With int4 the head, and the embedding tied to it, is held in int8, as
        files of that precision do.
    progress : callable
        Called with the share of the layers packed, 0..1; may raise to stop.
    use_native : bool
        Take the C library for the weights where it is there.
    rounding_of : callable
        How the weights of a matrix are rounded to the format.

    Attributes
    ----------
    is_native : bool
        Whether the C library decodes.
    key : str
        Differs between decoders that compute different numbers from one file.
    observer : callable, optional
        Sees the matrices of each layer at work while several tokens are processed at once.
    activation_keep : float
        Share of a token's feed-forward activations that are kept, the largest ones; 1 on a new decoder.
    """

    def __init__(
        self,
        file: ModelFile,
        weight_format: str,
        progress: Callable[[float], None] = lambda _: None,
        use_native: bool = True,
        rounding_of: RoundingOf = all_nearest,
    ) -> None:
        self.shape = file.shape
        self.weight_format = self.key = weight_format
        self.observer: Observer | None = None
        self.activation_keep = 1.0
        self.is_native = use_native and library.available() and _native_serves(file.shape)
        packed = functools.partial(packed_linear, with_native=use_native)
        load = functools.partial(native_linear if self.is_native else packed, rounding_of=rounding_of)
        self._layers: list[Layer] = []
        for index in range(self.shape.n_layers):
            progress(index / (self.shape.n_layers + 4))
            self._layers.append(load_layer(file, index, weight_format, load))
        progress(1 - 4 / (self.shape.n_layers + 4))
        head_format = "int8" if weight_format in INT4_GROUPS else weight_format
        self._embedding = load(file, ["token_embd.weight"], head_format)
        self._head = load(file, ["output.weight"], head_format) if "output.weight" in file else self._embedding
        self._norm = file.tensor("output_norm.weight")
        self._rotations = rotations(self.shape, file.rope_factors())
        self._native = self._described() if self.is_native else None
        self._activate = F.silu if self.shape.activation == "silu" else functools.partial(F.gelu, approximate="tanh")
        # the scale of the scores, applied to the query heads together with their rotation
        self._q_scale = torch.ones(self.shape.n_heads + self.shape.n_kv_heads, 1)
        self._q_scale[: self.shape.n_heads] = self.shape.q_scale
        self._zero = torch.zeros(1, self.shape.hidden_size)
        fastest_variant(self.shape.n_heads, self.shape.n_kv_heads, self.shape.head_dim)  # measured now, not in a prompt
        types = (torch.float32, torch.bfloat16, torch.float16)
        self._normalised = {dtype: torch.empty_like(self._zero, dtype=dtype) for dtype in types}

    @property
    def weight_byte(self) -> int:
        """Bytes that the weights take, embedding included (once, if tied)."""
        tables = self._head.byte if self._head is self._embedding else self._head.byte + self._embedding.byte
        norms = sum(norm.nbytes for layer in self._layers for norm in layer.norms())
        return tables + norms + self._norm.nbytes + sum(part.byte for layer in self._layers for part in layer.linears())

    def with_offsets(self, offsets: Tensor, key: str) -> Decoder:
        """Return a decoder that shares the weights and adds offsets [n_layers, 2, hidden_size] to what the output layer
        of attention and the last one of the feed-forward give.
        """
        expected = (self.shape.n_layers, 2, self.shape.hidden_size)
        if tuple(offsets.shape) != expected:
            raise ValueError(f"offsets: got shape {tuple(offsets.shape)}, expected {expected}")
        made = copy.copy(self)
        made.key, made.observer = key, None
        made._layers = [
            replace(layer, out=biased(layer.out, own[0]), down=biased(layer.down, own[1]))
            for layer, own in zip(self._layers, offsets.float(), strict=True)
        ]
        made._native = made._described() if made.is_native else None
        return made

    def keeping(self, activation_keep: float) -> Decoder:
        """Return a decoder of the same weights that prunes activations; it decodes operator by operator."""
        if activation_keep == self.activation_keep:
            return self
        made = copy.copy(self)
        made.key = f"{self.key}, {activation_keep:g} of the activations"
        made.activation_keep, made._native, made.is_native = activation_keep, None, False
        return made

    def _described(self) -> NativeDecoder:
        described = []
        for layer, turned in zip(self._layers, self._rotations, strict=True):
            qkv, out, gate_up, down = layer.linears()
            assert isinstance(qkv, NativeLinear)
            assert isinstance(out, NativeLinear)
            assert isinstance(gate_up, NativeLinear)
            assert isinstance(down, NativeLinear)
            described.append(
                NativeLayer(
                    layer.attention_norm,
                    layer.feed_forward_norm,
                    layer.post_attention_norm,
                    layer.post_feed_forward_norm,
                    layer.head_norms,
                    torch.view_as_real(turned) if turned.is_contiguous() else None,
                    qkv,
                    out,
                    gate_up,
                    down,
                )
            )
        assert isinstance(self._head, NativeLinear)
        return NativeDecoder(self.shape, described, self._norm, self._head)

    def new_cache(self, capacity: int, kv_format: str, layout: str = "") -> KvCache:
        """Make an empty KV cache of this model's shape, in a layout of `kernels.cache.laid_out` or the fastest here."""
        s = self.shape
        if layout:
            return LaidOutKvCache(s.n_layers, s.n_kv_heads, capacity, s.head_dim, kv_format, layout, rule=s.rule)
        return new_cache(s.n_layers, s.n_kv_heads, capacity, s.head_dim, kv_format, rule=s.rule)

    @torch.inference_mode()
    def decode(self, token: int, position: int, cache: KvCache, stages: StageTimes | None = None) -> Tensor:
        """Process one token and append it to the cache.

        Parameters
        ----------
        token : int
            Its number.
        position : int
            Where it stands in the text.
        cache : KvCache
            What it attends to, besides itself.
        stages : StageTimes, optional
            Takes the seconds of each stage; costs nothing when left out.

        Returns
        -------
        Tensor
            Logits [vocab_size] behind it.
        """
        start_s = time.perf_counter() if stages else 0.0
        x = self._embedded(torch.tensor([token]))
        if stages:
            stages.embedding_s = time.perf_counter() - start_s
        if self._native is not None and isinstance(cache, PagedKvCache):
            return self._bounded(self._native.decode(x, position, cache, stages))
        return self._decode_by_operators(x, position, cache, stages)

    def _decode_by_operators(self, x: Tensor, position: int, cache: KvCache, stages: StageTimes | None) -> Tensor:
        n_q, n_kv, head_dim = self.shape.n_heads, self.shape.n_kv_heads, self.shape.head_dim
        residual = x[0]
        # one buffer for the heads and its views, made once a token: each view costs a microsecond, times the layers
        heads = torch.empty(1, (n_q + 2 * n_kv) * head_dim)
        by_head = heads.view(-1, head_dim)
        turned = by_head[: n_q + n_kv]
        rotated = torch.view_as_complex(turned.view(n_q + n_kv, -1, 2))
        q, kv = by_head[:n_q].view(1, n_kv, -1, head_dim), by_head[n_q:].view(2, 1, n_kv, 1, head_dim)
        rotation = {id(of_layer): of_layer[position] * self._q_scale for of_layer in self._rotations}
        n_keys = cache.length + 1
        mark = no_mark if stages is None else marker(stages)
        for index, layer in enumerate(self._layers):
            heads.copy_(layer.qkv(self._normalise(x, residual, layer.attention_norm, layer.qkv.activation_dtype)))
            if layer.qkv_bias is not None:
                heads.add_(layer.qkv_bias)
            mark(index, 0)
            if layer.head_norms is not None:
                turned.copy_(normalised_heads(turned, layer.head_norms, self.shape.rms_eps))
            rotated.mul_(rotation[id(self._rotations[index])])
            cache.write(index, kv)
            mark(index, 1)
            attended = cache.attend(index, q, n_keys).view(1, -1)
            mark(index, 2)
            x.add_(self._behind(layer.out(attended.to(layer.out.activation_dtype)), layer.post_attention_norm))
            mark(index, 3)
            inner = layer.gate_up(self._normalise(x, residual, layer.feed_forward_norm, layer.gate_up.activation_dtype))
            gate, up = inner.chunk(2, -1)
            down = layer.down(self._gated(gate, up).to(layer.down.activation_dtype))
            x.add_(self._behind(down, layer.post_feed_forward_norm))
            mark(index, 4)
        cache.length = n_keys
        logits = self._head(self._normalise(x, residual, self._norm, self._head.activation_dtype))[0].float()
        mark(-1, 0)
        return self._bounded(logits)

    @torch.inference_mode()
    def extend(
        self,
        tokens: Tensor,
        position: int,
        cache: KvCache,
        all_logits: bool = False,
        progress: Callable[[float], None] = lambda _: None,
    ) -> tuple[Tensor, Tensor]:
        """Process several tokens at once, the first of which stands at `position`, and append them to the cache.

        Parameters
        ----------
        tokens : Tensor
            [n] int64.
        position : int
            Position of the first one in the text; beyond `cache.length` when the cache was pruned.
        cache : KvCache
            What they attend to, besides each other.
        all_logits : bool
            Return the logits behind every token rather than behind the last one.
        progress : callable
            Called with the share done, 0..1, before each layer; may raise to stop, which leaves the cache as it was.

        Returns
        -------
        logits : Tensor
            [n or 1, vocab_size].
        queries : Tensor
            [n_layers, n_heads, <= N_OBSERVED, head_dim].
        """
        shape, n = self.shape, len(tokens)
        n_q, n_kv = shape.n_heads, shape.n_kv_heads
        x = self._embedded(tokens)
        span = slice(position, position + n)
        rotation = {id(of_layer): of_layer[span, None] * self._q_scale for of_layer in self._rotations}
        queries = []
        for index, layer in enumerate(self._layers):
            progress(index / shape.n_layers)
            h = self._apply(index, "qkv", F.rms_norm(x, (x.shape[1],), layer.attention_norm, shape.rms_eps))
            if layer.qkv_bias is not None:
                h += layer.qkv_bias
            heads = h.view(n, n_q + 2 * n_kv, shape.head_dim)
            turned = heads[:, : n_q + n_kv]
            if layer.head_norms is not None:
                turned.copy_(normalised_heads(turned, layer.head_norms, shape.rms_eps))
            torch.view_as_complex(turned.view(n, n_q + n_kv, -1, 2)).mul_(rotation[id(self._rotations[index])])
            heads = heads.transpose(0, 1)
            cache.write(index, heads[n_q:].view(2, 1, n_kv, n, shape.head_dim))
            q = heads[:n_q]
            queries.append(q[:, -N_OBSERVED:].clone())
            n_keys = cache.length + n
            mask = None if cache.mask is None else cache.mask[index, :, :, :n_keys]
            attended = self._attend_prompt(index, q, cache.dequantised(index, n_keys), mask)
            out = self._apply(index, "out", attended.transpose(0, 1).reshape(n, -1))
            x += self._behind(out, layer.post_attention_norm)
            inner = F.rms_norm(x, (x.shape[1],), layer.feed_forward_norm, shape.rms_eps)
            gate, up = self._apply(index, "gate_up", inner).chunk(2, -1)
            down = self._apply(index, "down", self._gated(gate, up))
            x += self._behind(down, layer.post_feed_forward_norm)
        cache.length += n
        x = F.rms_norm(x if all_logits else x[-1:], (x.shape[1],), self._norm, shape.rms_eps)
        return self._bounded(apply_rows(self._head, x)), torch.stack(queries)

    def prefill(self, tokens: Tensor, cache: KvCache, progress: Callable[[float], None] = lambda _: None) -> Prefilled:
        """Process a prompt into a cache, in chunks of `CHUNK_TOKENS`.

        Parameters
        ----------
        tokens : Tensor
            [n] int64.
        cache : KvCache
            Empty, or holding the first tokens of the prompt, which are then not processed again; fewer than n.
        progress : callable
            Called with the share done, 0..1, before each layer of a chunk; may raise to stop.
        """
        start, n = cache.length, len(tokens)
        if not start < n:
            raise ValueError(f"tokens: got {n}, expected more than the {start} that are cached")
        queries: list[Tensor] = []
        for first in range(start, n, CHUNK_TOKENS):
            chunk = tokens[first : first + CHUNK_TOKENS]

            def layer_done(share: float, first: int = first, n_chunk: int = len(chunk)) -> None:
                progress((first - start + share * n_chunk) / (n - start))

            logits, chunk_queries = self.extend(chunk, first, cache, progress=layer_done)
            queries = [*queries[-1:], chunk_queries]
        return Prefilled(cache, logits[0], torch.cat(queries, 2)[:, :, -N_OBSERVED:], self._rotations)

    def _apply(self, index: int, name: str, x: Tensor) -> Tensor:
        y = apply_rows(getattr(self._layers[index], name), x)
        if self.observer is not None:
            self.observer(index, name, x, y)
        return y

    def _embedded(self, tokens: Tensor) -> Tensor:
        rows = _rows(self._embedding, tokens)
        return rows if self.shape.embedding_scale == 1 else rows * self.shape.embedding_scale

    def _attend_prompt(self, layer: int, q: Tensor, kv: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        window, soft_cap = self.shape.rule.window(layer), self.shape.rule.soft_cap
        if window is None and soft_cap is None:
            return attend_prompt(q, *kv, mask)
        return attend_rows_by_rule(q, *kv, mask, window, soft_cap)

    def _gated(self, gate: Tensor, up: Tensor) -> Tensor:
        """Return the activations of the feed-forward [n, intermediate_size], pruned where the decoder prunes them."""
        inner = self._activate(gate).mul_(up)
        return inner if self.activation_keep == 1.0 else keep_largest(inner, self.activation_keep)

    def _behind(self, x: Tensor, norm: Tensor | None) -> Tensor:
        """Normalise what attention or feed-forward gives, in models that do."""
        return x if norm is None else F.rms_norm(x.float(), (x.shape[1],), norm, self.shape.rms_eps)

    def _bounded(self, logits: Tensor) -> Tensor:
        return capped(logits, self.shape.logit_cap)

    def _normalise(self, x: Tensor, values: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """RMSNorm of one row x [1, n], `values` being its view [n]: a third of the time of torch's own for so few.

        The result lies in a buffer that the next call overwrites.
        """
        mean_square = torch.dot(values, values).item() / self.shape.hidden_size
        factor = 1 / math.sqrt(mean_square + self.shape.rms_eps)
        return torch.addcmul(self._zero, x, weight, value=factor, out=self._normalised[dtype])


def _native_serves(shape: DecoderShape) -> bool:
    """Return True if the C library has code for a model's sizes."""
    sizes = (shape.hidden_size, shape.intermediate_size, shape.n_heads * shape.head_dim)
    return PagedKvCache.serves(shape.head_dim) and all(size % 32 == 0 for size in sizes)


def _rows(table: Linear, index: Tensor) -> Tensor:
    if isinstance(table, Int4Linear):
        raise ValueError("weights: got int4 for an embedding, expected a format whose rows can be read one by one")
    return table.rows(index)
