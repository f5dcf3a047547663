"""Cycles of GEMM, softmax and reshape on a tiled unit, and of their fusion.

Traffic counts each byte of a tile once, not each product: a shape with reuse can be bound by the arithmetic units.

References
----------
.. [1] docs/articles.md A06, A07
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

CONVERT_CYCLES = 1.8
"""Conversion between two number formats [cycle]; the article's figure, an average since a cycle count is whole."""

SOFTMAX_OPS = 5  # per element: subtract, exponential, two accumulations, divide
SOFTMAX_BYTE = 2  # of an element in and of one out


def gemm_byte(n: Array, k: Array, m: Array, in_bit: float, out_bit: float) -> Array:
    """Return the bytes of a product (n x k)(k x m) that reads each input and writes each output once.

    ``((n k + k m) b_in + n m b_out) / 8``

    Parameters
    ----------
    n, k, m : float or ndarray
        Sizes of the matrices [1], > 0.
    in_bit, out_bit : float
        Bits of an input and of an output element [bit], > 0.

    Returns
    -------
    float or ndarray
        Bytes [byte].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A06

    Examples
    --------
    >>> float(gemm_byte(128, 512, 128, 4, 16)), float(gemm_byte(128, 512, 128, 4, 32))
    (98304.0, 131072.0)
    """
    for name, value in (("n", n), ("k", k), ("m", m), ("in_bit", in_bit), ("out_bit", out_bit)):
        check_range(name, value, 0.0, open_low=True)
    inputs = np.multiply(n, k) + np.multiply(k, m)
    return (inputs * in_bit + np.multiply(n, m) * out_bit) / BIT_PER_BYTE


def roofline_cycles(moved_byte: Array, work: Array, byte_cycle: Array, work_cycle: Array) -> Array:
    """Return the cycles of a stage that overlaps moving and computing, ``max(bytes / BW, work / rate)``.

    Parameters
    ----------
    moved_byte : float or ndarray
        Bytes moved [byte].
    work : float or ndarray
        Operations or multiply-adds [1].
    byte_cycle : float or ndarray
        Bytes moved a cycle, BW [byte/cycle], > 0.
    work_cycle : float or ndarray
        Work a cycle, the rate [1/cycle], > 0.

    Returns
    -------
    float or ndarray
        Cycles [cycle].

    Raises
    ------
    ValueError
        `byte_cycle` or `work_cycle` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A06

    Examples
    --------
    >>> float(roofline_cycles(98304, 128 * 512 * 128, 64.0, 4096.0))
    2048.0
    """
    check_range("byte_cycle", byte_cycle, 0.0, open_low=True)
    check_range("work_cycle", work_cycle, 0.0, open_low=True)
    return np.maximum(np.divide(moved_byte, byte_cycle), np.divide(work, work_cycle))


def softmax_cycles(n_elements: Array, byte_cycle: Array, lanes: Array) -> Array:
    """Return the cycles of a softmax that reads and writes its elements in 16 bit.

    ``max(2 * 2 n / BW, 5 n / lanes)``: five operations an element.

    Parameters
    ----------
    n_elements : float or ndarray
        Elements n [1], >= 0.
    byte_cycle : float or ndarray
        Bytes moved a cycle, BW [byte/cycle], > 0.
    lanes : float or ndarray
        Operations a cycle [1/cycle], > 0.

    Returns
    -------
    float or ndarray
        Cycles [cycle].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A06

    Examples
    --------
    >>> float(softmax_cycles(128 * 128, 64.0, 128.0))
    1024.0
    """
    check_range("n_elements", n_elements, 0.0)
    moved = 2 * SOFTMAX_BYTE * np.asarray(n_elements)
    return roofline_cycles(moved, SOFTMAX_OPS * np.asarray(n_elements), byte_cycle, lanes)


def reshape_cycles(n_elements: Array, byte_cycle: Array, *, is_view: bool) -> Array:
    """Return the cycles of a reshape: none for a view, ``2 * 2 n / BW`` for a copy of 16-bit elements.

    Parameters
    ----------
    n_elements : float or ndarray
        Elements n [1], >= 0.
    byte_cycle : float or ndarray
        Bytes moved a cycle, BW [byte/cycle], > 0.
    is_view : bool
        Whether nothing is moved.

    Returns
    -------
    float or ndarray
        Cycles [cycle].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A06

    Examples
    --------
    >>> [float(reshape_cycles(128 * 128, 64.0, is_view=view)) for view in (False, True)]
    [1024.0, 0.0]
    """
    check_range("n_elements", n_elements, 0.0)
    check_range("byte_cycle", byte_cycle, 0.0, open_low=True)
    return np.asarray(n_elements) * (0.0 if is_view else 2.0 * SOFTMAX_BYTE / np.asarray(byte_cycle))


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator of a chain.

    Attributes
    ----------
    name : str
        Name of the operator.
    cycles : float
        Cycles alone [cycle], with its traffic and the conversion of its output.
    out_byte : float
        Bytes handed to the next operator [byte].
    n_registers : int
        Registers needed [1].
    """

    name: str
    cycles: float
    out_byte: float
    n_registers: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to group consecutive stages into fused kernels.

    Attributes
    ----------
    groups : tuple of tuple of str
        Names of the stages of each kernel.
    cycles : float
        Cycles of all kernels [cycle].
    """

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

    ``sum(stages) - bytes_saved / BW - n_cvt convert + 2 max(0, R_need - R_have) register_byte / BW``: what stages hand
    over inside the kernel is neither written nor read again nor converted; missing registers are spilled and reloaded.

    Parameters
    ----------
    group : sequence of Stage
        The stages of the kernel.
    byte_cycle : float
        Bytes moved a cycle, BW [byte/cycle], > 0.
    n_registers : int
        Registers R_have of the unit [1], >= 0.
    register_byte : float
        Bytes of a register [byte], >= 0.
    convert : float
        Cycles of one conversion [cycle].

    Returns
    -------
    float
        Cycles [cycle].

    Raises
    ------
    ValueError
        An argument is outside its range, or fusing saves more than the stages take.

    References
    ----------
    .. [1] docs/articles.md A07

    Examples
    --------
    >>> gemm, softmax = Stage("gemm", 2049.8, 32768.0, 64), Stage("softmax", 1024.0, 32768.0, 64)
    >>> round(fused_cycles([gemm, softmax], 64.0, 128, 64.0), 6)
    2048.0
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
    """Return every way to fuse consecutive stages, the fastest first.

    ``2^(n - 1)`` plans of n stages, each with the cycles of `fused_cycles`.

    Parameters
    ----------
    stages : sequence of Stage
        The stages in order, 1 to 12.
    byte_cycle : float
        Bytes moved a cycle [byte/cycle], > 0.
    n_registers : int
        Registers of the unit [1], >= 0.
    register_byte : float
        Bytes of a register [byte], >= 0.

    Returns
    -------
    list of Plan
        Groups and cycles [cycle] of each plan.

    Raises
    ------
    ValueError
        An argument is outside its range, or fusing saves more than the stages take.

    References
    ----------
    .. [1] docs/articles.md A07

    Examples
    --------
    >>> gemm, softmax = Stage("gemm", 2049.8, 32768.0, 64), Stage("softmax", 1024.0, 32768.0, 64)
    >>> [(plan.groups, round(plan.cycles, 6)) for plan in fusion_plans([gemm, softmax], 64.0, 128, 64.0)]
    [((('gemm', 'softmax'),), 2048.0), ((('gemm',), ('softmax',)), 3073.8)]
    """
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
