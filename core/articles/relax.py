"""Choosing a discrete hardware width by gradients: softmax relaxation, and the exact choice to check it against.

What is relaxed must be the latency of each width, not the width itself: latency is convex in the width, so the latency
of the mean width is below the mean latency (Jensen).

`choice_probabilities`, `relaxed_mean`, `access_time` and `relaxed_access_time` also take torch tensors. Where the
logits are a tensor, the result is one too and carries the gradient; noise and widths may be numbers. Use 64 bits, since
32 lose the gradient.

References
----------
.. [1] docs/articles.md A08
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

Vector = NDArray[np.float64]


def _numbers(values: Any) -> Any:
    """Return a tensor or a number as it is, and anything else as an array."""
    return values if isinstance(values, int | float) or hasattr(values, "detach") else np.asarray(values, dtype=float)


def _like(values: Any, of: Any) -> Any:
    """Return numbers as a tensor where `of` is one."""
    numbers = _numbers(values)
    return of.new_tensor(numbers) if hasattr(of, "detach") and isinstance(numbers, np.ndarray) else numbers


def _value(values: Any) -> Any:
    """Return numbers without their gradient."""
    return values.detach() if hasattr(values, "detach") else values


def choice_probabilities(logits: Any, temperature: float, noise: Any = 0.0) -> Any:
    """Return the relaxed one-hot choice, ``softmax((logits + noise) / tau)``.

    Parameters
    ----------
    logits : array_like or tensor, shape (n,)
        Logits of the choices [1].
    temperature : float
        Temperature tau [1], > 0; towards 0 the choice is the largest logit.
    noise : float, array_like or tensor, shape (n,)
        Noise added to the logits [1]; Gumbel noise makes it the Gumbel softmax.

    Returns
    -------
    ndarray or tensor, shape (n,)
        Probabilities [1].

    Raises
    ------
    ValueError
        `temperature` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08
    .. [2] jang2017, docs/references.md

    Examples
    --------
    >>> np.round(choice_probabilities([0.0, 0.1], 0.1), 6).tolist()
    [0.268941, 0.731059]
    """
    check_range("temperature", temperature, 0.0, open_low=True)
    z = _numbers(logits)
    z = (z + _like(noise, z)) / temperature
    weights = math.e ** (z - z.max())
    return weights / weights.sum()


GUMBEL_MEAN, GUMBEL_VARIANCE = float(np.euler_gamma), float(np.pi**2 / 6.0)


def gumbel_noise(uniform: ArrayLike) -> Vector:
    """Return standard Gumbel noise of uniform numbers, ``-ln(-ln U)``.

    Parameters
    ----------
    uniform : array_like
        Uniform numbers U [1], between 0 and 1.

    Returns
    -------
    ndarray
        Noise [1], of mean 0.57722 and variance 1.64493.

    Raises
    ------
    ValueError
        `uniform` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08
    .. [2] jang2017, docs/references.md

    Examples
    --------
    >>> round(float(gumbel_noise(0.5)), 6)
    0.366513
    """
    u = np.asarray(uniform, dtype=float)
    check_range("uniform", u, 0.0, 1.0, open_low=True, open_high=True)
    return np.asarray(-np.log(-np.log(u)))


def relaxed_mean(values: Any, logits: Any, temperature: float, noise: Any = 0.0) -> Any:
    """Return the expected value of the relaxed choice, ``sum p_i v_i`` with p of `choice_probabilities`.

    Parameters
    ----------
    values : array_like or tensor, shape (n,)
        Value v of each choice [any unit].
    logits : array_like or tensor, shape (n,)
        Logits of the choices [1].
    temperature : float
        Temperature [1], > 0.
    noise : float, array_like or tensor, shape (n,)
        Noise added to the logits [1].

    Returns
    -------
    float or tensor
        Expected value [unit of `values`].

    Raises
    ------
    ValueError
        `temperature` is outside its range, or the columns are unequal.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> float(relaxed_mean([32, 64, 128, 256], np.zeros(4), 0.1))
    120.0
    """
    p = choice_probabilities(logits, temperature, noise)
    v = _like(values, p)
    if p.shape != v.shape:
        raise ValueError(f"logits {tuple(p.shape)} and values {tuple(v.shape)} are not one of each choice")
    return (p * v).sum()


def relaxed_mean_gradient(values: ArrayLike, logits: ArrayLike, temperature: float, noise: ArrayLike = 0.0) -> Vector:
    """Return the gradient of `relaxed_mean` by the logits, ``p_i (v_i - mean) / tau``; it sums to 0.

    It vanishes as the choice saturates: with a logit gap of 1 at tau = 0.1 no component exceeds 0.16.

    Parameters
    ----------
    values : array_like, shape (n,)
        Value v of each choice [any unit].
    logits : array_like, shape (n,)
        Logits of the choices [1].
    temperature : float
        Temperature tau [1], > 0.
    noise : float or array_like, shape (n,)
        Noise added to the logits [1].

    Returns
    -------
    ndarray, shape (n,)
        Gradient [unit of `values`].

    Raises
    ------
    ValueError
        `temperature` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> np.round(relaxed_mean_gradient([32, 64, 128, 256], np.zeros(4), 0.1), 6).tolist()
    [-220.0, -140.0, 20.0, 340.0]
    """
    p, v = choice_probabilities(logits, temperature, noise), np.asarray(values, dtype=float)
    return np.asarray(p * (v - p @ v) / temperature)


def access_time(line: Any, width: Any, burst: Any, per_beat: Any, per_burst: Any) -> Any:
    """Return the time of one memory access, ``a line / width + b burst``.

    Parameters
    ----------
    line, width : float, ndarray or tensor
        Size of the access and of one beat, in one unit [bit or byte], > 0.
    burst : float, ndarray or tensor
        Bursts [1], >= 0.
    per_beat, per_burst : float, ndarray or tensor
        Times a of a beat and b of a burst [any unit of time], >= 0.

    Returns
    -------
    float, ndarray or tensor
        Time [unit of `per_beat`].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> access_time(64.0, 128.0, 8.0, 10.0, 1.0)
    13.0
    """
    check_range("line", _value(line), 0.0, open_low=True)
    check_range("width", _value(width), 0.0, open_low=True)
    for name, value in (("burst", burst), ("per_beat", per_beat), ("per_burst", per_burst)):
        check_range(name, _value(value), 0.0)
    return per_beat * line / width + per_burst * burst


def access_time_gradient(line: float, width: float, per_beat: float, per_burst: float) -> dict[str, float]:
    """Return the derivatives of `access_time`: ``a / width``, ``-a line / width^2`` and b.

    Parameters
    ----------
    line, width : float
        Size of the access and of one beat, in one unit [bit or byte], the width > 0.
    per_beat, per_burst : float
        Times a of a beat and b of a burst [any unit of time].

    Returns
    -------
    dict of str to float
        Derivatives by line, width and burst [unit of `per_beat` per unit of each].

    Raises
    ------
    ValueError
        `width` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> access_time_gradient(64.0, 128.0, 10.0, 1.0)
    {'line': 0.078125, 'width': -0.0390625, 'burst': 1.0}
    """
    check_range("width", width, 0.0, open_low=True)
    return {"line": per_beat / width, "width": -per_beat * line / width**2, "burst": per_burst}


def best_width(widths: ArrayLike, line: Array, burst: Array, per_beat: Array, per_burst: Array) -> tuple[float, Vector]:
    """Return the width of least access time and the time of each, by enumeration: exact, and the default.

    Parameters
    ----------
    widths : array_like, shape (n,)
        Widths to choose from [bit or byte], > 0.
    line : float or ndarray
        Size of the access [unit of `widths`], > 0.
    burst : float or ndarray
        Bursts [1], >= 0.
    per_beat, per_burst : float or ndarray
        Times of a beat and of a burst [any unit of time], >= 0.

    Returns
    -------
    tuple of float and ndarray
        Best width [unit of `widths`] and time of each width [unit of `per_beat`].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> best, times = best_width([32, 64, 128, 256], 64.0, 8.0, 10.0, 1.0)
    >>> best, times.tolist()
    (256.0, [28.0, 18.0, 13.0, 10.5])
    """
    width = np.asarray(widths, dtype=float)
    times = np.asarray(access_time(line, width, burst, per_beat, per_burst))
    return float(width[np.argmin(times)]), times


def relaxed_access_time(
    widths: Any, logits: Any, temperature: float, line: Any, burst: Any, per_beat: Any, per_burst: Any
) -> Any:
    """Return the expected access time of the relaxed choice, ``sum p_i T(width_i)``.

    The latencies are relaxed, not the width: latency is convex in the width.

    Parameters
    ----------
    widths : array_like or tensor, shape (n,)
        Widths to choose from [bit or byte], > 0.
    logits : array_like or tensor, shape (n,)
        Logits of the choices [1].
    temperature : float
        Temperature [1], > 0.
    line, burst, per_beat, per_burst : float, ndarray or tensor
        As in `access_time` [unit of `widths`, 1, any unit of time].

    Returns
    -------
    float or tensor
        Expected time [unit of `per_beat`].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08

    Examples
    --------
    >>> round(float(relaxed_access_time([32, 64, 128, 256], np.zeros(4), 0.1, 64.0, 8.0, 10.0, 1.0)), 6)
    17.375
    """
    return relaxed_mean(access_time(line, _numbers(widths), burst, per_beat, per_burst), logits, temperature)


def descend(times: ArrayLike, temperature: float, n_steps: int = 200, warm: float = 10.0, seed: int = 0) -> int:
    """Return the choice that gradient descent over relaxed times ends at, the largest of its logits.

    Each step draws Gumbel noise and moves the logits against the gradient of `relaxed_mean` of the scaled times, while
    the temperature falls from `warm` times `temperature` to it. It starts from even logits and need not end at the
    least time; `best_width` enumerates.

    Parameters
    ----------
    times : array_like, shape (n,)
        Time of each choice [any unit].
    temperature : float
        Temperature [1], > 0.
    n_steps : int
        Steps [1], >= 1.
    warm : float
        Ratio of the first temperature to the last [1], >= 1; 1 keeps it, as printed.
    seed : int
        Seed of the noise [1].

    Returns
    -------
    int
        Index of the choice [1].

    Raises
    ------
    ValueError
        `temperature`, `n_steps` or `warm` is outside its range.

    References
    ----------
    .. [1] docs/articles.md A08
    .. [2] jang2017, docs/references.md

    Examples
    --------
    >>> descend([28.0, 18.0, 13.0, 10.5], 0.1)
    3
    """
    check_range("temperature", temperature, 0.0, open_low=True)
    check_range("n_steps", n_steps, 1)
    check_range("warm", warm, 1.0)
    t = np.asarray(times, dtype=float)
    scaled = (t - t.mean()) / (t.std() or 1.0)
    rng, logits = np.random.default_rng(seed), np.zeros(t.size)
    for tau in temperature * np.geomspace(warm, 1.0, n_steps):
        noise = gumbel_noise(np.clip(rng.random(t.size), 1e-12, 1.0 - 1e-12))
        logits = logits - tau * relaxed_mean_gradient(scaled, logits, tau, noise)
    return int(np.argmax(logits))
