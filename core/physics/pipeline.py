"""The seven stages of a request, and pipelines of stages: serial and overlapped.

Stages: prompt load, prefill up to the KV cache, the rest of the first token, one step of streaming; then for each token
buffer write, protocol and peripheral. Prefill and first token are one forward pass: the two are measured together and
split by layer events, never added twice.
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
    """Durations of the seven stages [s], each >= 0 (arrays allowed)."""

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
        """What it takes to hand over one token [s]."""
        return self.buffer_write_s + self.protocol_s + self.peripheral_s


def first_token_s(stages: RequestStages) -> Array:
    """Return the time until the first token is in the user's hands [s].

    References
    ----------
    docs/articles.md, B07: 55.55 ms for (5, 20, 30, 8, 0.2, 0.3, 0.05) ms.
    """
    return stages.prompt_load_s + stages.kv_build_s + stages.first_token_s + stages.delivery_s


def serial_request_s(stages: RequestStages, n_tokens: Array) -> Array:
    """Return the time of a request that delivers each token before it computes the next [s].

    References
    ----------
    docs/articles.md, B07: 132.5 ms for 10 tokens.
    """
    check_range("n_tokens", n_tokens, 1)
    return first_token_s(stages) + (n_tokens - 1) * (stages.decode_s + stages.delivery_s)


def pipelined_request_s(stages: RequestStages, n_tokens: Array) -> Array:
    """Return the time of a request whose deliveries overlap the next step; the slower of the two sets the pace [s].

    References
    ----------
    docs/articles.md, B07: 127.55 ms for 10 tokens.
    """
    check_range("n_tokens", n_tokens, 1)
    each = (stages.decode_s, stages.buffer_write_s, stages.protocol_s, stages.peripheral_s)
    pace: Array = np.maximum.reduce(np.broadcast_arrays(*each))
    return first_token_s(stages) + (n_tokens - 1) * pace


# --- pipelines of fixed stages ----------------------------------------------------------------------------------------


def chain_starts(length: ArrayLike, overlap: ArrayLike = 0.0) -> NDArray[np.float64]:
    """Return when each stage of a chain starts if it may begin `overlap` before its predecessor ends.

    Parameters
    ----------
    length : array, shape (n,)
        Durations, > 0.
    overlap : float or array, shape (n - 1,)
        Head start of each later stage, >= 0; 0 is a true dependency.

    References
    ----------
    docs/articles.md, A15: 0, 8, 20 for lengths 8, 12, 3.
    """
    durations = _lengths(length)
    head = np.broadcast_to(np.asarray(overlap, dtype=float), durations.size - 1)
    check_range("overlap", head, 0.0)
    return np.concatenate([[0.0], np.cumsum(durations[:-1] - head)])


def chain_makespan(length: ArrayLike, n_items: int = 1, overlap: ArrayLike = 0.0) -> float:
    """Return when the last of `n_items` >= 1 leaves the chain: the first item, then one each initiation interval.

    The interval is the longest stage. `length` and `overlap` are those of `chain_starts`, in whose unit the result is.

    References
    ----------
    docs/articles.md, A15: 23, 35 and 131 for 1, 2 and 10 items.
    """
    check_range("n_items", n_items, 1)
    durations = _lengths(length)
    finish = chain_starts(durations, overlap) + durations
    return float(finish.max() + (n_items - 1) * initiation_interval(durations))


def initiation_interval(length: ArrayLike) -> float:
    """Return the time between items in a full pipeline: its longest stage, in the unit of `length`, each > 0."""
    return float(_lengths(length).max())


def stage_utilisation(length: ArrayLike) -> NDArray[np.float64]:
    """Return the share of time each stage works in a full pipeline."""
    durations = _lengths(length)
    return np.asarray(durations / durations.max())


def span_gap_s(start_s: Sequence[float], end_s: Sequence[float]) -> float:
    """Return end to end minus the sum of the spans of a trace [s]: 0 when spans neither overlap nor leave gaps."""
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
