"""Cases of the bench: what the dispatcher chose, against each variant that it did not choose. Shapes are those of the
subjects linear and prefill.

Timed in alternation, the chosen one is to be no more than a twentieth slower than any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from kernels.attention.prefill import cases as prefill_cases
from kernels.attention.prefill import fastest_variant
from kernels.bench import linear, prefill
from kernels.bench.harness import Case
from kernels.decoder.dispatch import chosen_variant, offered_cases

GOAL = 1 / 1.05
"""Time of the other variant over that of the chosen one."""


def cases(quick: bool, device: str) -> Iterator[Case]:
    """Yield the cases; `quick` takes one shape."""
    for shape in linear.QUICK_SHAPES if quick else linear.SHAPES:
        for weight_format in linear.FORMATS:
            offered = {case.variant: case for case in offered_cases(weight_format, shape, device)}
            if len(offered) > 1:
                yield from _against_others(offered, chosen_variant(weight_format, shape, device).name)
    if torch.device(device).type == "cpu":
        for heads in prefill.QUICK_SHAPES if quick else prefill.SHAPES:
            offered = {case.variant: case for case in prefill_cases(heads, torch.float32)}
            yield from _against_others(offered, fastest_variant(*heads[:3]))


def _against_others(offered: dict[str, Case], chosen: str) -> Iterator[Case]:
    for other in offered.values():
        if other.variant != chosen and not other.trap:
            name = f"dispatch of {other.name}, not {other.variant}"
            yield replace(offered[chosen], name=name, baseline=other.run, goal_share=None, goal_speedup=GOAL)
