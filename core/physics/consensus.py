"""Agreement among nodes: tolerated faults, size of a quorum, and the time of the k-th answer.

References
----------
.. [1] docs/physics.md M14
.. [2] docs/articles.md B16
.. [3] castro1999 and bessani2014, docs/references.md
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.spec import Array
from core.units import Z90, check_range


def byzantine_faults(n_nodes: int) -> int:
    """Return the largest number of faulty nodes that a group tolerates, ``f = floor((n - 1) / 3)``.

    Parameters
    ----------
    n_nodes : int
        Nodes n of the group [1], >= 1.

    Returns
    -------
    int
        Faulty nodes f [1].

    Raises
    ------
    ValueError
        `n_nodes` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16
    .. [3] castro1999, docs/references.md

    Examples
    --------
    >>> [byzantine_faults(n) for n in (4, 7, 10, 13)]
    [1, 2, 3, 4]
    """
    check_range("n_nodes", n_nodes, 1)
    return (n_nodes - 1) // 3


def quorum(n_nodes: int) -> int:
    """Return the equal votes that settle a question, ``ceil((n + f + 1) / 2)``.

    That is ``2 f + 1`` for ``n = 3 f + 1``, f being `byzantine_faults`.

    Parameters
    ----------
    n_nodes : int
        Nodes n of the group [1], >= 1.

    Returns
    -------
    int
        Votes [1].

    Raises
    ------
    ValueError
        `n_nodes` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16
    .. [3] bessani2014, docs/references.md

    Examples
    --------
    >>> [quorum(n) for n in (4, 7, 10, 13)]
    [3, 5, 7, 9]
    """
    return (n_nodes + byzantine_faults(n_nodes) + 2) // 2


def kth_exponential_s(k: int, n: int, mean_s: Array = 1.0) -> Array:
    """Return the mean of the k-th shortest of n independent exponential delays.

    ``E[k of n] = mean sum_{i<k} 1 / (n - i)``

    Parameters
    ----------
    k : int
        Answer k that is waited for [1], 1 to n.
    n : int
        Answers n in all [1], >= 1.
    mean_s : float or ndarray
        Mean delay of one answer [s], >= 0.

    Returns
    -------
    float or ndarray
        Mean delay of the k-th answer [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16

    Examples
    --------
    >>> round(float(kth_exponential_s(3, 4)), 5), round(float(kth_exponential_s(2, 3)), 5)
    (1.08333, 0.83333)
    """
    check_range("k", k, 1, n)
    check_range("mean_s", mean_s, 0.0)
    return np.asarray(mean_s) * math.fsum(1 / (n - i) for i in range(k))


def kth_delay_s(delay_s: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return the k-th shortest delay of each row of measured delays.

    Parameters
    ----------
    delay_s : ndarray, shape (..., n)
        Measured one-way delays [s].
    k : int
        Answer k that is waited for [1], 1 to n.

    Returns
    -------
    ndarray, shape (...)
        The k-th shortest delay of each row [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16

    Examples
    --------
    >>> kth_delay_s(np.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]]), 2).tolist()
    [2.0, 8.0]
    """
    check_range("k", k, 1, delay_s.shape[-1])
    return np.asarray(np.partition(delay_s, k - 1, axis=-1)[..., k - 1])


def one_way_s(total_s: Array, n_hops: int) -> Array:
    """Return the time of one of the equal hops that make up a round, ``T / h``.

    Parameters
    ----------
    total_s : float or ndarray
        Time T of the round [s], >= 0.
    n_hops : int
        Hops h [1], >= 1.

    Returns
    -------
    float or ndarray
        One-way time [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16

    Examples
    --------
    >>> round(float(one_way_s(83e-3, 5)) * 1e3, 6)
    16.6
    """
    check_range("n_hops", n_hops, 1)
    check_range("total_s", total_s, 0.0)
    return np.asarray(total_s) / n_hops


def consensus_delay_s(
    n_nodes: int, n_rounds: int, n_hops: int, mean_s: float, q95_s: float, n_draws: int = 20_000, seed: int = 0
) -> NDArray[np.float64]:
    """Return simulated delays of a decision: in each round a quorum of answers is waited for.

    ``T = sum over rounds of the q-th shortest of n sums of h hops``, q being `quorum`. Hops are independent and
    log-normal.

    Parameters
    ----------
    n_nodes : int
        Nodes n of the group [1], 1 to 1000.
    n_rounds : int
        Rounds of the protocol [1], 1 to 100.
    n_hops : int
        Hops h of an answer, there and back [1], 1 to 100.
    mean_s : float
        Mean delay of a hop [s], > 0.
    q95_s : float
        95 % quantile of the delay of a hop [s], 1 to 3.87 times the mean.
    n_draws : int
        Draws [1], 1 to 1000000.
    seed : int
        Seed of the draws [1].

    Returns
    -------
    ndarray, shape (n_draws,)
        Delays of a decision [s].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16

    Examples
    --------
    >>> t = consensus_delay_s(4, 3, 2, 5e-3, 9e-3)
    >>> bool(0.03 < t.mean() < np.quantile(t, 0.95) < 0.06)
    True
    """
    check_range("n_nodes", n_nodes, 1, 1000)
    check_range("n_rounds", n_rounds, 1, 100)
    check_range("n_hops", n_hops, 1, 100)
    check_range("n_draws", n_draws, 1, 1_000_000)
    log_sd = lognormal_sd(mean_s, q95_s)
    rng = np.random.default_rng(seed)
    total = np.zeros(n_draws)
    for _ in range(n_rounds):
        answer = np.zeros((n_draws, n_nodes))
        for _ in range(n_hops):
            answer += rng.lognormal(math.log(mean_s) - log_sd**2 / 2, log_sd, answer.shape)
        total += kth_delay_s(answer, quorum(n_nodes))
    return total


def lognormal_sd(mean: float, q95: float) -> float:
    """Return the log-sd of a log-normal with a given mean and 95 % quantile.

    The smaller root of ``s^2 / 2 - z s + ln(q95 / mean) = 0``, z = 1.645.

    Parameters
    ----------
    mean : float
        Mean [any unit], > 0.
    q95 : float
        95 % quantile [unit of `mean`], 1 to ``exp(z^2 / 2)`` times the mean.

    Returns
    -------
    float
        Standard deviation of the natural logarithm [1].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M14
    .. [2] docs/articles.md B16

    Examples
    --------
    >>> round(lognormal_sd(83.0, 110.0), 10)
    0.1812061495
    """
    check_range("mean", mean, 0.0, open_low=True)
    check_range("q95 / mean", q95 / mean, 1.0, math.exp(Z90**2 / 2))
    return Z90 - math.sqrt(Z90**2 - 2 * math.log(q95 / mean))
