"""All outputs predicted of an operating point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.spec.estimate import Array, Output


@dataclass(frozen=True, slots=True)
class Prediction:
    """All outputs of one operating point (or a broadcast array of them)."""

    decode_s: Output  # time per generated token
    ttft_s: Output  # time to first token of a prompt of context_tokens
    power_w: Output
    energy_j_per_token: Output
    perplexity_ratio: Output  # perplexity over that of the reference format without pruning, >= 1
    top1_agreement: Output  # share of tokens whose most likely next token is the reference's, 0..1
    memory_byte: Output  # weights plus kept KV
    parts_s: Mapping[str, Array]
    """Decode time by term: weights, kv, unpack, compute (its excess), layers, token, reselection; {} where absent."""
    binding: NDArray[np.str_] | str  # "memory" or "compute"; "" where the decode time is absent
    outside: tuple[str, ...] = ()  # sentences: which input is outside the range the model is valid for
