"""The predicted outputs of an operating point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.spec.estimate import Array, Output


@dataclass(frozen=True, slots=True)
class Prediction:
    """The outputs of one operating point, or of a broadcast array of points."""

    decode_s: Output  # time per generated token
    ttft_s: Output  # time to first token of a prompt of context_tokens
    power_w: Output
    energy_j_per_token: Output
    perplexity_ratio: Output  # perplexity over that of the reference format without pruning, >= 1
    top1_agreement: Output  # share of positions whose most likely next token is the reference's, 0..1
    memory_byte: Output  # weights plus kept KV cache
    parts_s: Mapping[str, Array]
    """Decode time by term: weights, kv, unpack, compute (its excess over memory), layers, token, reselection, power.

    {} where the decode time is absent.
    """
    binding: NDArray[np.str_] | str  # "memory", "compute" or "power"; "" where the decode time is absent
    outside: tuple[str, ...] = ()  # a sentence for each violated limit of validity
