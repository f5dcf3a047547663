"""Times measured while the memory bandwidth moved, as they would have been at its usual value.

Other tenants of a machine take memory bandwidth from it for fractions of a second and for minutes. A run that probes
the read bandwidth between its tokens knows how much was left to it. Its time goes with that as

    ln t = ln t_usual - s (ln B - ln B_usual)

with an elasticity s of each weight format: 1 where memory alone limits, 0 where unpacking does. Bandwidth is an axis of
the model of a token, so this moves an observation along that axis; how long the point takes is not looked at: s comes
from the differences between repeats of one point, their mean taken off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ELASTICITY, ELASTICITY_SD = 0.5, 0.25  # [prior] of any format
REPEAT_LOG_SD = 0.03  # [prior] of a repeat about the others at one bandwidth


def elasticity(log_time: Floats, log_bandwidth: Floats, point: NDArray[np.intp]) -> float:
    """Return s of one format, from repeats of its points.

    Parameters
    ----------
    log_time, log_bandwidth : array (n,)
        Logarithms of measured times and of the read bandwidths beside them.
    point : array (n,)
        Number of the operating point of each.
    """
    t, b = _about_mean(log_time, point), _about_mean(log_bandwidth, point)
    known = (REPEAT_LOG_SD / ELASTICITY_SD) ** 2
    return float((known * ELASTICITY - t @ b) / (known + b @ b))


def usual_log_time(log_time: Floats, log_bandwidth: Floats, point: NDArray[np.intp], kind: NDArray[np.intp]) -> Floats:
    """Return the logarithms of the times at the median of the bandwidths; arguments as of `elasticity`.

    `kind` (n,) tells the weight formats apart.
    """
    usual = log_time.copy()
    if not len(usual):
        return usual
    off = log_bandwidth - np.median(log_bandwidth)
    for one in np.unique(kind):
        mine = kind == one
        usual[mine] += elasticity(log_time[mine], log_bandwidth[mine], point[mine]) * off[mine]
    return usual


def _about_mean(values: Floats, group: NDArray[np.intp]) -> Floats:
    _, of = np.unique(group, return_inverse=True)
    found: Floats = values - (np.bincount(of, values) / np.bincount(of))[of]
    return found
