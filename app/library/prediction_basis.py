"""The basis of a prediction: measurements of the board, published ones, or the prior of the runtime."""

from __future__ import annotations

from core.predict.scenario import initial_posterior
from core.spec import Catalogue, OperatingPoint, Posterior


def rests_on(point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None) -> Posterior:
    """Return the posterior of the point's board, runtime and power mode; `posterior` if it is theirs."""
    at = catalogue.resolve(point)
    here = (at.board.key, at.runtime.key, at.mode.key)
    if posterior is not None and (posterior.board, posterior.runtime, posterior.power_mode) == here:
        return posterior
    return initial_posterior(at, catalogue)
