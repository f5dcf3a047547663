"""Traffic of one token: bytes of weights and KV cache, floating-point operations, memory footprint.

All functions broadcast over their numeric arguments; shapes and formats are scalars. The model is a decoder-only
transformer with grouped-query attention [1]_: n cached tokens, L layers, H_q query heads over H_kv KV heads of d
values.

References
----------
.. [1] ainslie2023, docs/references.md
.. [2] docs/physics.md M1, M2, M4
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.spec import BY_NAME, Array, KvFormat, ModelShape, WeightFormat
from core.units import BIT_PER_BYTE, OP_PER_MAC, check_range

EIGHT_BIT = 8.5  # bits per weight of GGUF's 8-bit type with its scales
PAGE_TOKENS = 16  # tokens in a page of a paged KV cache, as vLLM's default block size


def weight_byte(shape: ModelShape, weights: WeightFormat, head: WeightFormat | None = None) -> float:
    """Return the bytes of weights streamed per decoded token.

    ``W = (N_body b + N_head b_head) / 8``, or the exact count of a model file where the shape has it for this format.
    The embedding table is looked up, not streamed; a mixture of experts counts the active ones.

    Parameters
    ----------
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format.
    head : WeightFormat, optional
        Format of the output head where it differs from that of `weights`, as in runtimes that keep it in 16 bit.

    Returns
    -------
    float
        Bytes W [byte].

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] docs/articles.md A01

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> four_bit = WeightFormat("q", "4.5 bit", bits_per_weight=4.5, head_bits_per_weight=4.5, needs_unpacking=True)
    >>> weight_byte(load_catalogue().models["llama-3-8b"], four_bit)
    4221370368.0
    """
    exact = shape.weight_byte_by_format.get(weights.key)
    bits = shape.body_params * weights.bits_per_weight + shape.head_params * weights.head_bits_per_weight
    byte = bits / BIT_PER_BYTE if exact is None else float(exact)
    if head is None:
        return byte
    return byte + shape.head_params * (head.bits_per_weight - weights.head_bits_per_weight) / BIT_PER_BYTE


def unpacked_weights(shape: ModelShape, weights: WeightFormat) -> float:
    """Return the weights that must be unpacked per decoded token.

    All of a packed format, none of a format that the units read directly. A file that takes more bits per weight than
    its format holds some tensors in 8 bit, as GGUF files do where rows do not fill the blocks of the format: then the
    share ``(8.5 - b) / (8.5 - b_format)`` of the weights explains the mean b.

    Parameters
    ----------
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format.

    Returns
    -------
    float
        Weights N_w [1].

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> catalogue = load_catalogue()
    >>> llama = catalogue.models["llama-3-8b"]
    >>> [round(unpacked_weights(llama, catalogue.weight_formats[key]) / 1e9, 3) for key in ("int4", "bf16")]
    [7.505, 0.0]
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
    """Return the bytes of keys and values of one cached token, ``K = sum_g L_g H_g (d_k + d_v) b_kv / 8``.

    Parameters
    ----------
    shape : ModelShape
        The model: groups of L_g layers with a cache, H_g KV heads, keys of d_k and values of d_v values.
    kv : KvFormat
        Format of the cache, b_kv bits per value.

    Returns
    -------
    float
        Bytes K [byte].

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] docs/articles.md A01

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> catalogue = load_catalogue()
    >>> kv_byte_per_token(catalogue.models["llama-3-8b"], catalogue.kv_formats["bf16"])
    131072.0
    """
    return sum(group.kv_values for group in shape.caching_layers) * kv.bits_per_value / BIT_PER_BYTE


def cached_tokens(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the cached tokens that a layer with a cache reads, the mean over the values of such layers.

    ``n_read = n - sum_g (K_g / K) max(n - w_g, 0)``: all n tokens, but ``min(n, w_g)`` in a group of layers with a
    window, which holds K_g of the K values of a token.

    Parameters
    ----------
    shape : ModelShape
        The model: groups of layers with windows of w_g tokens.
    context_tokens : float or ndarray
        Cached tokens n [1].

    Returns
    -------
    float or ndarray
        Tokens [1].

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> gemma = load_catalogue().models["gemma-2-2b"]
    >>> gemma.n_window_layers, gemma.n_caching_layers, gemma.window_tokens
    (13, 26, 4096.0)
    >>> float(cached_tokens(gemma, 8192.0))
    6144.0
    """
    groups = shape.caching_layers
    return _within_windows(context_tokens, [(group.kv_values, group.window_tokens) for group in groups])


def _within_windows(context_tokens: Array, weighted_windows: Sequence[tuple[float, float]]) -> Array:
    """Return the mean of the tokens within windows by their weights; a window of 0 tokens is none."""
    total = sum(weight for weight, _ in weighted_windows)
    read = context_tokens
    for weight, window in weighted_windows:
        if window:
            read = read - weight / total * np.maximum(np.asarray(context_tokens) - window, 0.0)
    return read


def reselection_byte(shape: ModelShape, context_tokens: Array, alpha: Array, layout: str) -> tuple[Array, Array, Array]:
    """Return the bytes that one KV token re-selection reads, with 16 bits an element.

    ``C = 2 sum_g L_g H_g (d_k + d_v) n (1 - alpha)`` in the compacted layout, else 0; ``K = 2 sum_g L_g H_g d_k n``;
    ``Q = 2 H_q sum_g L_g d_k n``.

    Parameters
    ----------
    shape : ModelShape
        The model.
    context_tokens : float or ndarray
        Cached tokens n [1].
    alpha : float or ndarray
        Share alpha of them removed [1].
    layout : str
        One of `core.spec.LAYOUTS`.

    Returns
    -------
    tuple of float or ndarray
        C, keys and values of the kept tokens that are copied; K, keys of all cached tokens; Q, the same once for each
        query head [byte].

    References
    ----------
    .. [1] docs/physics.md M4

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> llama = load_catalogue().models["llama-3-8b"]
    >>> [float(byte) for byte in reselection_byte(llama, 1024.0, 0.5, "compacted")]
    [67108864.0, 67108864.0, 268435456.0]
    """
    groups, read = shape.caching_layers, 2 * np.asarray(context_tokens)
    copied = (
        read * sum(group.kv_values for group in groups) * (1.0 - np.asarray(alpha)) if layout == "compacted" else 0.0
    )
    keys = sum(group.n_layers * group.n_kv_heads * group.key_dim for group in groups)
    return copied, keys * read, shape.n_heads * sum(group.n_layers * group.key_dim for group in groups) * read


def alpha_effective(alpha: Array, layout: str, *, whole_pages: bool, page_tokens: int = PAGE_TOKENS) -> Array:
    """Return the share of KV bytes that removing a share of the tokens saves.

    Compacted: ``alpha``. Paged: ``alpha`` where whole pages go, ``alpha^page`` where tokens are removed at random
    inside pages, since a page is skipped only when all its tokens are gone. Masked: 0, everything is still read.

    Parameters
    ----------
    alpha : float or ndarray
        Share alpha of cached tokens removed [1], 0 to below 1.
    layout : str
        One of `core.spec.LAYOUTS`.
    whole_pages : bool
        Whether the policy removes contiguous runs of tokens.
    page_tokens : int
        Tokens of a page [1].

    Returns
    -------
    float or ndarray
        Share of KV bytes [1].

    Raises
    ------
    ValueError
        `alpha` is outside its range, or the layout is unknown.

    References
    ----------
    .. [1] docs/physics.md M1
    .. [2] kwon2023, docs/references.md

    Examples
    --------
    >>> alpha_effective(0.5, "compacted", whole_pages=False), alpha_effective(0.5, "paged", whole_pages=False)
    (0.5, 1.52587890625e-05)
    """
    BY_NAME["alpha"].check(alpha)
    if layout == "compacted" or (layout == "paged" and whole_pages):
        return alpha
    if layout == "paged":
        return alpha**page_tokens
    if layout == "masked":
        return alpha * 0.0
    raise ValueError(f"layout = {layout!r} is none of compacted, paged, masked")


def decode_flop(shape: ModelShape, context_tokens: Array, alpha: Array = 0.0) -> Array:
    """Return the operations of decoding one token, ``F = 2 (N_body + N_head) + 2 A n_read (1 - alpha)``.

    ``A = sum_g L_g H_q (d_k + d_v)``, 2 L_c H_q d where all heads are alike; n_read as in `cached_tokens`, but the mean
    by A_g / A.

    Parameters
    ----------
    shape : ModelShape
        The model.
    context_tokens : float or ndarray
        Cached tokens n [1], >= 0.
    alpha : float or ndarray
        Share of them that attention skips [1], 0 to 1.

    Returns
    -------
    float or ndarray
        Operations F [op].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> llama = load_catalogue().models["llama-3-8b"]
    >>> float(decode_flop(llama, 2048.0))
    16083058688.0
    """
    check_range("context_tokens", context_tokens, 0.0)
    check_range("alpha", alpha, 0.0, 1.0)
    linear = OP_PER_MAC * (shape.body_params + shape.head_params)
    widths = _attention_widths(shape)
    attended = _within_windows(context_tokens, widths) * (1.0 - alpha)
    return linear + OP_PER_MAC * sum(width for width, _ in widths) * attended


def _attention_widths(shape: ModelShape) -> list[tuple[int, float]]:
    """Return the values of queries and outputs, ``L_g H_q (d_k + d_v)``, and the window of each group of layers."""
    groups = shape.caching_layers
    return [(g.n_layers * shape.n_heads * (g.key_dim + g.value_dim), g.window_tokens) for g in groups]


def idle_params(shape: ModelShape) -> float:
    """Return the weights of the experts that one token leaves out.

    ``N_idle = N_total - N_embedding - N_body - N_head``, at least 0.

    Parameters
    ----------
    shape : ModelShape
        The model.

    Returns
    -------
    float
        Weights N_idle [1].

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> [round(idle_params(load_catalogue().models[key]) / 1e9, 1) for key in ("llama-3-8b", "deepseek-v2-lite")]
    [0.0, 13.0]
    """
    embedding = 0.0 if shape.tied_embeddings else shape.head_params
    return max(shape.total_params - embedding - shape.body_params - shape.head_params, 0.0)


def prefill_weight_byte(
    shape: ModelShape, weights: WeightFormat, n_tokens: Array, head: WeightFormat | None = None
) -> Array:
    """Return the bytes of weights that a prompt reads once: those of a token, and of idle experts.

    ``W + [1 - (N_idle / (N_idle + N_body))^(n - 1)] N_idle b / 8``, since tokens differ in the experts that they take.

    Parameters
    ----------
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format, b bits per weight.
    n_tokens : float or ndarray
        Tokens n of the prompt [1], >= 1.
    head : WeightFormat, optional
        Format of the output head, as in `weight_byte`.

    Returns
    -------
    float or ndarray
        Bytes [byte].

    Raises
    ------
    ValueError
        `n_tokens` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> four_bit = WeightFormat("q", "4.5 bit", bits_per_weight=4.5, head_bits_per_weight=4.5, needs_unpacking=True)
    >>> sparse = load_catalogue().models["deepseek-v2-lite"]
    >>> [round(float(prefill_weight_byte(sparse, four_bit, n)) / 1e9, 2) for n in (1.0, 8.0, 512.0)]
    [1.38, 6.3, 8.72]
    """
    check_range("n_tokens", n_tokens, 1.0)
    idle = idle_params(shape)
    if not idle:
        return weight_byte(shape, weights, head)
    left_idle = (idle / (idle + shape.body_params)) ** (n_tokens - 1.0)
    return weight_byte(shape, weights, head) + (1.0 - left_idle) * idle * weights.bits_per_weight / BIT_PER_BYTE


def prefill_linear_flop(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the operations of a prompt's products with weights, ``2 N_body n + 2 N_head``.

    The head is computed once, for the last token.

    Parameters
    ----------
    shape : ModelShape
        The model.
    context_tokens : float or ndarray
        Tokens n of the prompt [1], >= 0.

    Returns
    -------
    float or ndarray
        Operations [op].

    Raises
    ------
    ValueError
        `context_tokens` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> llama = load_catalogue().models["llama-3-8b"]
    >>> float(prefill_linear_flop(llama, 128.0))
    1787757068288.0
    """
    check_range("context_tokens", context_tokens, 0.0)
    return OP_PER_MAC * (shape.body_params * context_tokens + shape.head_params)


def prefill_attention_flop(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the operations of causal attention over a prompt, QK and PV together.

    ``A n (n + 1) - sum_g A_g k_g (k_g + 1)`` with ``A_g = L_g H_q (d_k + d_v)`` and ``k_g = max(n - w_g, 0)`` in groups
    of layers with a window of w_g tokens.

    Parameters
    ----------
    shape : ModelShape
        The model.
    context_tokens : float or ndarray
        Tokens n of the prompt [1], >= 0.

    Returns
    -------
    float or ndarray
        Operations [op].

    Raises
    ------
    ValueError
        `context_tokens` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> float(prefill_attention_flop(load_catalogue().models["llama-3-8b"], 128.0))
    4328521728.0
    """
    check_range("context_tokens", context_tokens, 0.0)
    n, widths = context_tokens, _attention_widths(shape)
    flop = sum(width for width, _ in widths) * n * (n + 1.0)
    for width, window in widths:
        if window:
            beyond = np.maximum(np.asarray(n) - window, 0.0)
            flop = flop - width * beyond * (beyond + 1.0)
    return flop


def prefill_flop(shape: ModelShape, context_tokens: Array) -> Array:
    """Return the operations of a prompt, `prefill_linear_flop` and `prefill_attention_flop` together.

    For one token it equals `decode_flop` exactly.

    Parameters
    ----------
    shape : ModelShape
        The model.
    context_tokens : float or ndarray
        Tokens n of the prompt [1], >= 0.

    Returns
    -------
    float or ndarray
        Operations [op].

    Raises
    ------
    ValueError
        `context_tokens` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> float(prefill_flop(load_catalogue().models["llama-3-8b"], 128.0))
    1792085590016.0
    """
    return prefill_linear_flop(shape, context_tokens) + prefill_attention_flop(shape, context_tokens)


def graph_flop(shape: ModelShape, n_tokens: Array, graph_tokens: Array) -> Array:
    """Return the operations of a prompt in graphs of fixed shape, ``2 (N_body + N_head) n + 2 A n N``.

    Such a graph computes the head for each of its tokens and attends to all N places of its cache. All experts are
    computed.

    Parameters
    ----------
    shape : ModelShape
        The model.
    n_tokens : float or ndarray
        Tokens n of all graphs run [1], >= 0, with those that pad the last one.
    graph_tokens : float or ndarray
        Context N that the graphs were compiled for [1], >= 0.

    Returns
    -------
    float or ndarray
        Operations [op].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M2

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> llama = load_catalogue().models["llama-3-8b"]
    >>> float(graph_flop(llama, 128.0, 2048.0)) - 128 * float(decode_flop(llama, 2048.0))
    0.0
    """
    check_range("n_tokens", n_tokens, 0.0)
    check_range("graph_tokens", graph_tokens, 0.0)
    embedding = 0.0 if shape.tied_embeddings else shape.head_params
    linear = OP_PER_MAC * max(shape.total_params - embedding, shape.body_params + shape.head_params) * n_tokens
    attention = OP_PER_MAC * sum(width for width, _ in _attention_widths(shape)) * n_tokens * graph_tokens
    return linear + attention


def memory_byte(
    shape: ModelShape,
    weights: WeightFormat,
    kv: KvFormat,
    context_tokens: Array,
    kept_frac: Array = 1.0,
    head: WeightFormat | None = None,
) -> Array:
    """Return the bytes that must fit in memory: all weights, the embedding table and the kept KV cache.

    Parameters
    ----------
    shape : ModelShape
        The model.
    weights : WeightFormat
        Its weight format.
    kv : KvFormat
        Format of the cache.
    context_tokens : float or ndarray
        Cached tokens before pruning [1], >= 0.
    kept_frac : float or ndarray
        Share of KV bytes held, ``1 - alpha_effective`` [1], 0 to 1.
    head : WeightFormat, optional
        Format of the output head, as in `weight_byte`.

    Returns
    -------
    float or ndarray
        Bytes [byte].

    Raises
    ------
    ValueError
        `context_tokens` or `kept_frac` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M1

    Examples
    --------
    >>> from core.catalogue.load import load_catalogue
    >>> catalogue = load_catalogue()
    >>> llama, bf16 = catalogue.models["llama-3-8b"], catalogue.weight_formats["bf16"]
    >>> round(float(memory_byte(llama, bf16, catalogue.kv_formats["bf16"], 2048.0)) / 1e9, 3)
    16.328
    """
    check_range("context_tokens", context_tokens, 0.0)
    check_range("kept_frac", kept_frac, 0.0, 1.0)
    embedding = 0.0 if shape.tied_embeddings else float(shape.vocab_size) * shape.hidden_size
    unread_bits = embedding * weights.head_bits_per_weight + idle_params(shape) * weights.bits_per_weight
    held = [(g.kv_values, g.window_tokens and g.window_tokens + g.batch_tokens) for g in shape.caching_layers]
    cache = kv_byte_per_token(shape, kv) * _within_windows(np.asarray(context_tokens, dtype=float), held) * kept_frac
    return weight_byte(shape, weights, head) + unread_bits / BIT_PER_BYTE + cache
