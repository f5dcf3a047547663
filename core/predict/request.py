"""Time of a whole request, from its prompt to the last token of its answer, and its 99 % quantile."""

from __future__ import annotations

import numpy as np

from core.spec import Absent, Array, Estimate, Output, Provenance
from core.units import Z90, check_range

ANSWER_TOKENS = 128.0
"""Tokens of an answer where the user gives no number."""
Z99 = 2.3263478740408408  # one-sided 99 % quantile of a normal distribution, in standard deviations

_SURE = (Provenance.MEASURED, Provenance.SIMULATED, Provenance.CALIBRATED, Provenance.PREDICTED)


def p99_s(time: Estimate) -> Array:
    """Return the 99 % quantile of a time that is log-normal above its median.

    Parameters
    ----------
    time : Estimate
        Median and 95 % quantile, > 0 [s].

    Returns
    -------
    Array
        At least the median: ``median (q95 / median)^(z99 / z95)`` [s].

    References
    ----------
    .. [1] docs/physics.md M10

    Examples
    --------
    >>> round(float(p99_s(Estimate(0.1, 0.08, 0.125, Provenance.MEASURED))), 4)
    0.1371
    >>> float(p99_s(Estimate(0.1, 0.1, 0.1, Provenance.MEASURED)))
    0.1
    """
    median = np.asarray(time.median, dtype=float)
    found = median * (np.asarray(time.q95) / median) ** (Z99 / Z90)
    return found if found.ndim else float(found)


def request_p99_s(ttft_s: Output, decode_s: Output, answer_tokens: float = ANSWER_TOKENS) -> Output:
    """Return the 99 % quantile of the time of a request: first token, then every other token of its answer.

    Slow tokens come together, as with heat, other programs or an error of the model. So the quantiles of the parts
    add up; independent tokens would give less.

    Parameters
    ----------
    ttft_s : Output
        Time to the first token of the prompt [s].
    decode_s : Output
        Time of each further token at the context of the point [s].
    answer_tokens : float
        Tokens of the answer, >= 1 [tokens].

    Returns
    -------
    Output
        A quantile of the predictive distribution, so without an interval of its own [s]. Its provenance is that of the
        part that is known less. Absent where a part is.

    Raises
    ------
    ValueError
        `answer_tokens` is below 1.

    References
    ----------
    .. [1] docs/articles.md B01

    Examples
    --------
    >>> one, each = (Estimate(s, s, s, Provenance.MEASURED) for s in (0.5, 0.1))
    >>> round(float(request_p99_s(one, each, 11).median), 6)
    1.5
    """
    check_range("answer_tokens", answer_tokens, 1.0)
    if isinstance(ttft_s, Absent):
        return ttft_s
    if isinstance(decode_s, Absent):
        return decode_s
    total = np.add(p99_s(ttft_s), np.multiply(answer_tokens - 1.0, p99_s(decode_s)))
    value = total if np.ndim(total) else float(total)
    known = max((ttft_s.provenance, decode_s.provenance), key=_SURE.index)
    return Estimate(value, value, value, known)
