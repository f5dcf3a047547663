"""What the measured run needs of an operating point.

A board does not have `core.spec.fields`; a test compares the ranges here with those of that table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from kernels.cache import contiguous, laid_out
from kernels.decoder import compensation, linear
from kernels.eviction import policies, prune

NOT_APPLIED = ("weight_sparsity", "on_chip_frac", "adapter_rank")
"""Fields that a run cannot set; 0 is none."""
LEAST_KEEP = 0.01


@dataclass(frozen=True, slots=True)
class Point:
    """A checked operating point."""

    weights: str
    kv: str
    context_tokens: int
    alpha: float
    policy: str
    layout: str
    bandwidth_byte_s: float | None = None  # to be left to the run; None is all that the machine has
    threads: int | None = None  # None is one for each processor
    reselect_tokens: int = 0  # tokens between two choices of what is read; 0 is once, behind the prompt
    compensation: str = "none"
    score_weights: tuple[float, ...] = policies.SCORE_WEIGHTS  # of the composite policy
    activation_keep: float = 1.0  # share of a token's feed-forward activations that are kept
    kv_layout: str = ""  # one of `kernels.cache.laid_out.LAYOUTS`; "" is the decoder's own

    @classmethod
    def checked(cls, point: Mapping[str, Any], max_context_tokens: int) -> Point:
        """Check a point; ValueError in one sentence when the run cannot apply it."""
        for name, allowed in (
            ("weights", linear.FORMATS),
            ("kv", contiguous.FORMATS),
            ("policy", policies.POLICIES),
            ("layout", prune.LAYOUTS),
        ):
            if point.get(name) not in allowed:
                raise ValueError(f"{name}: got {point.get(name)!r}, expected one of {', '.join(allowed)}")
        if point.get("head"):
            raise ValueError(f"head: got {point['head']!r}, expected none: the head has the precision of the weights")
        context, alpha = (_number(point.get(name), name) for name in ("context_tokens", "alpha"))
        if not (context.is_integer() and 2 <= context <= max_context_tokens):
            raise ValueError(f"context_tokens: got {context:g}, expected a whole number from 2 to {max_context_tokens}")
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha: got {alpha:g}, expected 0 <= alpha < 1")
        every = _number(point.get("reselect_tokens", 0), "reselect_tokens")
        if not (every.is_integer() and every >= 0):
            raise ValueError(f"reselect_tokens: got {every:g}, expected a whole number, 0 for once")
        if every and point["layout"] == "masked":
            raise ValueError("layout: got masked, expected compacted or paged where tokens are chosen anew")
        held: dict[str, Any] = {name: point.get(name) for name in ("weights", "kv", "policy", "layout")}
        held |= {"reselect_tokens": int(every)}
        return cls(context_tokens=int(context), alpha=alpha, **held, **_options(point), **_machine(point))

    def option_notes(self, conditions: Mapping[str, Any]) -> list[str]:
        """Return sentences on options that change how a token is decoded."""
        notes = []
        if self.activation_keep < 1:
            notes.append(
                f"{1 - self.activation_keep:.0%} of the feed-forward activations of each token were set to zero, the "
                "smallest; no kernel skips them, and the token is decoded operator by operator."
            )
        if self.kv_layout:
            notes.append(
                f"The KV cache was read {self.kv_layout.replace('_', ' ')} and operator by operator; moving that of "
                f"the prompt into this layout takes {1e3 * conditions['relayout_s']['median']:.2f} ms once."
            )
        return notes

    @property
    def is_limited(self) -> bool:
        """Whether the run gets less of the machine than there is."""
        return self.bandwidth_byte_s is not None or self.threads is not None

    @property
    def is_reference(self) -> bool:
        """Whether accuracy is measured against this very point: full precision, nothing pruned."""
        return (self.weights, self.kv, self.alpha, self.activation_keep) == ("fp32", "fp32", 0, 1)


def _options(point: Mapping[str, Any]) -> dict[str, Any]:
    """Check the fields that a point may lack."""
    kind = point.get("compensation", "none")
    if kind not in compensation.KINDS:
        raise ValueError(f"compensation: got {kind!r}, expected one of {', '.join(compensation.KINDS)}")
    for name in (name for name in NOT_APPLIED if point.get(name)):
        raise ValueError(f"{name}: got {point[name]!r}, expected none: the model file and the board decide it")
    given = point.get("score_weights")
    if not isinstance(given, str | None):
        raise ValueError(f"score_weights: got {given!r:.60}, expected a text such as 0.4/0.3/0.2/0.1")
    weights = policies.SCORE_WEIGHTS if given is None else policies.score_weights(given)
    keep = _number(point.get("activation_keep", 1.0), "activation_keep")
    if not LEAST_KEEP <= keep <= 1:
        raise ValueError(f"activation_keep: got {keep:g}, expected {LEAST_KEEP} to 1")
    layout = point.get("kv_layout") or ""
    if layout and layout not in laid_out.LAYOUTS:
        raise ValueError(f"kv_layout: got {layout!r}, expected one of {', '.join(laid_out.LAYOUTS)}")
    if layout and point["kv"] not in laid_out.FORMATS:
        formats = ", ".join(laid_out.FORMATS)
        raise ValueError(f"kv_layout: got {layout!r} with kv {point['kv']}, expected a kv without scales: {formats}")
    return {"compensation": kind, "score_weights": weights, "activation_keep": keep, "kv_layout": layout}


def _machine(point: Mapping[str, Any]) -> dict[str, Any]:
    """Check what the point asks of the machine."""
    bandwidth, mode = point.get("bandwidth_byte_s"), str(point.get("power_mode") or "")
    named = re.fullmatch(r"(\d+) threads?", mode)
    threads = int(named[1]) if named else point.get("threads")
    if bandwidth is not None and not 1e3 <= _number(bandwidth, "bandwidth_byte_s") <= 1e18:
        raise ValueError(f"bandwidth_byte_s: got {bandwidth:g}, expected 1 kB/s to 1 EB/s, or none")
    if threads is None:
        return {"bandwidth_byte_s": bandwidth}
    most = torch.get_num_threads()
    if not (_number(threads, "threads").is_integer() and 1 <= threads <= most):
        raise ValueError(f"threads: got {threads:g}, expected a whole number from 1 to {most}")
    if bandwidth is not None:
        raise ValueError("threads, bandwidth_byte_s: got both, expected one: a bandwidth is set by threads too")
    return {"threads": int(threads)}


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: got {value!r}, expected a finite number")
    return float(value)
