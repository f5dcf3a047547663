"""A value with its interval and its provenance, or the reason that there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Array = float | NDArray[np.float64]
"""A number, or an array that broadcasts against the others of the same call."""


class Provenance(StrEnum):
    """Origin of a number. It travels with the value through protocol, store, screen, export and report."""

    MEASURED = "measured"  # read off the board
    CALIBRATED = "calibrated"  # model fitted to this board
    PREDICTED = "predicted"  # model with priors only
    PUBLISHED = "published"  # a published table, with its source
    SIMULATED = "simulated"  # a simulated board
    AS_PUBLISHED = "as_published"  # an article's formula that fails a check


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 90 % interval (5 % and 95 % quantiles) and its provenance; the unit is in its field's name."""

    median: Array
    q05: Array
    q95: Array
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Absent:
    """A value that does not exist, with the reason as a sentence that a user can act on. It is never 0."""

    reason: str


Output = Estimate | Absent
