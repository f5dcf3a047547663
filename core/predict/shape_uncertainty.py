"""How much wider a guessed shape makes the predictions of a model's times."""

from __future__ import annotations

import numpy as np

from core.physics import latency, traffic
from core.spec import PARAMETERS, Array, ResolvedPoint

CONTEXT_TOKENS = 512.0  # [prior] at which the parts of a time are weighed
USUAL = latency.LatencyParameters(**({p.name: p.median for p in PARAMETERS} | {"t_token_s": 0.0}))
"""[prior] costs that they are weighed by, whatever the runtime: what is learned of it must not depend on themselves.
The cost per token is left out."""


def shape_log_sd(at: ResolvedPoint) -> tuple[float, float]:
    """Return what guesses about a model's shape add to the log-sd of its decode times and of its times to first token.

    What each part of a time takes of it, at usual costs, times how far that part may be off: layers by the depth,
    reading the cache by its size, the rest by the parameters.
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
    prompt = latency.prefill_parts(
        latency.PrefillCosts(
            traffic.prefill_flop(model, CONTEXT_TOKENS), weight_byte, model.n_layers, bandwidth, compute
        ),
        USUAL,
    )
    body_log_sd = float(np.hypot(model.read_log_sd, model.body_log_sd))
    return (
        _together(
            (decode.layers / decode.total, model.depth_log_sd),
            (decode.kv / decode.total, model.cache_log_sd),
            ((decode.weights + decode.unpack) / decode.total, model.read_log_sd),
        ),
        _together(
            (prompt.layers / prompt.total, model.depth_log_sd),
            (np.maximum(prompt.compute, prompt.weights) / prompt.total, body_log_sd),
        ),
    )


def _together(*parts: tuple[Array, float]) -> float:
    return float(np.sqrt(sum((float(np.max(share)) * log_sd) ** 2 for share, log_sd in parts)))
