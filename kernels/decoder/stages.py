"""Stages of a decoded token: embedding, the parts of each layer, head."""

from __future__ import annotations

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
