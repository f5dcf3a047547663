"""Choosing a discrete hardware width by gradients: softmax relaxation, and the exact choice to check it against.

What is relaxed must be the latency of each width, not the width itself: latency is convex in the width, so the latency
of the mean width is below the mean latency (Jensen).

`choice_probabilities`, `relaxed_mean`, `access_time` and `relaxed_access_time` also take torch tensors: where the
logits are one the result is, with its gradient, and noise and widths may be numbers. In 64 bits: 32 lose it.
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
    """Return ``softmax((logits + noise) / temperature)``, the relaxed one-hot choice, shape (n,).

    Parameters
    ----------
    logits, noise : array or tensor, shape (n,)
        Of the n choices; frozen noise makes it the Gumbel softmax.
    temperature : float
        > 0; towards 0 the choice is the largest logit.
    """
    check_range("temperature", temperature, 0.0, open_low=True)
    z = _numbers(logits)
    z = (z + _like(noise, z)) / temperature
    weights = math.e ** (z - z.max())
    return weights / weights.sum()


GUMBEL_MEAN, GUMBEL_VARIANCE = float(np.euler_gamma), float(np.pi**2 / 6.0)


def gumbel_noise(uniform: ArrayLike) -> Vector:
    """Return standard Gumbel noise ``-ln(-ln U)`` of uniform numbers in (0, 1)."""
    u = np.asarray(uniform, dtype=float)
    check_range("uniform", u, 0.0, 1.0, open_low=True, open_high=True)
    return np.asarray(-np.log(-np.log(u)))


def relaxed_mean(values: Any, logits: Any, temperature: float, noise: Any = 0.0) -> Any:
    """Return the expected value of the relaxed choice, ``sum p_i v_i``.

    References
    ----------
    docs/articles.md, A08: 120 for the widths 32, 64, 128, 256 at equal logits.
    """
    p = choice_probabilities(logits, temperature, noise)
    v = _like(values, p)
    if p.shape != v.shape:
        raise ValueError(f"logits {tuple(p.shape)} and values {tuple(v.shape)} are not one of each choice")
    return (p * v).sum()


def relaxed_mean_gradient(values: ArrayLike, logits: ArrayLike, temperature: float, noise: ArrayLike = 0.0) -> Vector:
    """Return the gradient of `relaxed_mean` by the logits, ``p_i (v_i - mean) / temperature``; it sums to 0.

    It vanishes as the choice saturates: with a logit gap of 1 at temperature 0.1 no component exceeds 0.16.
    """
    p, v = choice_probabilities(logits, temperature, noise), np.asarray(values, dtype=float)
    return np.asarray(p * (v - p @ v) / temperature)


def access_time(line: Any, width: Any, burst: Any, per_beat: Any, per_burst: Any) -> Any:
    """Return the time of one access, ``a * line / width + b * burst``, in the unit of a and b.

    Parameters
    ----------
    line, width : float, array or tensor
        Size of the access and of one beat, in the same unit, > 0.
    burst : float, array or tensor
        Number of bursts, >= 0.
    per_beat, per_burst : float, array or tensor
        a and b, >= 0.

    References
    ----------
    docs/articles.md, A08: 13 for a = 10, b = 1, line 64, width 128, burst 8.
    """
    check_range("line", _value(line), 0.0, open_low=True)
    check_range("width", _value(width), 0.0, open_low=True)
    for name, value in (("burst", burst), ("per_beat", per_beat), ("per_burst", per_burst)):
        check_range(name, _value(value), 0.0)
    return per_beat * line / width + per_burst * burst


def access_time_gradient(line: float, width: float, per_beat: float, per_burst: float) -> dict[str, float]:
    """Return the derivatives of `access_time`: rising with the line, falling with the width."""
    check_range("width", width, 0.0, open_low=True)
    return {"line": per_beat / width, "width": -per_beat * line / width**2, "burst": per_burst}


def best_width(widths: ArrayLike, line: Array, burst: Array, per_beat: Array, per_burst: Array) -> tuple[float, Vector]:
    """Return the width of least access time and the time of each, by enumeration: exact, and the default.

    References
    ----------
    docs/articles.md, A08: 28, 18, 13 and 10.5, so 256.
    """
    width = np.asarray(widths, dtype=float)
    times = np.asarray(access_time(line, width, burst, per_beat, per_burst))
    return float(width[np.argmin(times)]), times


def relaxed_access_time(
    widths: Any, logits: Any, temperature: float, line: Any, burst: Any, per_beat: Any, per_burst: Any
) -> Any:
    """Return the expected access time of the relaxed choice: the latencies are relaxed, not the width."""
    return relaxed_mean(access_time(line, _numbers(widths), burst, per_beat, per_burst), logits, temperature)
