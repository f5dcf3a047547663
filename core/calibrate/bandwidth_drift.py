"""Drift of the memory bandwidth: correction of measured times to the usual bandwidth.

Co-runners take memory bandwidth from a run for fractions of a second or for minutes. A run that probes the read
bandwidth between its tokens measures the bandwidth that remained; its time depends on it as

    ln t = ln t_usual - s (ln B - ln B_usual)

with an elasticity s of each weight format: 1 where memory binds, 0 where unpacking binds. The level of the times has no
influence: s is fitted to differences between repeats of one point.

References
----------
.. [1] docs/physics.md M10
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ELASTICITY, ELASTICITY_SD = 0.5, 0.25  # [prior] of each format
REPEAT_LOG_SD = 0.03  # [prior] of repeats at one bandwidth


def elasticity(log_time: Floats, log_bandwidth: Floats, point: NDArray[np.intp]) -> float:
    """Return the elasticity s of one format's times in the read bandwidth, from repeats of its points.

    ``s = (k s_0 - t' b) / (k + b' b)`` with t and b the logarithms of time and bandwidth about their means at each
    point and ``k = (0.03 / 0.25)^2``: least squares of ``t = -s b`` with the prior s_0 = 0.5 +- 0.25.

    Parameters
    ----------
    log_time : ndarray, shape (n,)
        Natural logarithms of measured times [ln s].
    log_bandwidth : ndarray, shape (n,)
        Natural logarithms of the read bandwidths probed in the same runs [ln(byte/s)].
    point : ndarray of int, shape (n,)
        Number of the operating point of each [1].

    Returns
    -------
    float
        Elasticity [1]: 1 where memory binds, 0 where unpacking binds.

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> b = np.log([40e9, 20e9] * 50)
    >>> round(elasticity(-0.8 * b, b, np.zeros(100, np.intp)), 3)
    0.8
    """
    t, b = _about_mean(log_time, point), _about_mean(log_bandwidth, point)
    known = (REPEAT_LOG_SD / ELASTICITY_SD) ** 2
    return float((known * ELASTICITY - t @ b) / (known + b @ b))


def usual_log_time(
    log_time: Floats,
    log_bandwidth: Floats,
    point: NDArray[np.intp],
    kind: NDArray[np.intp],
    quiet: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the logarithms of the times, corrected to the median of the bandwidths of quiet runs.

    ``ln t_usual = ln t + s (ln B - ln B_usual)`` with s of `elasticity` for each weight format.

    Parameters
    ----------
    log_time : ndarray, shape (n,)
        Natural logarithms of measured times [ln s].
    log_bandwidth : ndarray, shape (n,)
        Natural logarithms of the read bandwidths probed in the same runs [ln(byte/s)].
    point : ndarray of int, shape (n,)
        Number of the operating point of each [1].
    kind : ndarray of int, shape (n,)
        Number of the weight format of each [1].
    quiet : ndarray of bool, shape (n,), optional
        Whether no other work disturbed the run [1]. All runs count where none is quiet.

    Returns
    -------
    ndarray, shape (n,)
        Natural logarithms of the times [ln s].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> b, same = np.log([40e9, 20e9, 30e9] * 50), np.zeros(150, np.intp)
    >>> float(np.ptp(usual_log_time(-0.8 * b, b, same, same)).round(3))
    0.0
    """
    usual = log_time.copy()
    if not len(usual):
        return usual
    counts = np.ones(len(usual), dtype=bool) if quiet is None or not quiet.any() else quiet
    off = log_bandwidth - np.median(log_bandwidth[counts])
    for one in np.unique(kind):
        mine = kind == one
        usual[mine] += elasticity(log_time[mine], log_bandwidth[mine], point[mine]) * off[mine]
    return usual


def _about_mean(values: Floats, group: NDArray[np.intp]) -> Floats:
    _, of = np.unique(group, return_inverse=True)
    found: Floats = values - (np.bincount(of, values) / np.bincount(of))[of]
    return found
