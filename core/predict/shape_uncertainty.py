"""Log-sd of a model's times that follows from an estimated shape."""

from __future__ import annotations

import numpy as np

from core.physics import latency, traffic
from core.spec import PARAMETERS, Array, ResolvedPoint

CONTEXT_TOKENS = 512.0  # [prior] context at which the shares of the terms are computed
USUAL = latency.LatencyParameters(**({p.name: p.median for p in PARAMETERS} | {"t_token_s": 0.0}))
"""[prior] cost parameters for these shares, the same for every runtime: the priors of a runtime are fitted with these
log-sds, so the log-sds must not depend on them. The cost per token is neglected."""


def shape_log_sd(at: ResolvedPoint) -> tuple[float, float]:
    """Return the log-sd that an estimated shape adds to a model's decode times and times to first token.

    The share of each term of the time, at usual costs, times the log-sd of the term: the depth for the layers, the
    cache size for reading the cache, the parameters for the rest. Terms are independent.
    """
    model = at.model
    if not (model.depth_log_sd or model.cache_log_sd or model.read_log_sd or model.body_log_sd):
        return 0.0, 0.0
    weight_byte = traffic.weight_byte(model, at.weights, at.head)
    bandwidth, compute = at.mode.bandwidth_byte_s, at.mode.compute_op_s or np.inf
    decode = latency.decode_parts(
        latency.DecodeCosts(
            weight_byte,
            traffic.cached_tokens(model, CONTEXT_TOKENS) * traffic.kv_byte_per_token(model, at.kv),
            traffic.unpacked_weights(model, at.weights),
            traffic.decode_flop(model, CONTEXT_TOKENS),
            model.n_layers,
            bandwidth,
            compute,
        ),
        USUAL,
    )
    prefill = latency.prefill_parts(
        latency.PrefillCosts(
            traffic.prefill_flop(model, CONTEXT_TOKENS), weight_byte, model.n_layers, bandwidth, compute
        ),
        USUAL,
    )
    body_log_sd = float(np.hypot(model.read_log_sd, model.body_log_sd))
    return (
        _root_sum_square(
            (decode.layers / decode.total, model.depth_log_sd),
            (decode.kv / decode.total, model.cache_log_sd),
            ((decode.weights + decode.unpack) / decode.total, model.read_log_sd),
        ),
        _root_sum_square(
            (prefill.layers / prefill.total, model.depth_log_sd),
            (np.maximum(prefill.compute, prefill.weights) / prefill.total, body_log_sd),
        ),
    )


def _root_sum_square(*parts: tuple[Array, float]) -> float:
    return float(np.sqrt(sum((float(np.max(share)) * log_sd) ** 2 for share, log_sd in parts)))
