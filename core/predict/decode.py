"""Bytes and operations of a decoded token."""

from __future__ import annotations

import numpy as np

from core.physics import latency, traffic
from core.predict.options import with_options
from core.spec import Array, OperatingPoint, ResolvedPoint

CONTIGUOUS_POLICIES = frozenset({"sinks_recent"})  # they drop one contiguous range of tokens, hence whole pages


def decode_costs(point: OperatingPoint, at: ResolvedPoint, bandwidth_byte_s: Array) -> latency.DecodeCosts:
    """Return the costs of decoding one token at the point, at a peak bandwidth."""
    saved, read = saved_frac(point, at), traffic.cached_tokens(at.model, point.context_tokens)
    kv_byte = traffic.kv_byte_per_token(at.model, at.kv) * read * (1.0 - saved)
    costs = latency.DecodeCosts(
        weight_byte=traffic.weight_byte(at.model, at.weights, at.head),
        kv_byte=kv_byte,
        n_unpacked=traffic.unpacked_weights(at.model, at.weights),
        flop=traffic.decode_flop(at.model, point.context_tokens, saved),
        n_layers=at.model.n_layers,
        bandwidth_byte_s=bandwidth_byte_s,
        compute_op_s=at.mode.compute_op_s or np.inf,
        beta=point.beta,
        reselection_s=_reselection_s(point, at, bandwidth_byte_s),
        n_vocabularies=at.model.vocab_size / latency.USUAL_VOCABULARY,
    )
    return with_options(costs, point, at)


def _reselection_s(point: OperatingPoint, at: ResolvedPoint, bandwidth_byte_s: Array) -> Array:
    """Return the time of KV token re-selection per generated token [s]; 0 without re-selection."""
    cost, every = at.runtime.reselection, np.asarray(point.reselect_tokens, dtype=float)
    if cost is None or not every.any():
        return 0.0
    moved = traffic.reselection_byte(at.model, point.context_tokens, point.alpha, point.layout)
    n_layers = at.model.n_caching_layers
    one_s = sum(latency.reselection_parts(cost, point.policy, at.kv.key, moved, n_layers, bandwidth_byte_s))
    return np.where((every > 0) & (np.asarray(point.alpha) > 0), one_s / np.maximum(every, 1.0), 0.0)


def saved_frac(point: OperatingPoint, at: ResolvedPoint) -> Array:
    """Return the share of KV bytes that pruning saves. Runtimes with the layout among their knobs prune whole pages."""
    whole_pages = point.policy in CONTIGUOUS_POLICIES or "layout" in at.runtime.knobs
    return traffic.alpha_effective(point.alpha, point.layout, whole_pages=whole_pages)
