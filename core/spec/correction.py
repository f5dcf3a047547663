"""The correction of predicted times by the newest measurements of a board: a Gaussian of recent residuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COST_TERMS = {
    "bandwidth": "memory bandwidth",
    "compute": "compute rate",
    "launch": "launch cost",
    "clock": "clock of the whole board",
}
"""Groups of terms of a time that drift together, with their names; all terms follow the clock."""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Measured points that differ in numbers only, for one kind of time."""

    place: Floats  # (p, d), see `core.predict.correction.places`
    inverse: Floats  # (p, p), inverse of the prior correlation of their local residuals
    index: NDArray[np.intp]  # of their local residuals in `Correction.mean`


@dataclass(frozen=True, slots=True)
class Correction:
    """Joint Gaussian of the shifts of the cost terms now and of the local residuals at measured points, in logarithms.

    A shift of a term is that of its time: +0.1 is 11 % slower.
    """

    mean: Floats  # (4 + p,), shifts by `COST_TERMS`, then local residuals
    cov: Floats  # (4 + p, 4 + p)
    local_log_sd: tuple[float, float]  # prior of a local residual, of decode time and of time to first token
    repeat_log_sd: tuple[float, float]  # of a new run at a measured point, of both times
    anchors: Mapping[tuple[int, ...] | tuple[object, ...], Anchors]  # by kind of time and the point's names
