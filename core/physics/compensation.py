"""Drift compensation of quantised activations: the outer loop that removes a mean drift, and error feedback.

With a step s, outer gain a and mean mu: ``x' = x - a (mean(x) - mu) - (1 - a) (x - round(x))``. The outer loop alone
multiplies the drift by (1 - a) each step: stable for 0 < a < 2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range


def compensated(
    x: ArrayLike, target_mean: float, gain: float, step: ArrayLike = 1.0, zero: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """Return one step of the dual loop, the drift subtracted.

    Parameters
    ----------
    x : array
        Activations.
    target_mean : float
        The mean they should have.
    gain : float
        Gain a of the outer loop, 0 < a < 2.
    step, zero : float or array
        Width of the quantisation grid in the unit of `x`, > 0, and a point that lies on it; of each channel its own
        where they are arrays. Halves round to even, as floating point does.

    References
    ----------
    docs/articles.md, B10: [1.2, 2.2, 3.2] with mean 2 and a = 0.05 gives [1, 2, 3].
    """
    check_range("gain", gain, 0.0, 2.0, open_low=True, open_high=True)
    check_range("step", step, 0.0, open_low=True)
    values = np.asarray(x, dtype=float)
    above = values - np.asarray(zero, dtype=float)
    noise = above - np.asarray(step) * np.round(above / np.asarray(step))
    return np.asarray(values - gain * (values.mean() - target_mean) - (1.0 - gain) * noise)


def drift_after(drift: Array, gain: Array, n_steps: Array) -> Array:
    """Return the drift left after some steps of the outer loop, ``drift (1 - a)**n``.

    References
    ----------
    docs/articles.md, B10: 0.2 falls to 0.0717 in 20 steps at a = 0.05.
    """
    check_range("gain", gain, 0.0, 2.0, open_low=True, open_high=True)
    check_range("n_steps", n_steps, 0.0)
    return drift * (1.0 - np.asarray(gain)) ** n_steps


def steps_to_halve(gain: Array) -> Array:
    """Return after how many steps the drift has halved, ``ln 2 / -ln(1 - a)``, 0 < a < 1."""
    check_range("gain", gain, 0.0, 1.0, open_low=True, open_high=True)
    steps: Array = math.log(2.0) / -np.log1p(-np.asarray(gain))
    return steps


def error_feedback(x: ArrayLike, step: float) -> NDArray[np.float64]:
    """Return a signal rounded to a grid with the rounding error carried to the next value.

    The sum of the output never differs from that of the input by more than half a step; plain rounding lets the
    difference grow with the square root of the length.
    """
    check_range("step", step, 0.0, open_low=True)
    values = np.asarray(x, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"x has shape {values.shape}, expected one signal")
    return np.asarray(step * np.diff(np.round(np.cumsum(values) / step), prepend=0.0))
