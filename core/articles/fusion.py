"""GEMM, softmax and reshape on a tiled unit, in cycles, and which of them to fuse.

Traffic is what a tile must move once, not what it computes: a shape with reuse can be bound by the arithmetic units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

CONVERT_CYCLES = 1.8
"""Of one hand-off between two number formats; the article's figure, an average since a cycle count is whole."""

SOFTMAX_OPS = 5  # per element: subtract, exponential, two accumulations, divide
SOFTMAX_BYTE = 2  # of an element in and of one out


def gemm_byte(n: Array, k: Array, m: Array, in_bit: float, out_bit: float) -> Array:
    """Return the bytes of a product (n x k)(k x m) that reads each input and writes each output once [byte].

    References
    ----------
    docs/articles.md, A06: 98304 byte for 128 x 512 x 128 with 4-bit inputs and 16-bit outputs.
    """
    for name, value in (("n", n), ("k", k), ("m", m), ("in_bit", in_bit), ("out_bit", out_bit)):
        check_range(name, value, 0.0, open_low=True)
    inputs = np.multiply(n, k) + np.multiply(k, m)
    return (inputs * in_bit + np.multiply(n, m) * out_bit) / BIT_PER_BYTE


def roofline_cycles(moved_byte: Array, work: Array, byte_cycle: Array, work_cycle: Array) -> Array:
    """Return the cycles of a stage that overlaps moving and working, ``max(bytes / BW, work / rate)``."""
    check_range("byte_cycle", byte_cycle, 0.0, open_low=True)
    check_range("work_cycle", work_cycle, 0.0, open_low=True)
    return np.maximum(np.divide(moved_byte, byte_cycle), np.divide(work, work_cycle))


def softmax_cycles(n_elements: Array, byte_cycle: Array, lanes: Array) -> Array:
    """Return the cycles of a softmax that reads and writes its elements in 16 bit.

    References
    ----------
    docs/articles.md, A06: 1024 cycles for 128 x 128 at 64 byte and 128 lanes a cycle.
    """
    check_range("n_elements", n_elements, 0.0)
    moved = 2 * SOFTMAX_BYTE * np.asarray(n_elements)
    return roofline_cycles(moved, SOFTMAX_OPS * np.asarray(n_elements), byte_cycle, lanes)


def reshape_cycles(n_elements: Array, byte_cycle: Array, *, is_view: bool) -> Array:
    """Return the cycles of a reshape: none for a view, one read and one write of 16-bit elements for a copy.

    Parameters
    ----------
    n_elements, byte_cycle : float or array
        Elements, >= 0, and bytes moved a cycle, > 0.
    is_view : bool
        Nothing is moved.

    References
    ----------
    docs/articles.md, A06: 1024 cycles for 128 x 128 at 64 byte a cycle, 0 for a view.
    """
    check_range("n_elements", n_elements, 0.0)
    check_range("byte_cycle", byte_cycle, 0.0, open_low=True)
    return np.asarray(n_elements) * (0.0 if is_view else 2.0 * SOFTMAX_BYTE / np.asarray(byte_cycle))


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator: its cycles alone, the bytes it hands to the next, and the registers it needs."""

    name: str
    cycles: float
    out_byte: float
    n_registers: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to group consecutive stages into fused kernels."""

    groups: tuple[tuple[str, ...], ...]
    cycles: float


def fused_cycles(
    group: Sequence[Stage],
    byte_cycle: float,
    n_registers: int,
    register_byte: float,
    *,
    convert: float = CONVERT_CYCLES,
) -> float:
    """Return the cycles of stages fused into one kernel.

    ``sum(stages) - bytes_saved / BW - n_cvt * convert + 2 max(0, R_need - R_have) * register_byte / BW``: what is
    handed over inside is neither written nor read again nor converted; missing registers are spilled and reloaded. The
    cycles of a stage hold what fusing saves: its part of the traffic, and the conversion of its output.

    References
    ----------
    docs/articles.md, A07.
    """
    check_range("byte_cycle", byte_cycle, 0.0, open_low=True)
    check_range("n_registers", n_registers, 0)
    check_range("register_byte", register_byte, 0.0)
    handed = group[:-1]
    saved = sum(2.0 * stage.out_byte for stage in handed) / byte_cycle + len(handed) * convert
    work = sum(stage.cycles for stage in group) - saved
    check_range("cycles of the stages less what fusing them saves", work, 0.0)
    missing = max(0, sum(stage.n_registers for stage in group) - n_registers)
    return work + 2.0 * missing * register_byte / byte_cycle


def fusion_plans(stages: Sequence[Stage], byte_cycle: float, n_registers: int, register_byte: float) -> list[Plan]:
    """Return every way to fuse consecutive stages, fastest first. `n` stages have ``2**(n-1)`` plans; at most 12."""
    check_range("number of stages", len(stages), 1, 12)
    plans = []
    for cuts in product((False, True), repeat=len(stages) - 1):
        groups = _split(stages, cuts)
        cycles = sum(fused_cycles(group, byte_cycle, n_registers, register_byte) for group in groups)
        plans.append(Plan(tuple(tuple(stage.name for stage in group) for group in groups), cycles))
    return sorted(plans, key=lambda plan: (plan.cycles, len(plan.groups)))


def _split(stages: Sequence[Stage], cuts: Sequence[bool]) -> list[list[Stage]]:
    groups = [[stages[0]]]
    for stage, cut in zip(stages[1:], cuts, strict=True):
        if cut:
            groups.append([stage])
        else:
            groups[-1].append(stage)
    return groups
