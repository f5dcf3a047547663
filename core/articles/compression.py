"""Sparsity, quantisation noise, activation pruning and low-rank adapters: their sizes and losses.

References
----------
.. [1] docs/articles.md B02, B05, B12
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from core.spec import Array
from core.units import BIT_PER_BYTE, check_range

HARD_CONCRETE = (2.0 / 3.0, -0.1, 1.1)
"""Temperature and stretch limits of the hard concrete gate (louizos2018, docs/references.md)."""


def expected_open_gates(log_alpha: Array, beta: float = HARD_CONCRETE[0]) -> Array:
    """Return the probability that a hard concrete gate is not 0, the differentiable stand-in for an L0 norm.

    ``p = sigmoid(log_alpha - beta ln(-gamma / zeta))`` with the stretch (gamma, zeta) = (-0.1, 1.1).

    Parameters
    ----------
    log_alpha : float or ndarray
        Location of the gate [1].
    beta : float
        Temperature [1], > 0.

    Returns
    -------
    float or ndarray
        Probability [1].

    Raises
    ------
    ValueError
        `beta` is not above 0, or `log_alpha` is NaN.

    References
    ----------
    .. [1] docs/articles.md B02
    .. [2] louizos2018, docs/references.md

    Examples
    --------
    >>> round(float(expected_open_gates(0.0)), 9)
    0.831822184
    """
    check_range("beta", beta, 0.0, open_low=True)
    check_range("log_alpha", log_alpha, -np.inf)
    _, gamma, zeta = HARD_CONCRETE
    opened: Array = np.exp(-np.logaddexp(0.0, beta * math.log(-gamma / zeta) - np.asarray(log_alpha)))
    return opened


def quantisation_mse(step: Array) -> Array:
    """Return the mean squared error of rounding to a uniform grid, ``step^2 / 12``.

    Parameters
    ----------
    step : float or ndarray
        Width of the grid [any unit], >= 0.

    Returns
    -------
    float or ndarray
        Error [square of the unit of `step`].

    Raises
    ------
    ValueError
        `step` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B02

    Examples
    --------
    >>> round(float(quantisation_mse(0.125)), 9)
    0.001302083
    """
    check_range("step", step, 0.0)
    return np.square(step) / 12.0


def quantisation_loss(hessian_diagonal: ArrayLike, step: ArrayLike) -> float:
    """Return the second-order rise of a loss by rounding each weight, ``1/2 sum_i h_i step_i^2 / 12``.

    Parameters
    ----------
    hessian_diagonal : array_like, shape (n,)
        Curvature h of the loss by each weight [nat per squared weight], >= 0.
    step : float or array_like, shape (n,)
        Width of each weight's grid [unit of the weights], >= 0.

    Returns
    -------
    float
        Rise of the loss [nat].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B02

    Examples
    --------
    >>> round(quantisation_loss([2.0] * 10, 2.0 / 2**4), 9)
    0.013020833
    """
    h = np.asarray(hessian_diagonal, dtype=float)
    check_range("hessian_diagonal", h, 0.0)
    return float(0.5 * np.sum(h * quantisation_mse(np.asarray(step, dtype=float))))


class JointLoss(NamedTuple):
    """The terms of `joint_loss`, unweighted, and their weighted sum.

    Attributes
    ----------
    task : float
        Loss of the task [nat].
    n_open : float
        Expected number of weights that stay [1].
    rounding : float
        Expected second-order rise of the task's loss [nat].
    read_s : float
        Expected time to read the weights that stay [s].
    total : float
        Weighted sum [nat].
    """

    task: float
    n_open: float
    rounding: float
    read_s: float
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
    """Return the loss of pruning and quantising together, differentiable in gates and grids.

    ``task + c1 sum p_i + c2 sum p_i h_i step_i^2 / 24 + c3 sum p_i b_i / (8 BW)`` with p of `expected_open_gates` and
    ``step = span / 2^b``. The mask is counted, not its product with the weights; rounding is weighed by the curvature
    of the task's loss; the time is that of the bits that stay. It replaces the printed ``task + l1 |W M|_0 + l2 KL(Q(W)
    || W) + l3 H(W M, hardware)``.

    Parameters
    ----------
    task : float
        Loss of the task, such as a cross-entropy [nat].
    log_alpha : array_like, shape (n,)
        Location of the gate of each weight or block of weights [1].
    hessian_diagonal : float or array_like, shape (n,)
        Curvature h of the task's loss by each [nat per squared weight], >= 0.
    span : float or array_like, shape (n,)
        Width of the quantised range [unit of the weights], >= 0.
    bits : float or array_like, shape (n,)
        Bits b of each [bit], 1 to 32.
    bandwidth_byte_s : float
        Effective bandwidth BW [byte/s], > 0.
    price : tuple of float
        c1, c2 [1] and c3 [nat/s], >= 0.

    Returns
    -------
    JointLoss
        The terms and their weighted sum [nat].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B02
    .. [2] louizos2018, docs/references.md

    Examples
    --------
    >>> found = joint_loss(0.0, np.zeros(10), 2.0, 2.0, 4.0, 1e9)
    >>> round(found.n_open, 8), round(found.rounding, 11)
    (8.31822184, 0.01083101802)
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
    """Return the Kullback-Leibler divergence of two distributions, ``sum p ln(p / q)``.

    Undefined for weight tensors, whose entries may be negative.

    Parameters
    ----------
    p : array_like, shape (n,)
        Distribution p [1], >= 0, summing to 1.
    q : array_like, shape (n,)
        Distribution q [1], >= 0, summing to 1.

    Returns
    -------
    float
        Divergence [nat]; infinite where q lacks the support of p.

    Raises
    ------
    ValueError
        An argument is no distribution.

    References
    ----------
    .. [1] docs/articles.md B02

    Examples
    --------
    >>> round(kl_divergence([0.5, 0.5, 0.0], [0.5, 0.25, 0.25]), 10), kl_divergence([0.5, 0.25, 0.25], [0.5, 0.5, 0.0])
    (0.3465735903, inf)
    """
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

    Parameters
    ----------
    skipped_frac : float or ndarray
        Share of the work skipped [1], 0 to below 1.

    Returns
    -------
    float or ndarray
        Speed-up [1].

    Raises
    ------
    ValueError
        `skipped_frac` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B05

    Examples
    --------
    >>> round(float(skip_speedup_bound(0.15)), 4)
    1.1765
    """
    check_range("skipped_frac", skipped_frac, 0.0, 1.0, open_high=True)
    return 1.0 / (1.0 - np.asarray(skipped_frac))


def bitmap_byte_ratio(keep_frac: Array, value_bit: float) -> Array:
    """Return the size of a pruned tensor stored as kept values and a bit mask over the dense size, ``keep + 1 / b``.

    Parameters
    ----------
    keep_frac : float or ndarray
        Share of values kept [1], 0 to 1.
    value_bit : float
        Bits b of a value [bit], >= 1.

    Returns
    -------
    float or ndarray
        Ratio of sizes [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B05

    Examples
    --------
    >>> round(float(bitmap_byte_ratio(0.85, 8)), 6), round(float(bitmap_byte_ratio(0.85, 16)), 6)
    (0.975, 0.9125)
    """
    check_range("keep_frac", keep_frac, 0.0, 1.0)
    check_range("value_bit", value_bit, 1.0)
    return np.asarray(keep_frac) + 1.0 / value_bit


def bitmap_break_even_keep(value_bit: float) -> float:
    """Return the share of kept values above which the mask costs more than pruning saves, ``1 - 1 / b``.

    Parameters
    ----------
    value_bit : float
        Bits b of a value [bit], >= 1.

    Returns
    -------
    float
        Share of values kept [1].

    Raises
    ------
    ValueError
        `value_bit` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B05

    Examples
    --------
    >>> bitmap_break_even_keep(8)
    0.875
    """
    check_range("value_bit", value_bit, 1.0)
    return 1.0 - 1.0 / value_bit


# --- low-rank adapters ------------------------------------------------------------------------------------------------


def adapter_params(in_size: Array, out_size: Array, rank: Array) -> Array:
    """Return the parameters of a low-rank update of an (out x in) matrix, ``rank (in + out)``.

    Parameters
    ----------
    in_size, out_size : int or ndarray
        Sizes of the matrix [1], >= 1.
    rank : int or ndarray
        Rank [1], 1 to the smaller size.

    Returns
    -------
    int or ndarray
        Parameters [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B12
    .. [2] hu2021, docs/references.md

    Examples
    --------
    >>> adapter_params(1024, 1024, 4)
    8192
    """
    for name, value in (("in_size", in_size), ("out_size", out_size)):
        check_range(name, value, 1)
    check_range("rank", rank, 1)
    check_range("rank / smaller size", np.divide(rank, np.minimum(in_size, out_size)), 0.0, 1.0)
    return rank * (in_size + out_size)


def adapter_reduction(in_size: Array, out_size: Array, rank: Array) -> Array:
    """Return the share of trainable parameters that an adapter saves, ``1 - rank (in + out) / (in out)``.

    The memory of the base model stays.

    Parameters
    ----------
    in_size, out_size : int or ndarray
        Sizes of the matrix [1], >= 1.
    rank : int or ndarray
        Rank [1], 1 to the smaller size.

    Returns
    -------
    float or ndarray
        Share of parameters [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md B12
    .. [2] hu2021, docs/references.md

    Examples
    --------
    >>> float(adapter_reduction(1024, 1024, 4))
    0.9921875
    """
    return 1.0 - adapter_params(in_size, out_size, rank) / (in_size * out_size)


def params_byte(n_params: Array, bits: float) -> Array:
    """Return the bytes of stored parameters, ``n b / 8``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters n [1], >= 0.
    bits : float
        Bits b of each [bit], >= 0.

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
    .. [1] docs/articles.md B12

    Examples
    --------
    >>> float(params_byte(8192, 16)), float(params_byte(304e6, 16)) / 1e6
    (16384.0, 608.0)
    """
    check_range("n_params", n_params, 0.0)
    check_range("bits", bits, 0.0)
    return np.multiply(n_params, bits / BIT_PER_BYTE)


ADAM_BYTE_PER_PARAM = 16
"""Memory of full fine-tuning in 32 bit [byte/parameter]: weight, gradient and two moments, 4 bytes each."""
