"""What even samples can show: folded rhythms, and the strongest rhythm of a series.

Symbols: T period of a load [s]; h interval of the samples [s]; f = 1/T.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from core.spec import Array
from core.units import check_range

FEWEST_SAMPLES = 16
"""Samples from which on a rhythm is looked for."""


class Rhythm(NamedTuple):
    """The strongest rhythm of a series."""

    period_s: float
    amplitude: float  # of the sine [unit of the series]
    share: float  # of the variance that it explains [1]
    false_alarm: float  # probability that white noise has one as strong [1]


def seen_period_s(period_s: Array, interval_s: Array) -> Array:
    """Return the period at which samples show a load: ``1 / |f - round(f h) / h|``.

    It is the period itself down to two samples a period; a faster load is folded to a slower one, and a whole number of
    periods within an interval looks constant.

    Parameters
    ----------
    period_s : float or ndarray
        Period T of the load, > 0 [s].
    interval_s : float or ndarray
        Interval h of the samples, > 0 [s].

    Returns
    -------
    float or ndarray
        Period seen [s]; inf where the load looks constant.

    Raises
    ------
    ValueError
        An argument is not above 0.

    References
    ----------
    .. [1] docs/articles.md B03
    .. [2] shannon1949, docs/references.md

    Examples
    --------
    >>> [round(float(seen_period_s(t, 0.2)), 6) for t in (1.0, 0.4, 0.21, 0.1)]
    [1.0, 0.4, 4.2, inf]
    """
    check_range("period_s", period_s, 0.0, open_low=True)
    check_range("interval_s", interval_s, 0.0, open_low=True)
    turns = np.asarray(interval_s, dtype=float) / period_s
    folded = np.abs(turns - np.round(turns))
    with np.errstate(divide="ignore"):
        found: Array = np.where(folded < 1e-9, np.inf, interval_s / np.maximum(folded, 1e-300))
    return found


def strongest_rhythm(values: ArrayLike, interval_s: float) -> Rhythm:
    """Return the strongest sine of a series of even samples, its linear trend taken out.

    Parameters
    ----------
    values : array_like, shape (n,)
        Finite samples, n >= 16 [any unit].
    interval_s : float
        Their interval h, > 0 [s].

    Returns
    -------
    Rhythm
        Its period lies between 2 h and n h / 2. The probability of a false alarm is ``1 - (1 - exp(-p))^m`` for a
        peak of p times the mean power among m frequencies.

    Raises
    ------
    ValueError
        Too few or non-finite samples, or an interval that is not above 0.

    References
    ----------
    .. [1] scargle1982, docs/references.md

    Examples
    --------
    >>> t = 0.1 * np.arange(200)
    >>> found = strongest_rhythm(3.0 + 2.0 * np.sin(2 * np.pi * t / 0.5), 0.1)
    >>> round(found.period_s, 3), round(found.amplitude, 2), round(found.share, 2), found.false_alarm < 1e-6
    (0.5, 2.0, 1.0, True)
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or x.size < FEWEST_SAMPLES or not np.isfinite(x).all():
        raise ValueError(f"values: got shape {x.shape}, expected {FEWEST_SAMPLES} finite samples or more")
    check_range("interval_s", interval_s, 0.0, open_low=True)
    n = x.size
    place = np.linspace(-1.0, 1.0, n)
    x = x - x.mean() - place * (place @ x) / (place @ place)
    power = np.square(np.abs(np.fft.rfft(x)[2 : n // 2 + 1]))  # slower ones are no rhythm of this series
    total = float(power.sum())
    if total <= 1e-18 * n**2 * max(float(np.square(np.asarray(values, dtype=float)).mean()), 1e-300):
        return Rhythm(np.inf, 0.0, 0.0, 1.0)
    best = int(np.argmax(power))
    ratio = float(power[best]) / (total / power.size)
    alarm = -np.expm1(power.size * np.log1p(-np.exp(-min(ratio, 700.0))))
    halved = 2.0 if best + 2 < n / 2 else 1.0  # the highest frequency of an even series has one term
    amplitude = halved * float(np.sqrt(power[best])) / n
    return Rhythm(n * interval_s / (best + 2), amplitude, float(power[best]) / total, float(alarm))
