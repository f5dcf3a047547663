"""Choosing a discrete hardware width by gradients: softmax relaxation, and the exact choice to check it against.

What is relaxed must be the latency of each width, not the width itself: latency is convex in the width, so the latency
of the mean width is below the mean latency (Jensen).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range

Vector = NDArray[np.float64]


def choice_probabilities(logits: ArrayLike, temperature: float, noise: ArrayLike = 0.0) -> Vector:
    """Return ``softmax((logits + noise) / temperature)``, the relaxed one-hot choice."""
    check_range("temperature", temperature, 0.0, open_low=True)
    z = (np.asarray(logits, dtype=float) + np.asarray(noise, dtype=float)) / temperature
    weights = np.exp(z - z.max())
    return np.asarray(weights / weights.sum())


GUMBEL_MEAN, GUMBEL_VARIANCE = float(np.euler_gamma), float(np.pi**2 / 6.0)


def gumbel_noise(uniform: ArrayLike) -> Vector:
    """Return standard Gumbel noise ``-ln(-ln U)`` of uniform numbers in (0, 1)."""
    u = np.asarray(uniform, dtype=float)
    check_range("uniform", u, 0.0, 1.0, open_low=True, open_high=True)
    return np.asarray(-np.log(-np.log(u)))


def relaxed_mean(values: ArrayLike, logits: ArrayLike, temperature: float, noise: ArrayLike = 0.0) -> float:
    """Return the expected value of the relaxed choice, ``sum p_i v_i``.

    References
    ----------
    Trilemma quantities, A08: 120 for the widths 32, 64, 128, 256 at equal logits.
    """
    return float(choice_probabilities(logits, temperature, noise) @ np.asarray(values, dtype=float))


def relaxed_mean_gradient(values: ArrayLike, logits: ArrayLike, temperature: float, noise: ArrayLike = 0.0) -> Vector:
    """Return the gradient of `relaxed_mean` by the logits, ``p_i (v_i - mean) / temperature``; it sums to 0.

    It vanishes as the choice saturates: with a logit gap of 1 at temperature 0.1 no component exceeds 0.16.
    """
    p, v = choice_probabilities(logits, temperature, noise), np.asarray(values, dtype=float)
    return np.asarray(p * (v - p @ v) / temperature)


def access_time(line: Array, width: Array, burst: Array, per_beat: Array, per_burst: Array) -> Array:
    """Return the time of one access, ``a * line / width + b * burst``, in the unit of a and b.

    Parameters
    ----------
    line, width : float or array
        Size of the access and of one beat, in the same unit, > 0.
    burst : float or array
        Number of bursts, >= 0.
    per_beat, per_burst : float or array
        a and b, >= 0.

    References
    ----------
    Trilemma quantities, A08: 13 for a = 10, b = 1, line 64, width 128, burst 8.
    """
    check_range("line", line, 0.0, open_low=True)
    check_range("width", width, 0.0, open_low=True)
    check_range("burst", burst, 0.0)
    return np.multiply(per_beat, line) / width + np.multiply(per_burst, burst)


def access_time_gradient(line: float, width: float, per_beat: float, per_burst: float) -> dict[str, float]:
    """Return the derivatives of `access_time`: rising with the line, falling with the width."""
    check_range("width", width, 0.0, open_low=True)
    return {"line": per_beat / width, "width": -per_beat * line / width**2, "burst": per_burst}


def best_width(widths: ArrayLike, line: Array, burst: Array, per_beat: Array, per_burst: Array) -> tuple[float, Vector]:
    """Return the width of least access time and the time of each, by enumeration: exact, and the default.

    References
    ----------
    Trilemma quantities, A08: 28, 18, 13 and 10.5, so 256.
    """
    width = np.asarray(widths, dtype=float)
    times = np.asarray(access_time(line, width, burst, per_beat, per_burst))
    return float(width[np.argmin(times)]), times


def relaxed_access_time(
    widths: ArrayLike,
    logits: ArrayLike,
    temperature: float,
    line: float,
    burst: float,
    per_beat: float,
    per_burst: float,
) -> float:
    """Return the expected access time of the relaxed choice: the latencies are relaxed, not the width."""
    times = access_time(line, np.asarray(widths, dtype=float), burst, per_beat, per_burst)
    return float(choice_probabilities(logits, temperature) @ np.asarray(times))
