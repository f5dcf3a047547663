"""Stages of a decoded token: embedding, the parts of each layer, head."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

LAYER_STAGES = ("qkv", "rope_and_write", "attention", "out", "mlp")
"""In order: norm and projection to query, key and value; their rotation and the write to the cache; scores, softmax and
values; output projection; norm, gate, up and down projection."""


@dataclass(slots=True)
class StageTimes:
    """Seconds that the stages of one token took, filled by `kernels.decoder.transformer.Decoder.decode`.

    Parameters
    ----------
    n_layers : int
        Layers of the decoder.
    """

    n_layers: int
    embedding_s: float = 0.0
    layer_s: NDArray[np.float64] = field(init=False)
    """[n_layers, len(LAYER_STAGES)]"""
    head_s: float = 0.0

    def __post_init__(self) -> None:
        self.layer_s = np.zeros((self.n_layers, len(LAYER_STAGES)))

    @property
    def total_s(self) -> float:
        """Sum of all stages; what the whole step takes beyond it is Python's."""
        return self.embedding_s + float(self.layer_s.sum()) + self.head_s


def no_mark(_layer: int, _stage: int) -> None:
    """Note nothing."""


def marker(stages: StageTimes) -> Callable[[int, int], None]:
    """Return a callable that books the time since its last call to a layer's stage; layer -1 is the head."""
    last_s = time.perf_counter()

    def mark(layer: int, stage: int) -> None:
        nonlocal last_s
        now_s = time.perf_counter()
        if layer < 0:
            stages.head_s = now_s - last_s
        else:
            stages.layer_s[layer, stage] = now_s - last_s
        last_s = now_s

    return mark
