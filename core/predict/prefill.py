"""Bytes and operations of prefill, for runtimes that process a prompt at once, in chunks, or in compiled graphs."""

from __future__ import annotations

import numpy as np

from core.physics import latency, traffic
from core.predict.options import prefill_with_options
from core.predict.parameters import prefill_op_s
from core.spec import Array, OperatingPoint, ResolvedPoint

LAYER_HEADS = 48.0
"""Query, key and value heads of Llama-3-8B, the layer that costs of graphs with single heads are relative to."""


def prefill_costs(point: OperatingPoint, at: ResolvedPoint, bandwidth_byte_s: Array) -> latency.PrefillCosts:
    """Return the costs of the point's prefill at a peak bandwidth.

    A runtime with chunked prefill reads the weights and launches the operators of each layer once per chunk; the rest
    of a layer's cost is work on activations, which is proportional to the tokens.
    """
    n_tokens, chunk = np.asarray(point.context_tokens, dtype=float), at.runtime.prompt_chunk_tokens
    n_chunks: Array = np.ceil(n_tokens / chunk) if chunk else 1.0
    n_launched: Array = 0.0
    if at.runtime.static_graph:
        flop, n_layers = _graph_work(point, at, n_chunks)
    else:
        flop = traffic.prefill_flop(at.model, n_tokens)
        n_layers = at.model.n_layers * (n_tokens / chunk if chunk else n_chunks)
        n_launched = at.model.n_layers * n_chunks if chunk else 0.0
    costs = latency.PrefillCosts(
        flop=flop,
        width_cost=latency.width_cost(at.model.hidden_size, at.runtime.prompt_half_width),
        weight_byte=n_chunks * traffic.prefill_weight_byte(at.model, at.weights, n_tokens, at.head),
        n_layers=n_layers,
        n_launched=n_launched,
        bandwidth_byte_s=bandwidth_byte_s,
        compute_op_s=prefill_op_s(at),
        beta=point.beta,
        n_vocabularies=at.model.vocab_size / latency.USUAL_VOCABULARY,
    )
    return prefill_with_options(costs, point, at)


def _graph_work(point: OperatingPoint, at: ResolvedPoint, n_chunks: Array) -> tuple[Array, Array]:
    """Return the operations and the layers of prefill in compiled graphs, which always compute full chunks.

    Attention is split into single heads, each with its own operators.
    """
    chunk = at.runtime.prompt_chunk_tokens
    n_tokens = n_chunks * chunk if chunk else point.context_tokens
    cached = np.maximum(point.graph_tokens or at.runtime.graph_tokens, n_tokens)
    n_heads = at.model.n_heads + 2.0 * at.model.n_kv_heads
    return traffic.graph_flop(at.model, n_tokens, cached), n_chunks * at.model.n_layers * n_heads / LAYER_HEADS
