"""Random effects of models: the spread of their factors on one board, and transfer of a factor to other boards.

The factor of a model on a board is the ratio of its time to the prediction by the cost parameters; it reflects the
runtime's kernel coverage of the architecture. Its logarithm is the sum of an effect common to all boards of the runtime
and one of each board (crossed random effects).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.calibrate import robust
from core.spec import Prior

MODEL_LOG_SD = 0.13  # [prior] between models on one board: 0.12 to 0.15 (docs/physics.md, M10)
LEAST_LOG_SD = 0.08
N_PRIOR = 8.0  # weight of the prior in models
SHARED_FRAC = 0.5  # [prior] share of the variance common to a runtime's boards; too few models recur to fit it
LEAST_INFORMED = 0.05  # least relative reduction of the variance of a measured factor


class Factor(NamedTuple):
    """Posterior of the factor of one model on one board, under a prior of median 1."""

    runtime: str
    board: str
    kind: str  # one of `core.predict.parameters.FACTORS`
    model: str
    log_mean: float
    log_var: float
    shape_var: float = 0.0  # variance of the prior by an estimated shape, beyond the scatter of models


Key = tuple[str, str]
"""Runtime and kind."""


def scatter(factors: Sequence[Factor], before: Mapping[Key, float]) -> dict[Key, float]:
    """Return the log-sd of factors by runtime and kind, robust and shrunk to `MODEL_LOG_SD`.

    Models with estimated shapes carry little information on it and are ignored.

    Parameters
    ----------
    factors : sequence of Factor
    before : mapping
        Log-sd of the priors of `factors`; `MODEL_LOG_SD` where missing.
    """
    squares = dict[Key, list[float]]()
    for one in factors:
        key = one.runtime, one.kind
        prior_var = before.get(key, MODEL_LOG_SD) ** 2
        if one.log_var < (1.0 - LEAST_INFORMED) * prior_var and one.shape_var < prior_var:
            square, scale_2 = one.log_mean**2 + one.log_var, prior_var / robust.NORMAL_SD_PER_SCALE**2
            weight = (robust.NU + 1.0) / (robust.NU + square / scale_2)
            squares.setdefault(key, []).append(weight * square * robust.NORMAL_SD_PER_SCALE**2)
    found = {key: (N_PRIOR * MODEL_LOG_SD**2 + sum(of)) / (N_PRIOR + len(of)) for key, of in squares.items()}
    return {key: float(max(LEAST_LOG_SD, np.sqrt(variance))) for key, variance in found.items()}


def expected_factors(factors: Sequence[Factor], log_sd: Mapping[Key, float]) -> dict[Key, dict[str, Prior]]:
    """Return the expected factors of models on a board where they were not measured, by runtime and kind.

    Several factors of one board count as one, weighted by their precision.

    Parameters
    ----------
    factors : sequence of Factor
        Under priors with `log_sd`.
    log_sd : mapping
        Of the factors, by runtime and kind.
    """
    likelihoods = dict[tuple[Key, str], dict[str, list[tuple[float, float]]]]()
    shape_var = dict[tuple[Key, str], float]()
    for one in factors:
        key = one.runtime, one.kind
        prior_var = log_sd[key] ** 2 + one.shape_var if key in log_sd else 0.0
        if one.log_var < (1.0 - LEAST_INFORMED) * prior_var:
            precision = 1.0 / one.log_var - 1.0 / prior_var
            likelihood = (one.log_mean / one.log_var / precision, 1.0 / precision)  # of the rows without the prior
            likelihoods.setdefault((key, one.model), {}).setdefault(one.board, []).append(likelihood)
            shape_var[key, one.model] = one.shape_var
    found = dict[Key, dict[str, Prior]]()
    for (key, model), boards in sorted(likelihoods.items()):
        found.setdefault(key, {})[model] = _on_another_board(
            list(boards.values()), log_sd[key] ** 2, shape_var[key, model]
        )
    return found


def _on_another_board(boards: Sequence[Sequence[tuple[float, float]]], variance: float, shape_var: float) -> Prior:
    """Return the factor on another board, given means and variances by board.

    The error of an estimated shape is the same on all boards.
    """
    shared, own = SHARED_FRAC * variance + shape_var, (1.0 - SHARED_FRAC) * variance
    means = [float(np.average([m for m, _ in of], weights=[1.0 / v for _, v in of])) for of in boards]
    precisions = [1.0 / (own + min(v for _, v in of)) for of in boards]
    precision = 1.0 / shared + sum(precisions)
    mean = float(np.dot(means, precisions)) / precision
    return Prior(float(np.exp(mean)), float(np.sqrt(own + 1.0 / precision)))
