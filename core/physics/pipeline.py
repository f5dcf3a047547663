"""The seven stages of a request, and pipelines of stages: serial and overlapped.

Stages: prompt load, prefill up to the KV cache, the rest of the first token, one step of streaming; then for each token
buffer write, protocol and peripheral. Prefill and first token are one forward pass: the two are measured together and
split by layer events, never added twice.

References
----------
.. [1] docs/physics.md M12
.. [2] docs/articles.md A15, B07
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.spec import Array
from core.units import check_range


@dataclass(frozen=True, slots=True)
class RequestStages:
    """Durations of the seven stages of a request [s], each >= 0 (arrays allowed)."""

    prompt_load_s: Array
    kv_build_s: Array
    first_token_s: Array
    decode_s: Array
    buffer_write_s: Array
    protocol_s: Array
    peripheral_s: Array

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check_range(name, getattr(self, name), 0.0)

    @property
    def delivery_s(self) -> Array:
        """Return the time to hand over one token [s]."""
        return self.buffer_write_s + self.protocol_s + self.peripheral_s


def first_token_s(stages: RequestStages) -> Array:
    """Return the time until the first token is in the user's hands.

    ``T_1 = prompt load + KV build + first token + buffer write + protocol + peripheral``

    Parameters
    ----------
    stages : RequestStages
        Durations of the seven stages [s].

    Returns
    -------
    float or ndarray
        Time to the first token [s].

    References
    ----------
    .. [1] docs/physics.md M2
    .. [2] docs/articles.md B07

    Examples
    --------
    >>> round(first_token_s(RequestStages(5e-3, 20e-3, 30e-3, 8e-3, 0.2e-3, 0.3e-3, 0.05e-3)) * 1e3, 6)
    55.55
    """
    return stages.prompt_load_s + stages.kv_build_s + stages.first_token_s + stages.delivery_s


def serial_request_s(stages: RequestStages, n_tokens: Array) -> Array:
    """Return the time of a request that delivers each token before it computes the next.

    ``T = T_1 + (n - 1) (decode + delivery)`` with T_1 of `first_token_s`.

    Parameters
    ----------
    stages : RequestStages
        Durations of the seven stages [s].
    n_tokens : float or ndarray
        Tokens n delivered [1], >= 1.

    Returns
    -------
    float or ndarray
        Time of the request [s].

    Raises
    ------
    ValueError
        `n_tokens` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B07

    Examples
    --------
    >>> stages = RequestStages(5e-3, 20e-3, 30e-3, 8e-3, 0.2e-3, 0.3e-3, 0.05e-3)
    >>> round(serial_request_s(stages, 10) * 1e3, 6)
    132.5
    """
    check_range("n_tokens", n_tokens, 1)
    return first_token_s(stages) + (n_tokens - 1) * (stages.decode_s + stages.delivery_s)


def pipelined_request_s(stages: RequestStages, n_tokens: Array) -> Array:
    """Return the time of a request whose deliveries overlap the next step.

    ``T = T_1 + (n - 1) max(decode, buffer write, protocol, peripheral)`` with T_1 of `first_token_s`: the slowest stage
    sets the pace.

    Parameters
    ----------
    stages : RequestStages
        Durations of the seven stages [s].
    n_tokens : float or ndarray
        Tokens n delivered [1], >= 1.

    Returns
    -------
    float or ndarray
        Time of the request [s].

    Raises
    ------
    ValueError
        `n_tokens` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B07

    Examples
    --------
    >>> stages = RequestStages(5e-3, 20e-3, 30e-3, 8e-3, 0.2e-3, 0.3e-3, 0.05e-3)
    >>> round(float(pipelined_request_s(stages, 10)) * 1e3, 6)
    127.55
    """
    check_range("n_tokens", n_tokens, 1)
    each = (stages.decode_s, stages.buffer_write_s, stages.protocol_s, stages.peripheral_s)
    pace: Array = np.maximum.reduce(np.broadcast_arrays(*each))
    return first_token_s(stages) + (n_tokens - 1) * pace


# --- pipelines of fixed stages ----------------------------------------------------------------------------------------


def chain_starts(length: ArrayLike, overlap: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return the start of each stage of a chain.

    ``start_{i+1} = start_i + length_i - overlap_i``

    Parameters
    ----------
    length : array_like, shape (n,)
        Duration of each stage [any unit], > 0.
    overlap : float or array_like, shape (n - 1,)
        Head start of each later stage before its predecessor ends [unit of `length`], >= 0; 0 is a true dependency.

    Returns
    -------
    ndarray, shape (n,)
        Starts [unit of `length`].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md A15

    Examples
    --------
    >>> chain_starts([8, 12, 3]).tolist(), chain_starts([8, 12, 3], [2, 0]).tolist()
    ([0.0, 8.0, 20.0], [0.0, 6.0, 18.0])
    """
    durations = _lengths(length)
    head = np.broadcast_to(np.asarray(overlap, dtype=float), durations.size - 1)
    check_range("overlap", head, 0.0)
    return np.concatenate([[0.0], np.cumsum(durations[:-1] - head)])


def chain_makespan(length: ArrayLike, n_items: int = 1, overlap: ArrayLike = 0.0) -> float:
    """Return the time at which the last of several items leaves a chain.

    ``makespan(n) = finish(1) + (n - 1) max(length)``: the first item, then one each `initiation_interval`.

    Parameters
    ----------
    length : array_like, shape (n,)
        Duration of each stage [any unit], > 0.
    n_items : int
        Items n [1], >= 1.
    overlap : float or array_like, shape (n - 1,)
        Head starts as in `chain_starts` [unit of `length`], >= 0.

    Returns
    -------
    float
        Makespan [unit of `length`].

    Raises
    ------
    ValueError
        An argument is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md A15

    Examples
    --------
    >>> [chain_makespan([8, 12, 3], n) for n in (1, 2, 10)]
    [23.0, 35.0, 131.0]
    """
    check_range("n_items", n_items, 1)
    durations = _lengths(length)
    finish = chain_starts(durations, overlap) + durations
    return float(finish.max() + (n_items - 1) * initiation_interval(durations))


def initiation_interval(length: ArrayLike) -> float:
    """Return the time between items in a full pipeline, its longest stage.

    Parameters
    ----------
    length : array_like, shape (n,)
        Duration of each stage [any unit], > 0.

    Returns
    -------
    float
        Interval [unit of `length`].

    Raises
    ------
    ValueError
        `length` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md A15

    Examples
    --------
    >>> initiation_interval([8, 12, 3])
    12.0
    """
    return float(_lengths(length).max())


def stage_utilisation(length: ArrayLike) -> NDArray[np.float64]:
    """Return the share of time that each stage works in a full pipeline, ``length / max(length)``.

    Parameters
    ----------
    length : array_like, shape (n,)
        Duration of each stage [any unit], > 0.

    Returns
    -------
    ndarray, shape (n,)
        Shares [1].

    Raises
    ------
    ValueError
        `length` is outside its range.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md A15

    Examples
    --------
    >>> np.round(stage_utilisation([8, 12, 3]), 4).tolist()
    [0.6667, 1.0, 0.25]
    """
    durations = _lengths(length)
    return np.asarray(durations / durations.max())


def span_gap_s(start_s: Sequence[float], end_s: Sequence[float]) -> float:
    """Return the end-to-end time of a trace minus the sum of its spans.

    ``max(end) - min(start) - sum(end - start)``: 0 where spans neither overlap nor leave gaps, negative where they
    overlap.

    Parameters
    ----------
    start_s : sequence of float
        Starts of the spans [s], at least one.
    end_s : sequence of float
        Their ends [s], none before its start.

    Returns
    -------
    float
        Difference [s].

    Raises
    ------
    ValueError
        The columns are unequal or empty, or a span ends before it starts.

    References
    ----------
    .. [1] docs/physics.md M12
    .. [2] docs/articles.md B07

    Examples
    --------
    >>> span_gap_s([0.0, 2.0], [1.0, 3.0])
    1.0
    """
    if len(start_s) != len(end_s) or not start_s:
        raise ValueError(f"{len(start_s)} starts and {len(end_s)} ends are not spans")
    spans = np.asarray(end_s, dtype=float) - np.asarray(start_s, dtype=float)
    check_range("end_s - start_s", spans, 0.0)
    return float(max(end_s) - min(start_s) - spans.sum())


def _lengths(length: ArrayLike) -> NDArray[np.float64]:
    durations = np.asarray(length, dtype=float)
    if durations.ndim != 1 or not durations.size:
        raise ValueError(f"length has shape {durations.shape}, expected one duration a stage")
    check_range("length", durations, 0.0, open_low=True)
    return durations
