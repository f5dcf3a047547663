"""What the prediction of a point rests on: measurements of its board, published ones, or its runtime's prior."""

from __future__ import annotations

from core.predict.scenario import initial_posterior
from core.spec import Catalogue, OperatingPoint, Posterior


def rests_on(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None) -> Posterior:
    """Return what is known of the point's board, runtime and power mode; `posterior` where it is of these."""
    at = catalogue.resolve(point)
    here = (at.board.key, at.runtime.key, at.mode.key)
    if posterior is not None and (posterior.board, posterior.runtime, posterior.power_mode) == here:
        return posterior
    return initial_posterior(at, catalogue)
