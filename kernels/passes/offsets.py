"""The outer loop of drift compensation: offsets that bring the mean of each channel back to its target.

``o <- o - a d`` with the gain a and the drift d, mean minus target of a channel while the offsets o are added: where
nothing else moves, d falls by (1 - a) a round (docs/articles.md B10). Layers of a decoder move each other, so the loop
is closed: each round measures the drift that the offsets of the rounds before have left.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.passes.statistics import root_mean_square

GAIN, MAX_ROUNDS = 0.7, 6
LEAST_FALL_FRAC = 0.1
"""A round that lowers the drift by a smaller share than this is the last."""


class OffsetLoop:
    """Per-channel offsets in closed loop; the drift of a round is in standard deviations of its channel.

    Parameters
    ----------
    n_channels : int
        Channels, > 0.
    gain : float
        Gain a, 0 <= a < 2; 0 leaves the offsets at zero.
    max_rounds : int
        Rounds after which the loop stops in any case, > 0.

    Attributes
    ----------
    offsets : Tensor
        fp64 [n_channels], to be added now.
    best : Tensor
        Those under which the smallest drift was measured.
    drifts : list of float
        Root mean square of the standardised drift that each round found.
    """

    def __init__(self, n_channels: int, gain: float = GAIN, max_rounds: int = MAX_ROUNDS) -> None:
        if not 0 <= gain < 2:
            raise ValueError(f"gain: got {gain}, expected 0 <= gain < 2")
        if max_rounds < 1:
            raise ValueError(f"max_rounds: got {max_rounds}, expected at least 1")
        self.gain, self._max_rounds = gain, max_rounds
        self.offsets = torch.zeros(n_channels, dtype=torch.float64)
        self.best = self.offsets.clone()
        self.drifts: list[float] = []

    @property
    def done(self) -> bool:
        """Whether the last round has hardly lowered the drift, or the rounds are used up."""
        if len(self.drifts) < 2:
            return len(self.drifts) >= self._max_rounds or self.drifts == [0.0]
        least_before = min(self.drifts[:-1])
        return len(self.drifts) >= self._max_rounds or self.drifts[-1] > (1 - LEAST_FALL_FRAC) * least_before

    def update(self, drift: Tensor, sd: Tensor) -> None:
        """Take the drift of each channel under the present offsets, and its standard deviation; change the offsets.

        A channel that never varies counts with its drift alone in the units of the others' mean deviation.
        """
        if drift.shape != self.offsets.shape or sd.shape != self.offsets.shape:
            raise ValueError(
                f"drift, sd: got shapes {tuple(drift.shape)}, {tuple(sd.shape)}, expected {tuple(self.offsets.shape)}"
            )
        floor = float(sd.mean()) or 1.0
        found = root_mean_square(drift / torch.where(sd > 0, sd, floor))
        if not self.drifts or found < min(self.drifts):
            self.best = self.offsets.clone()
        self.drifts.append(found)
        self.offsets = self.offsets - self.gain * drift
