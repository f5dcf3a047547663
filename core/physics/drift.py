"""Drift of a board: a Gaussian process of residuals in time, its one-step-ahead errors, and a detector of shifts.

Symbols: r residual ``ln measured - ln predicted``; K its covariance, the measurements in the order of their time;
``K = L L'`` (Cholesky); z standardised one-step-ahead error, standard normal where the model holds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST_DIFFERENCES = 3  # fewer may all span a step


def ornstein_uhlenbeck(time_s: Floats, other_s: Floats, tau_s: float) -> Floats:
    """Return the correlation of a mean-reverting random walk between two sets of times.

    ``exp(-|t - t'| / tau)``: over times far shorter than tau it is a random walk, after them it is forgotten.

    Parameters
    ----------
    time_s : ndarray, shape (n,)
        Times t [s].
    other_s : ndarray, shape (m,)
        Times t' [s].
    tau_s : float
        Time constant, > 0 [s].

    Returns
    -------
    ndarray, shape (n, m)
        Correlation, 0 to 1 [1].

    References
    ----------
    .. [1] rasmussen2006, docs/references.md, eq. 4.18 with nu = 1/2
    .. [2] docs/physics.md M10

    Examples
    --------
    >>> ornstein_uhlenbeck(np.array([0.0, 60.0]), np.array([0.0]), 60.0).round(4).tolist()
    [[1.0], [0.3679]]
    """
    correlation: Floats = np.exp(-np.abs(time_s[:, None] - other_s[None, :]) / tau_s)
    return correlation


def one_step_ahead(residual: Floats, cov: Floats) -> tuple[Floats, Floats, float]:
    """Return each residual's error given those before it, the standard deviation of that error, and the evidence.

    ``e = diag(L) L^-1 r``, ``sd = diag(L)``, ``ln p(r) = -1/2 sum (e / sd)^2 - sum ln sd - n/2 ln 2 pi``: the evidence
    of a model is the product of its one-step-ahead predictive densities.

    Parameters
    ----------
    residual : ndarray, shape (n,)
        Residuals r in the order of their time [ln].
    cov : ndarray, shape (n, n)
        Covariance K, positive definite [ln^2].

    Returns
    -------
    error : ndarray, shape (n,)
        One-step-ahead error e [ln].
    sd : ndarray, shape (n,)
        Its standard deviation [ln].
    log_evidence : float
        ln p(r) [nat].

    References
    ----------
    .. [1] dawid1984, docs/references.md
    .. [2] rasmussen2006, docs/references.md, eq. 2.30

    Examples
    --------
    >>> error, sd, evidence = one_step_ahead(np.array([1.0, 1.0]), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> error.tolist(), sd.round(4).tolist(), round(evidence, 4)
    ([1.0, 0.5], [1.0, 0.866], -2.3607)
    """
    from scipy.linalg import solve_triangular

    lower = np.linalg.cholesky(cov)
    z = solve_triangular(lower, residual, lower=True, check_finite=False)
    sd: Floats = np.diag(lower).copy()
    evidence = -0.5 * z @ z - np.sum(np.log(sd)) - 0.5 * len(z) * np.log(2.0 * np.pi)
    return z * sd, sd, float(evidence)


def shift_statistic(z: Floats, window: int) -> tuple[Floats, NDArray[np.intp]]:
    """Return the generalised likelihood ratio of a shift of the mean, at each time over the newest observations.

    ``s_i = max over k <= window of |z_i + ... + z_(i-k+1)| / sqrt(k)``: the largest standardised mean of the newest k.
    One large error and several small ones of one sign both raise it.

    Parameters
    ----------
    z : ndarray, shape (n,)
        Standardised one-step-ahead errors in the order of their time [1].
    window : int
        Largest k, >= 1 [1].

    Returns
    -------
    statistic : ndarray, shape (n,)
        s, >= 0 [1].
    start : ndarray of int, shape (n,)
        Index of the first observation of the k that give s: the most likely begin of the shift [1].

    References
    ----------
    .. [1] lai1995, docs/references.md, eq. 2.9
    .. [2] docs/physics.md M10

    Examples
    --------
    >>> statistic, start = shift_statistic(np.array([0.0, 0.0, 2.0, 2.0]), 3)
    >>> statistic.round(3).tolist(), start.tolist()
    ([0.0, 0.0, 2.0, 2.828], [0, 1, 2, 2])
    """
    n = len(z)
    total = np.concatenate([[0.0], np.cumsum(z)])
    best, start = np.zeros(n), np.arange(n)
    for k in range(1, min(window, n) + 1):
        found = np.abs(total[k:] - total[:-k]) / np.sqrt(k)
        ends = np.arange(k - 1, n)
        larger = found > best[ends]
        best[ends[larger]], start[ends[larger]] = found[larger], ends[larger] - k + 1
    return best, start


def isolated(residual: Floats, point: NDArray[np.intp], same_limit: float, other_limit: float) -> NDArray[np.bool_]:
    """Return which residuals are isolated spikes: none of their neighbours in time confirms them.

    The neighbours of i are i-2 to i+2; the newest has only those before it, so it counts as a spike until another one
    confirms it. A step or a ramp is no spike, since its measurements confirm each other.

    Parameters
    ----------
    residual : ndarray, shape (n,)
        Residuals in the order of their time [ln].
    point : ndarray of int, shape (n,)
        Number of the operating point of each [1].
    same_limit, other_limit : float
        Largest distance of two measurements of one point, and of different points, that confirm each other, > 0 [ln].

    Returns
    -------
    ndarray of bool, shape (n,)
        Whether each is a spike [1].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> r = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    >>> isolated(r, np.zeros(7, np.intp), 0.1, 0.2).tolist()
    [False, False, True, False, False, False, False]
    """
    confirmed = np.full(len(residual), len(residual) < 2)
    for k in (1, 2):
        limit = np.where(point[k:] == point[:-k], same_limit, other_limit)
        near = np.abs(residual[k:] - residual[:-k]) <= limit
        confirmed[k:] |= near
        confirmed[:-k] |= near
    return ~confirmed


def repeat_log_sd(residual: Floats, point: NDArray[np.intp], known_sd: float, n_known: float) -> float:
    """Return the standard deviation of repeats of one point, from differences of successive ones.

    ``sd^2 = (n_0 sd_0^2 + n s^2) / (n_0 + n)`` with the smaller s of ``1.4826 median |r_i - r_(i-1)| / sqrt 2`` and
    ``1.4826 median |r_(i-1) - 2 r_i + r_(i+1)| / sqrt 6`` over its n differences within points. A ramp cancels in the
    second differences, steps and spikes in the medians.

    Parameters
    ----------
    residual : ndarray, shape (n,)
        Residuals in the order of their time [ln].
    point : ndarray of int, shape (n,)
        Number of the operating point of each [1].
    known_sd : float
        Expected value sd_0, > 0 [ln].
    n_known : float
        Weight n_0 of the expected value, in differences [1].

    Returns
    -------
    float
        Standard deviation [ln].

    References
    ----------
    .. [1] gasser1986, docs/references.md
    .. [2] rousseeuw1993, docs/references.md

    Examples
    --------
    >>> ramp = 0.02 * np.arange(100)  # no noise
    >>> round(repeat_log_sd(ramp, np.zeros(100, np.intp), 0.01, 2.0), 4)
    0.0014
    """
    order = np.argsort(point, kind="stable")
    r, of = residual[order], point[order]
    found = [(known_sd, 0)]
    for order_of, scale in ((1, np.sqrt(2.0)), (2, np.sqrt(6.0))):
        steps = np.abs(np.diff(r, order_of))[of[:-order_of] == of[order_of:]]
        if len(steps) >= FEWEST_DIFFERENCES:
            found.append((1.4826 * float(np.median(steps)) / scale, len(steps)))
    own, n = min(found[1:], default=found[0])
    return float(np.sqrt((n_known * known_sd**2 + n * own**2) / (n_known + n)))
