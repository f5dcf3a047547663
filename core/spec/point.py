"""The operating point: one point of the design space."""

from __future__ import annotations

from dataclasses import dataclass

from core.spec.estimate import Array
from core.spec.runtime import OWN_RUNTIME

POLICIES = (
    "sinks_recent",
    "key_norm",
    "attention_mass",
    "snapkv",
    "expected_attention",
    "page_bounds",
    "rope_sensitivity",
    "composite",
)
"""Pruning policies: rules that select the cached tokens to keep."""

COMPOSITE = "composite"
"""The policy that adds ranks of attention mass, small key norm, recency and sensitivity to position."""
SCORE_WEIGHTS = ("0.5/0.25/0.25/0", "0.4/0.3/0.2/0.1", "0.25/0.25/0.25/0.25")
"""Offered weights of that sum, the usual ones first; any other may be typed."""

LAYOUTS = ("compacted", "paged", "masked")
"""Memory layouts of the kept tokens, which determine the bytes that pruning saves."""
KV_LAYOUTS = ("head_major", "token_major", "blocked")
"""Memory layouts of a KV cache: [head, token, value], [token, head, value], [head, block, token, value in block]."""
SPARSITY_PATTERNS = ("2:4", "rows", "unstructured")
"""Places of zero weights: two of four neighbours, whole rows, anywhere."""
ADAPTED = ("attention", "all")
"""Matrices with low-rank adapters: query, key, value and output projections, or those of the feed-forward as well."""


COMPENSATIONS = ("none", "offsets", "feedback", "both")
"""Compensations of quantised weights in the measured decoder: per-channel offsets of the live parameter set (outer
loop), rounding with error feedback (inner loop), or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """One point of the design space. Sliders write it; predictions, measurements and presets read it. Batch size is 1.

    `core.spec.fields` describes each field, in the same order: its unit, range, label and option.

    `alpha` is the prune rate, the share of cached tokens removed, 0 <= alpha < 1. The kept tokens are re-selected every
    `reselect_tokens` generated tokens; 0 selects them once, after prefill. `beta` is the speed-up of arithmetic and
    unpacking relative to the board's default instruction set, > 0.
    """

    board: str = "this"
    power_mode: str = ""  # "" is the board's default
    model: str = "smollm2-135m"
    runtime: str = OWN_RUNTIME
    alpha: Array = 0.0
    bandwidth_byte_s: Array | None = None  # None is the board's own: the measured one, or the peak of its power mode
    beta: Array = 1.0
    context_tokens: Array = 1024.0
    weights: str = "int4"
    kv: str = "bf16"
    policy: str = "attention_mass"
    layout: str = "compacted"
    reselect_tokens: Array = 0.0
    head: str = ""  # weight format of the output head; "" is the one that `weights` implies
    graph_tokens: float = 0.0  # context that the prefill graphs were compiled for; 0 is the runtime's usual one
    power_limit_w: Array | None = None  # None is that of the power mode, where it has one
    compensation: str = "none"  # of quantised weights
    score_weights: str = SCORE_WEIGHTS[0]  # of the composite policy: mass, small norm, recency, phase
    activation_keep: Array = 1.0  # share of the feed-forward activations of a token that are kept
    kv_layout: str = ""  # memory layout of the whole KV cache; "" is the runtime's own
    weight_sparsity: Array = 0.0  # share of the weights of the layers that are zero
    sparsity_pattern: str = SPARSITY_PATTERNS[0]
    on_chip_frac: Array = 0.0  # share of the bytes of a token that on-chip memory serves
    on_chip_byte_s: Array | None = None  # None is the bandwidth of the board's on-chip memory
    adapter_rank: Array = 0.0  # 0 is no adapters
    adapter_matrices: str = ADAPTED[0]
