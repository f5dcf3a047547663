"""A Llama-family decoder (grouped-query attention, rotary positions, RMSNorm, SwiGLU, tied or own head) from a GGUF
file.

The residual stream is fp32; each linear layer gets its input in the type its format needs. Rotary positions follow
the GGUF convention of the llama architecture: the file's query and key rows are permuted so that neighbouring values
form the pairs that are rotated, which makes the rotation one complex product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.attention import attend_rows
from kernels.cache import KvCache, new_cache
from kernels.linear import FloatLinear, Int4Linear, Int8Linear, Linear, apply_rows, pack
from kernels.weights import DecoderShape, ModelFile

CHUNK_TOKENS = 512
"""Prompt tokens processed together: enough for the matrix products, short enough to report progress and to cancel."""
N_OBSERVED = 32
"""The last queries of a prompt, kept for the attention-mass policy."""


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Linear
    out: Linear
    feed_forward_norm: Tensor
    gate_up: Linear
    down: Linear

    def linears(self) -> tuple[Linear, ...]:
        return self.qkv, self.out, self.gate_up, self.down


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A prompt that has been processed."""

    cache: KvCache
    logits: Tensor  # [vocab_size] behind the last token
    queries: Tensor  # [n_layers, n_heads, <= N_OBSERVED, head_dim], scaled: of the last tokens
    rotation: Tensor  # [max_context_tokens, head_dim / 2] complex: of each position


class Decoder:
    """The model with its weights in one format.

    Parameters
    ----------
    file : ModelFile
        Where the weights come from.
    weight_format : str
        One of `kernels.linear.FORMATS`. With int4 the head, and the embedding tied to it, is held in int8, as files of
        that precision do.
    progress : callable
        Called with the share of the layers packed, 0..1; may raise to stop.
    """

    def __init__(self, file: ModelFile, weight_format: str, progress: Callable[[float], None] = lambda _: None) -> None:
        self.shape = file.shape
        self.weight_format = weight_format
        self._layers: list[_Layer] = []
        for index in range(self.shape.n_layers):
            progress(index / (self.shape.n_layers + 4))
            self._layers.append(_load_layer(file, index, weight_format))
        progress(1 - 4 / (self.shape.n_layers + 4))
        head_format = "int8" if weight_format == "int4" else weight_format
        self._embedding = _packed_table(file, "token_embd.weight", head_format)
        self._head = _packed_table(file, "output.weight", head_format) if "output.weight" in file else self._embedding
        self._norm = file.tensor("output_norm.weight")
        self._rotation = _rotation(self.shape)
        # the scale of the scores, applied to the query heads together with their rotation
        self._q_scale = torch.ones(self.shape.n_heads + self.shape.n_kv_heads, 1)
        self._q_scale[: self.shape.n_heads] = self.shape.head_dim**-0.5
        self._zero = torch.zeros(1, self.shape.hidden_size)
        types = (torch.float32, torch.bfloat16, torch.float16)
        self._normalised = {dtype: torch.empty_like(self._zero, dtype=dtype) for dtype in types}

    @property
    def weight_byte(self) -> int:
        """Bytes that the weights take, embedding included (once, if tied)."""
        tables = self._head.byte if self._head is self._embedding else self._head.byte + self._embedding.byte
        norms = sum(layer.attention_norm.nbytes + layer.feed_forward_norm.nbytes for layer in self._layers)
        return tables + norms + self._norm.nbytes + sum(part.byte for layer in self._layers for part in layer.linears())

    def new_cache(self, capacity: int, kv_format: str) -> KvCache:
        """Make an empty KV cache of this model's shape."""
        return new_cache(self.shape.n_layers, self.shape.n_kv_heads, capacity, self.shape.head_dim, kv_format)

    @torch.inference_mode()
    def decode(self, token: int, position: int, cache: KvCache) -> Tensor:
        """Process one token that stands at `position`, append it to the cache, and return the logits [vocab_size]
        behind it.
        """
        n_q, n_kv, head_dim = self.shape.n_heads, self.shape.n_kv_heads, self.shape.head_dim
        x = self._embedding.rows(torch.tensor([token]))
        residual = x[0]
        # one buffer for the heads and its views, made once a token: each view costs a microsecond, times the layers
        heads = torch.empty(1, (n_q + 2 * n_kv) * head_dim)
        by_head = heads.view(-1, head_dim)
        rotated = torch.view_as_complex(by_head[: n_q + n_kv].view(n_q + n_kv, -1, 2))
        q, kv = by_head[:n_q].view(1, n_kv, -1, head_dim), by_head[n_q:].view(2, 1, n_kv, 1, head_dim)
        rotation = self._rotation[position] * self._q_scale
        n_keys = cache.length + 1
        for index, layer in enumerate(self._layers):
            heads.copy_(layer.qkv(self._normalise(x, residual, layer.attention_norm, layer.qkv.activation_dtype)))
            rotated.mul_(rotation)
            cache.write(index, kv)
            attended = cache.attend(index, q, n_keys).view(1, -1)
            x.add_(layer.out(attended.to(layer.out.activation_dtype)))
            inner = layer.gate_up(self._normalise(x, residual, layer.feed_forward_norm, layer.gate_up.activation_dtype))
            gate, up = inner.chunk(2, -1)
            x.add_(layer.down(F.silu(gate).mul_(up)))
        cache.length = n_keys
        return self._head(self._normalise(x, residual, self._norm, self._head.activation_dtype))[0].float()

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
        x = self._embedding.rows(tokens)
        rotation = self._rotation[position : position + n, None] * self._q_scale
        queries = []
        for index, layer in enumerate(self._layers):
            progress(index / shape.n_layers)
            h = apply_rows(layer.qkv, F.rms_norm(x, (x.shape[1],), layer.attention_norm, shape.rms_eps))
            heads = h.view(n, n_q + 2 * n_kv, shape.head_dim)
            torch.view_as_complex(heads[:, : n_q + n_kv].view(n, n_q + n_kv, -1, 2)).mul_(rotation)
            heads = heads.transpose(0, 1)
            cache.write(index, heads[n_q:].view(2, 1, n_kv, n, shape.head_dim))
            q = heads[:n_q]
            queries.append(q[:, -N_OBSERVED:].clone())
            n_keys = cache.length + n
            mask = None if cache.mask is None else cache.mask[index, :, :, :n_keys]
            attended = attend_rows(q, *cache.dequantised(index, n_keys), mask)
            x += apply_rows(layer.out, attended.transpose(0, 1).reshape(n, -1))
            gate, up = apply_rows(
                layer.gate_up, F.rms_norm(x, (x.shape[1],), layer.feed_forward_norm, shape.rms_eps)
            ).chunk(2, -1)
            x += apply_rows(layer.down, F.silu(gate).mul_(up))
        cache.length += n
        x = F.rms_norm(x if all_logits else x[-1:], (x.shape[1],), self._norm, shape.rms_eps)
        return self._head(x.to(self._head.activation_dtype)).float(), torch.stack(queries)

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
        return Prefilled(cache, logits[0], torch.cat(queries, 2)[:, :, -N_OBSERVED:], self._rotation)

    def _normalise(self, x: Tensor, values: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """RMSNorm of one row x [1, n], `values` being its view [n]: a third of the time of torch's own for so few.

        The result lies in a buffer that the next call overwrites.
        """
        mean_square = torch.dot(values, values).item() / self.shape.hidden_size
        factor = 1 / math.sqrt(mean_square + self.shape.rms_eps)
        return torch.addcmul(self._zero, x, weight, value=factor, out=self._normalised[dtype])


def _load_layer(file: ModelFile, index: int, weight_format: str) -> _Layer:
    def read(*names: str) -> Tensor:
        return torch.cat([file.tensor(f"blk.{index}.{name}.weight") for name in names])

    return _Layer(
        attention_norm=read("attn_norm"),
        qkv=pack(read("attn_q", "attn_k", "attn_v"), weight_format),
        out=pack(read("attn_output"), weight_format),
        feed_forward_norm=read("ffn_norm"),
        gate_up=pack(read("ffn_gate", "ffn_up"), weight_format),
        down=pack(read("ffn_down"), weight_format),
    )


def _packed_table(file: ModelFile, name: str, weight_format: str) -> FloatLinear | Int8Linear:
    table = pack(file.tensor(name), weight_format)
    if isinstance(table, Int4Linear):
        raise ValueError("weights: got int4 for an embedding, expected a format whose rows can be read one by one")
    return table


def _rotation(shape: DecoderShape) -> Tensor:
    """Compute exp(i position theta_j), [max_context_tokens, head_dim / 2] complex, theta_j = base**(-2 j /
    head_dim).
    """
    theta = shape.rope_base ** (-torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim)
    angle = torch.arange(shape.max_context_tokens, dtype=torch.float64)[:, None] * theta
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64)
