"""How much models differ on one board beyond the equations, and what one board tells of a model on another.

A model's factor on a board is the part of its time that no cost parameter explains: which kernels a runtime has for its
architecture. It is taken as the sum of a part that all boards of the runtime have in common and one of each board,
crossed random effects in logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from core.calibrate import robust
from core.spec import Prior

MODEL_LOG_SD = 0.13  # [prior] between models on one board: 0.12 to 0.15 (docs/physics.md, M10)
LEAST_LOG_SD = 0.08
N_PRIOR = 8.0  # how many models that prior counts for beside a runtime's own
SHARED_FRAC = 0.5  # [prior] of the variance that a runtime's boards have in common; too few models recur to learn it
LEAST_INFORMED = 0.05  # a factor whose variance the rows lower by less was not measured


class Factor(NamedTuple):
    """What one board's rows made of the factor of one model: its posterior under a prior of median 1."""

    runtime: str
    board: str
    kind: str  # which time: how the parameter's name begins
    model: str
    log_mean: float
    log_var: float
    guess_var: float = 0.0  # of that prior, beyond the scatter of models: its shape is a guess


Key = tuple[str, str]
"""Runtime and kind."""


def scatter(factors: Sequence[Factor], before: Mapping[Key, float]) -> dict[Key, float]:
    """Return the log-sd of factors by runtime and kind, robust and shrunk to `MODEL_LOG_SD`.

    Models whose shapes are guesses say little of it, and are passed over.

    Parameters
    ----------
    factors : sequence of Factor
    before : mapping
        The log-sd of the priors that they were found with; `MODEL_LOG_SD` where missing.
    """
    squares = dict[Key, list[float]]()
    for one in factors:
        key = one.runtime, one.kind
        prior_var = before.get(key, MODEL_LOG_SD) ** 2
        if one.log_var < (1.0 - LEAST_INFORMED) * prior_var and one.guess_var < prior_var:
            square, scale_2 = one.log_mean**2 + one.log_var, prior_var / robust.NORMAL_SD_PER_SCALE**2
            weight = (robust.NU + 1.0) / (robust.NU + square / scale_2)
            squares.setdefault(key, []).append(weight * square * robust.NORMAL_SD_PER_SCALE**2)
    found = {key: (N_PRIOR * MODEL_LOG_SD**2 + sum(of)) / (N_PRIOR + len(of)) for key, of in squares.items()}
    return {key: float(max(LEAST_LOG_SD, np.sqrt(variance))) for key, variance in found.items()}


def expected_factors(factors: Sequence[Factor], log_sd: Mapping[Key, float]) -> dict[Key, dict[str, Prior]]:
    """Return the factors of models to expect on a board where they were not measured, by runtime and kind.

    Several findings of one board count as one, weighted by their certainty.

    Parameters
    ----------
    factors : sequence of Factor
        Found with priors of that log-sd.
    log_sd : mapping
        Of the factors, by runtime and kind.
    """
    said = dict[tuple[Key, str], dict[str, list[tuple[float, float]]]]()
    guess = dict[tuple[Key, str], float]()
    for one in factors:
        key = one.runtime, one.kind
        prior_var = log_sd[key] ** 2 + one.guess_var if key in log_sd else 0.0
        if one.log_var < (1.0 - LEAST_INFORMED) * prior_var:
            precision = 1.0 / one.log_var - 1.0 / prior_var
            alone = (one.log_mean / one.log_var / precision, 1.0 / precision)  # what the rows say without the prior
            said.setdefault((key, one.model), {}).setdefault(one.board, []).append(alone)
            guess[key, one.model] = one.guess_var
    found = dict[Key, dict[str, Prior]]()
    for (key, model), boards in sorted(said.items()):
        found.setdefault(key, {})[model] = _on_another_board(list(boards.values()), log_sd[key] ** 2, guess[key, model])
    return found


def _on_another_board(boards: Sequence[Sequence[tuple[float, float]]], variance: float, guess_var: float) -> Prior:
    """Return the factor on another board, given what each board says of it (means and variances).

    A guess about the model's shape is off by as much on all boards.
    """
    shared, own = SHARED_FRAC * variance + guess_var, (1.0 - SHARED_FRAC) * variance
    means = [float(np.average([m for m, _ in of], weights=[1.0 / v for _, v in of])) for of in boards]
    precisions = [1.0 / (own + min(v for _, v in of)) for of in boards]
    precision = 1.0 / shared + sum(precisions)
    mean = float(np.dot(means, precisions)) / precision
    return Prior(float(np.exp(mean)), float(np.sqrt(own + 1.0 / precision)))
