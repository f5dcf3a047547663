"""Drift compensation of quantised activations: the outer loop that removes a mean drift, and error feedback.

With a step s, outer gain a and mean mu: ``x' = x - a (mean(x) - mu) - (1 - a) (x - round(x))``. The outer loop alone
multiplies the drift by (1 - a) each step: stable for 0 < a < 2.

References
----------
.. [1] docs/articles.md B10
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
    """Return one step of the dual loop with the drift subtracted.

    ``x' = x - a (mean(x) - mu) - (1 - a) (x - round(x))``, rounding to the grid of step s.

    Parameters
    ----------
    x : array_like
        Activations x [1].
    target_mean : float
        Mean mu that the activations should have [1].
    gain : float
        Gain a of the outer loop [1], above 0 to below 2.
    step : float or array_like
        Width s of the quantisation grid [unit of `x`], > 0; one for all values or one a channel.
    zero : float or array_like
        A point of the grid [unit of `x`]. Halves round to even.

    Returns
    -------
    ndarray
        Compensated activations [unit of `x`].

    Raises
    ------
    ValueError
        `gain` or `step` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B10

    Examples
    --------
    >>> np.round(compensated([1.2, 2.2, 3.2], 2.0, 0.05), 9).tolist()
    [1.0, 2.0, 3.0]
    """
    check_range("gain", gain, 0.0, 2.0, open_low=True, open_high=True)
    check_range("step", step, 0.0, open_low=True)
    values = np.asarray(x, dtype=float)
    above = values - np.asarray(zero, dtype=float)
    noise = above - np.asarray(step) * np.round(above / np.asarray(step))
    return np.asarray(values - gain * (values.mean() - target_mean) - (1.0 - gain) * noise)


def drift_after(drift: Array, gain: Array, n_steps: Array) -> Array:
    """Return the drift that the outer loop leaves, ``drift (1 - a)^n``.

    Parameters
    ----------
    drift : float or ndarray
        Drift at the start [any unit].
    gain : float or ndarray
        Gain a of the outer loop [1], above 0 to below 2.
    n_steps : float or ndarray
        Steps n [1], >= 0.

    Returns
    -------
    float or ndarray
        Drift after the steps [unit of `drift`].

    Raises
    ------
    ValueError
        `gain` or `n_steps` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B10

    Examples
    --------
    >>> round(float(drift_after(0.2, 0.05, 20)), 10)
    0.0716971845
    """
    check_range("gain", gain, 0.0, 2.0, open_low=True, open_high=True)
    check_range("n_steps", n_steps, 0.0)
    return drift * (1.0 - np.asarray(gain)) ** n_steps


def steps_to_halve(gain: Array) -> Array:
    """Return the steps of the outer loop that halve the drift, ``ln 2 / -ln(1 - a)``.

    Parameters
    ----------
    gain : float or ndarray
        Gain a of the outer loop [1], above 0 to below 1.

    Returns
    -------
    float or ndarray
        Steps [1].

    Raises
    ------
    ValueError
        `gain` is outside its range.

    References
    ----------
    .. [1] docs/articles.md B10

    Examples
    --------
    >>> round(float(steps_to_halve(0.05)), 2)
    13.51
    """
    check_range("gain", gain, 0.0, 1.0, open_low=True, open_high=True)
    steps: Array = math.log(2.0) / -np.log1p(-np.asarray(gain))
    return steps


def error_feedback(x: ArrayLike, step: float) -> NDArray[np.float64]:
    """Return a signal rounded to a grid, the rounding error of each value added to the next.

    The sum of the output stays within half a step of that of the input; with plain rounding the difference grows with
    the square root of the length.

    Parameters
    ----------
    x : array_like, shape (n,)
        Signal [any unit].
    step : float
        Width of the grid [unit of `x`], > 0.

    Returns
    -------
    ndarray, shape (n,)
        Rounded signal [unit of `x`].

    Raises
    ------
    ValueError
        `step` is not above 0, or `x` is not one signal.

    References
    ----------
    .. [1] docs/articles.md B10

    Examples
    --------
    >>> error_feedback([0.4, 0.4, 0.4, 0.4], 1.0).tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    check_range("step", step, 0.0, open_low=True)
    values = np.asarray(x, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"x has shape {values.shape}, expected one signal")
    return np.asarray(step * np.diff(np.round(np.cumsum(values) / step), prepend=0.0))
