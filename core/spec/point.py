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
)
"""Pruning policies: rules that select the cached tokens to keep."""


LAYOUTS = ("compacted", "paged", "masked")
"""Memory layouts of the kept tokens, which determine the bytes that pruning saves."""


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
