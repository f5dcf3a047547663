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
"""Which cached tokens a pruning keeps (the method)."""


LAYOUTS = ("compacted", "paged", "masked")
"""How the kept tokens lie in memory: it decides how many bytes pruning really saves."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One point of the design space. Sliders write it; predictions, measurements and presets read it. Batch is 1.

    `bandwidth_byte_s` None means the board's own (its power mode's peak, or what was measured on it).
    `alpha` is the share of cached tokens removed, 0 <= alpha < 1; which ones is chosen anew every `reselect_tokens`
    generated tokens, 0 meaning once, behind the prompt; `beta` is the speed-up of compute and unpacking
    relative to the board's default instruction set, > 0.
    """

    board: str = "this"
    runtime: str = OWN_RUNTIME
    power_mode: str = ""  # "" is the board's default
    model: str = "smollm2-135m"
    weights: str = "int4"
    kv: str = "bf16"
    policy: str = "attention_mass"
    layout: str = "compacted"
    head: str = ""  # weight format of the output head; "" is the one that `weights` gives it
    context_tokens: Array = 1024.0
    alpha: Array = 0.0
    reselect_tokens: Array = 0.0
    beta: Array = 1.0
    bandwidth_byte_s: Array | None = None
    graph_tokens: float = 0.0  # context that the prompt's graphs were compiled for; 0 is what its runtime's usually are


NUMERIC = ("context_tokens", "alpha", "reselect_tokens", "beta", "bandwidth_byte_s")
"""The fields of `OperatingPoint` that may be arrays."""
