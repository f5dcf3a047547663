"""What one token moves and computes: bytes of weights and KV cache, floating-point operations, memory footprint.

All functions broadcast over their numeric arguments; shapes and formats are scalars. It is the bookkeeping of a
decoder-only transformer with grouped-query attention: n cached tokens, L layers, H_q query heads over H_kv KV heads of
d values.
"""

from __future__ import annotations

import numpy as np

from core.spec import Array, KvFormat, ModelShape, WeightFormat
from core.units import BIT_PER_BYTE, OP_PER_MAC, check_range

EIGHT_BIT = 8.5  # bits per weight of GGUF's 8-bit type with its scales
PAGE_TOKENS = 16  # tokens in a page of a paged KV cache, as vLLM's default block size


def weight_byte(shape: ModelShape, weights: WeightFormat, head: WeightFormat | None = None) -> float:
    """Return the bytes of weights streamed per decoded token [byte].

    The exact count of a model file when the shape has it for this format, else
    ``(body * bits + head * head_bits) / 8``. The embedding table is looked up, not streamed; a mixture of experts
    counts the active ones.

    Parameters
    ----------
    shape, weights
        Model and weight format.
    head : WeightFormat, optional
        Format of the output head, where it is not the one that `weights` gives it: runtimes that keep it in 16 bit read
        that much more per token, which small models with large vocabularies feel most.

    References
    ----------
    docs/articles.md, A01: 4221.520128 MB for Llama-3-8B at 4.5 bit per weight.
    """
    exact = shape.weight_byte_by_format.get(weights.key)
    bits = shape.body_params * weights.bits_per_weight + shape.head_params * weights.head_bits_per_weight
    byte = bits / BIT_PER_BYTE if exact is None else float(exact)
    if head is None:
        return byte
    return byte + shape.head_params * (head.bits_per_weight - weights.head_bits_per_weight) / BIT_PER_BYTE


def unpacked_weights(shape: ModelShape, weights: WeightFormat) -> float:
    """Return how many weights must be unpacked per decoded token; 0 for formats that the units read directly.

    All of them, but for a file that takes more bits per weight than its format: then it holds some tensors in 8 bit,
    as GGUF files do where rows do not fill the format's blocks, and the share ``(8.5 - b) / (8.5 - b_format)`` of the
    weights explains the mean b.
    """
    if not weights.needs_unpacking:
        return 0.0
    n_weights = shape.body_params + shape.head_params
    exact = shape.weight_byte_by_format.get(weights.key)
    if exact is None:
        return n_weights
    excess = EIGHT_BIT - BIT_PER_BYTE * exact / n_weights
    return n_weights * min(max(excess / (EIGHT_BIT - weights.bits_per_weight), 0.0), 1.0)


def kv_byte_per_token(shape: ModelShape, kv: KvFormat) -> float:
    """Return the bytes of keys and values that one cached token takes [byte], ``2 L H_kv d b / 8``.

    References
    ----------
    docs/articles.md, A01: 131072 byte for Llama-3-8B in 16 bit.
    """
    return 2 * shape.n_caching_layers * shape.n_kv_heads * shape.head_dim * kv.bits_per_value / BIT_PER_BYTE


def cached_tokens(shape: ModelShape, context_tokens: Array) -> Array:
    """Return how many cached tokens a layer with a cache reads, their mean over such layers.

    All of the context, ``n``, but in layers with a window ``min(n, w)``.
    """
    if not shape.n_window_layers:
        return context_tokens
    windows = shape.n_window_layers / shape.n_caching_layers
    read: Array = context_tokens - windows * np.maximum(np.asarray(context_tokens) - shape.window_tokens, 0.0)
    return read


def reselection_byte(shape: ModelShape, context_tokens: Array, alpha: Array, layout: str) -> tuple[Array, Array, Array]:
    """Return the bytes that one KV token re-selection reads, with 16 bits an element [byte].

    Returns
    -------
    copied_byte, key_byte, scored_byte : float or array
        Keys and values of the tokens kept where the layout copies them together, else 0; keys of all cached tokens;
        the same once for each query head.
    """
    of_head = 2 * shape.n_caching_layers * shape.head_dim * np.asarray(context_tokens)
    copied_byte = 2 * shape.n_kv_heads * of_head * (1.0 - np.asarray(alpha)) if layout == "compacted" else 0.0
    return copied_byte, shape.n_kv_heads * of_head, shape.n_heads * of_head


def alpha_effective(alpha: Array, layout: str, *, whole_pages: bool, page_tokens: int = PAGE_TOKENS) -> Array:
    """Return the share of KV bytes that pruning a share `alpha` of the tokens really saves [frac].

    Compacted: alpha. Paged: alpha when whole pages go, ``alpha**page_tokens`` when tokens are dropped at random inside
    pages, since a page is skipped only when all its tokens are gone. Masked: 0, everything is still read.

    Parameters
    ----------
    alpha : float or array
        Share of cached tokens removed, 0 <= alpha < 1.
    layout : str
        One of `core.spec.LAYOUTS`.
    whole_pages : bool
        The policy removes contiguous runs of tokens.

    Raises
    ------
    ValueError
        `alpha` outside [0, 1) or an unknown layout.
    """
    check_range("alpha", alpha, 0.0, 1.0, open_high=True)
    if layout == "compacted" or (layout == "paged" and whole_pages):
        return alpha
    if layout == "paged":
        return alpha**page_tokens
    if layout == "masked":
        return alpha * 0.0
    raise ValueError(f"layout = {layout!r} is none of compacted, paged, masked")


def decode_flop(shape: ModelShape, context_tokens: Array, alpha: Array = 0.0) -> Array:
    """Return the operations of decoding one token [op], ``2 (body + head) + 4 L H_q d n (1 - alpha)``.

    Layers with a window attend to it, see `cached_tokens`.

    Parameters
    ----------
    context_tokens : float or array
        Cached tokens n, >= 0.
    alpha : float or array
        Share of them that attention skips, 0 <= alpha <= 1.
    """
    check_range("context_tokens", context_tokens, 0.0)
    check_range("alpha", alpha, 0.0, 1.0)
    linear = OP_PER_MAC * (shape.body_params + shape.head_params)
    attended = cached_tokens(shape, context_tokens) * (1.0 - alpha)
    return linear + 2 * OP_PER_MAC * shape.n_caching_layers * shape.n_heads * shape.head_dim * attended


def idle_params(shape: ModelShape) -> float:
    """Return the weights that a token leaves alone though others need them: those of experts it does not take."""
    embedding = 0.0 if shape.tied_embeddings else shape.head_params
    return max(shape.total_params - embedding - shape.body_params - shape.head_params, 0.0)


def prompt_weight_byte(
    shape: ModelShape, weights: WeightFormat, n_tokens: Array, head: WeightFormat | None = None
) -> Array:
    """Return the bytes of weights that a prompt of `n_tokens` >= 1 reads once [byte]: a token's, and idle experts.

    Tokens differ in the experts they take: of those that one token leaves idle, the others leave ``(1 - a)**(n - 1)``
    idle, a being the active share of the weights.
    """
    check_range("n_tokens", n_tokens, 1.0)
    idle = idle_params(shape)
    if not idle:
        return weight_byte(shape, weights, head)
    left_idle = (idle / (idle + shape.body_params)) ** (n_tokens - 1.0)
    return weight_byte(shape, weights, head) + (1.0 - left_idle) * idle * weights.bits_per_weight / BIT_PER_BYTE


def prefill_linear_flop(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the operations of a prompt's matrix products with weights [op], ``2 body n + 2 head`` (head once)."""
    check_range("context_tokens", context_tokens, 0.0)
    return OP_PER_MAC * (shape.body_params * context_tokens + shape.head_params)


def prefill_attention_flop(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the operations of causal attention over a prompt [op], ``2 L H_q d n (n + 1)`` for QK and PV together.

    Less what layers with a window leave out, ``2 L_w H_q d m (m + 1)`` of the ``m = n - w`` tokens beyond it.
    """
    check_range("context_tokens", context_tokens, 0.0)
    n, of_head = context_tokens, OP_PER_MAC * shape.n_heads * shape.head_dim
    every = of_head * shape.n_caching_layers * n * (n + 1.0)
    if not shape.n_window_layers:
        return every
    beyond = np.maximum(np.asarray(n) - shape.window_tokens, 0.0)
    return every - of_head * shape.n_window_layers * beyond * (beyond + 1.0)


def prefill_flop(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the operations of processing a prompt of n tokens [op].

    References
    ----------
    docs/physics.md, M2: 1.792085590016e12 for Llama-3-8B and n = 128; n = 1 equals `decode_flop` exactly.
    """
    return prefill_linear_flop(shape, context_tokens) + prefill_attention_flop(shape, context_tokens)


def graph_flop(shape: ModelShape, n_tokens: Array, graph_tokens: Array) -> Array:
    """Return the operations of a prompt in graphs of fixed shape [op], ``2 (body + head) n + 4 L H_q d n N``.

    Such a graph leaves nothing out: it takes the head for each of its tokens, and attends to all places of its cache.

    Parameters
    ----------
    n_tokens : float or array
        n, tokens of all graphs run, those that pad the last one included.
    graph_tokens : float
        N, the context that the graphs were compiled for.
    """
    check_range("n_tokens", n_tokens, 0.0)
    check_range("graph_tokens", graph_tokens, 0.0)
    embedding = 0.0 if shape.tied_embeddings else shape.head_params
    linear = OP_PER_MAC * max(shape.total_params - embedding, shape.body_params + shape.head_params) * n_tokens
    attention = 2 * OP_PER_MAC * shape.n_caching_layers * shape.n_heads * shape.head_dim * n_tokens * graph_tokens
    return linear + attention


def memory_byte(
    shape: ModelShape,
    weights: WeightFormat,
    kv: KvFormat,
    context_tokens: Array,
    kept_frac: Array = 1.0,
    head: WeightFormat | None = None,
) -> Array:
    """Return what must fit in memory: all weights, the embedding table and the kept KV cache [byte].

    Parameters
    ----------
    context_tokens : float or array
        Cached tokens before pruning.
    kept_frac : float or array
        Share of KV bytes still held, ``1 - alpha_effective``.
    head : WeightFormat, optional
        As in `weight_byte`.
    """
    check_range("context_tokens", context_tokens, 0.0)
    check_range("kept_frac", kept_frac, 0.0, 1.0)
    embedding = 0.0 if shape.tied_embeddings else float(shape.vocab_size) * shape.hidden_size
    unread_bits = embedding * weights.head_bits_per_weight + idle_params(shape) * weights.bits_per_weight
    cache = kv_byte_per_token(shape, kv) * cached_tokens(shape, np.asarray(context_tokens, dtype=float)) * kept_frac
    return weight_byte(shape, weights, head) + unread_bits / BIT_PER_BYTE + cache
