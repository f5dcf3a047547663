"""Sparsity, quantisation noise, activation pruning and low-rank adapters: their sizes and losses."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

HARD_CONCRETE = (2.0 / 3.0, -0.1, 1.1)
"""Temperature and stretch limits of the hard concrete gate (Louizos et al., arXiv 1712.01312)."""


def expected_open_gates(log_alpha: Array, beta: float = HARD_CONCRETE[0]) -> Array:
    """Return the probability that a hard concrete gate is not zero: the differentiable stand-in for an L0 norm.

    ``sigmoid(log_alpha - beta ln(-gamma / zeta))`` with the stretch (gamma, zeta) = (-0.1, 1.1).

    References
    ----------
    docs/articles.md, B02: 0.8318 at log_alpha = 0.
    """
    check_range("beta", beta, 0.0, open_low=True)
    check_range("log_alpha", log_alpha, -np.inf)
    _, gamma, zeta = HARD_CONCRETE
    opened: Array = np.exp(-np.logaddexp(0.0, beta * math.log(-gamma / zeta) - np.asarray(log_alpha)))
    return opened


def quantisation_mse(step: Array) -> Array:
    """Return the mean squared error of rounding to a uniform grid, ``step**2 / 12``.

    References
    ----------
    docs/articles.md, B02: within 0.15 % of a simulation at 3 to 8 bits.
    """
    check_range("step", step, 0.0)
    return np.square(step) / 12.0


def quantisation_loss(hessian_diagonal: ArrayLike, step: ArrayLike) -> float:
    """Return the second-order rise of a loss by rounding each weight, ``1/2 sum_i h_i step_i**2 / 12``."""
    h = np.asarray(hessian_diagonal, dtype=float)
    check_range("hessian_diagonal", h, 0.0)
    return float(0.5 * np.sum(h * quantisation_mse(np.asarray(step, dtype=float))))


class JointLoss(NamedTuple):
    """The terms of `joint_loss`, unweighted, and their weighted sum."""

    task: float
    n_open: float  # expected weights that stay
    rounding: float  # expected second-order rise of the task's loss
    read_s: float  # expected time to read what stays [s]
    total: float


def joint_loss(
    task: float,
    log_alpha: ArrayLike,
    hessian_diagonal: ArrayLike,
    span: ArrayLike,
    bits: ArrayLike,
    bandwidth_byte_s: float,
    price: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> JointLoss:
    """Return the loss of pruning and quantising together, differentiable in what is chosen by gradients.

    ``task + c1 sum p_i + c2 sum p_i h_i step_i**2 / 24 + c3 sum p_i b_i / (8 BW)`` with p the `expected_open_gates`
    and ``step = span / 2**b``: the mask is counted, not its product with the weights; rounding is judged by what it
    costs the task; and the time is that of the bits that stay.

    Parameters
    ----------
    task : float
        Loss of the task, such as a cross-entropy [nat].
    log_alpha : array, shape (n,)
        Of the gate of each weight, or of each block of them.
    hessian_diagonal : float or array, shape (n,)
        Curvature h of the task's loss by each, >= 0.
    span : float or array, shape (n,)
        Width of the range that is quantised, >= 0.
    bits : float or array, shape (n,)
        Of each, 1 to 32.
    bandwidth_byte_s : float
        Effective bandwidth, > 0 [byte/s].
    price : three floats
        c1, c2 and c3 [per second], >= 0.

    References
    ----------
    docs/articles.md, B02: what stands in place of ``task + l1 |W M|_0 + l2 KL(Q(W) || W) + l3 H(W M, hardware)``.
    """
    check_range("bits", bits, 1.0, 32.0)
    check_range("span", span, 0.0)
    check_range("hessian_diagonal", hessian_diagonal, 0.0)
    check_range("bandwidth_byte_s", bandwidth_byte_s, 0.0, open_low=True)
    check_range("price", price, 0.0)
    opened, b = np.asarray(expected_open_gates(np.asarray(log_alpha, dtype=float))), np.asarray(bits, dtype=float)
    step = np.asarray(span, dtype=float) / 2.0**b
    rounding = float(np.sum(0.5 * opened * np.asarray(hessian_diagonal) * quantisation_mse(step)))
    n_open, read_s = float(np.sum(opened)), float(np.sum(opened * b)) / (BIT_PER_BYTE * bandwidth_byte_s)
    total = task + price[0] * n_open + price[1] * rounding + price[2] * read_s
    return JointLoss(task, n_open, rounding, read_s, total)


def kl_divergence(p: ArrayLike, q: ArrayLike) -> float:
    """Return ``sum p ln(p / q)`` of two distributions [nat], infinite where q lacks support; undefined for weights."""
    p_, q_ = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    for name, values in (("p", p_), ("q", q_)):
        check_range(name, values, 0.0)
        check_range(f"sum of {name}", values.sum(), 1.0 - 1e-9, 1.0 + 1e-9)
    support = p_ > 0.0
    if np.any(q_[support] == 0.0):
        return math.inf
    return float(np.sum(p_[support] * np.log(p_[support] / q_[support])))


# --- activation pruning -----------------------------------------------------------------------------------------------


def skip_speedup_bound(skipped_frac: Array) -> Array:
    """Return the largest speed-up of skipping a share of the work, ``1 / (1 - skipped)``.

    References
    ----------
    docs/articles.md, B05: 1.176 for 15 %.
    """
    check_range("skipped_frac", skipped_frac, 0.0, 1.0, open_high=True)
    return 1.0 / (1.0 - np.asarray(skipped_frac))


def bitmap_byte_ratio(keep_frac: Array, value_bit: float) -> Array:
    """Return the size of a pruned tensor stored as kept values and a bit mask, over the dense size, ``keep + 1 / b``.

    References
    ----------
    docs/articles.md, B05: 0.975 at keep 0.85 in INT8.
    """
    check_range("keep_frac", keep_frac, 0.0, 1.0)
    check_range("value_bit", value_bit, 1.0)
    return np.asarray(keep_frac) + 1.0 / value_bit


def bitmap_break_even_keep(value_bit: float) -> float:
    """Return the share of kept values above which the mask costs more than pruning saves, ``1 - 1 / b``."""
    check_range("value_bit", value_bit, 1.0)
    return 1.0 - 1.0 / value_bit


# --- low-rank adapters ------------------------------------------------------------------------------------------------


def adapter_params(in_size: Array, out_size: Array, rank: Array) -> Array:
    """Return the parameters of a low-rank update of an (out x in) matrix, ``rank (in + out)``.

    Parameters
    ----------
    in_size, out_size, rank : int or array
        >= 1; the rank at most the smaller size.

    References
    ----------
    docs/articles.md, B12: 8192 for 1024 x 1024 at rank 4.
    """
    for name, value in (("in_size", in_size), ("out_size", out_size)):
        check_range(name, value, 1)
    check_range("rank", rank, 1)
    check_range("rank / smaller size", np.divide(rank, np.minimum(in_size, out_size)), 0.0, 1.0)
    return rank * (in_size + out_size)


def adapter_reduction(in_size: Array, out_size: Array, rank: Array) -> Array:
    """Return the share of trainable parameters that an adapter saves, not of the base model's memory."""
    return 1.0 - adapter_params(in_size, out_size, rank) / (in_size * out_size)


def params_byte(n_params: Array, bits: float) -> Array:
    """Return the bytes of parameters stored in `bits` bits [byte]; both >= 0."""
    check_range("n_params", n_params, 0.0)
    check_range("bits", bits, 0.0)
    return np.multiply(n_params, bits / BIT_PER_BYTE)


ADAM_BYTE_PER_PARAM = 16
"""Of full fine-tuning in 32 bit: weight, gradient and two moments, 4 bytes each."""
