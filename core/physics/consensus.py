"""Agreement among nodes: how many faults a group stands, how large a quorum is, how long the k-th answer takes.

References
----------
docs/physics.md, M12 and M14; quantities, B16. Castro and Liskov, OSDI 1999.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from core.spec import Array
from core.units import Z90, check_range


def byzantine_faults(n_nodes: int) -> int:
    """Most nodes that may lie in a group of n, ``floor((n - 1) / 3)``; n >= 1."""
    check_range("n_nodes", n_nodes, 1)
    return (n_nodes - 1) // 3


def quorum(n_nodes: int) -> int:
    """Equal votes that settle a question whatever the liars say, ``ceil((n + f + 1) / 2)`` (2 f + 1 of 3 f + 1)."""
    return (n_nodes + byzantine_faults(n_nodes) + 2) // 2


def kth_exponential_s(k: int, n: int, mean_s: Array = 1.0) -> Array:
    """Mean time of the k-th of n independent exponential delays, ``mean sum_{i<k} 1/(n - i)`` [s]; 1 <= k <= n."""
    check_range("k", k, 1, n)
    check_range("mean_s", mean_s, 0.0)
    return np.asarray(mean_s) * math.fsum(1 / (n - i) for i in range(k))


def kth_delay_s(delay_s: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The k-th shortest of each row of measured one-way delays, (m, n) to (m,) [s]."""
    check_range("k", k, 1, delay_s.shape[-1])
    return np.asarray(np.partition(delay_s, k - 1, axis=-1)[..., k - 1])


def one_way_s(total_s: Array, n_hops: int) -> Array:
    """One-way time if a round of `n_hops` equal hops takes `total_s` [s]."""
    check_range("n_hops", n_hops, 1)
    check_range("total_s", total_s, 0.0)
    return np.asarray(total_s) / n_hops


def lognormal_sd(mean: float, q95: float) -> float:
    """Log-standard deviation of a log-normal with a given mean and 95 % quantile.

    Solves ``s^2/2 - z s + ln(q95 / mean) = 0`` for the smaller root; `q95` above `mean` by at most ``exp(z^2 / 2)``.
    """
    check_range("mean", mean, 0.0, open_low=True)
    check_range("q95 / mean", q95 / mean, 1.0, math.exp(Z90**2 / 2))
    return Z90 - math.sqrt(Z90**2 - 2 * math.log(q95 / mean))
