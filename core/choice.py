"""Choosing anew which cached tokens are read: what measured choices teach of the terms of its time.

::

    T_choice = L t_layer + (f_format (c C + r K) + s_policy Q) / BW

C are keys and values that are copied together, K the keys of all cached tokens and Q the same for each query head
(`core.latency.choice_parts`). The terms are learned in logarithms about the runtime's priors. What the scores of all
policies have in common is one parameter, so a measured policy also tells of those that were not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core import latency, robust, traffic
from core.crosscheck import FEWEST, CrossCheck, of_predictions
from core.measured import MeasuredPoint
from core.spec import Catalogue, ChoiceCost

Floats = NDArray[np.float64]

N_TERMS = 4
TERM_LOG_SD = 1.0  # [prior] of each term on a machine about the runtime's
POLICY_LOG_SD = 0.3  # [prior] of a policy's scores about those of all
FORMAT_LOG_SD = 0.4  # [prior] of a cache format about the others
SCATTER_LOG_SD = 0.1  # [prior] of a measured choice about its prediction


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """One measured choice (scalars).

    Attributes
    ----------
    policy, kv : one that the runtime's cost knows, and the format of the cache
    moved_byte, n_layers, bandwidth_byte_s : as in `core.latency.choice_s`
    duration_s : measured, > 0 [s]
    """

    policy: str
    kv: str
    moved_byte: tuple[float, float, float]
    n_layers: int
    bandwidth_byte_s: float
    duration_s: float

    def parts_s(self, cost: ChoiceCost) -> tuple[float, ...]:
        """Return the terms of its duration by a cost [s]."""
        parts = latency.choice_parts(cost, self.policy, self.kv, self.moved_byte, self.n_layers, self.bandwidth_byte_s)
        return tuple(float(part) for part in parts)


def measured_choices(
    points: Sequence[MeasuredPoint], catalogue: Catalogue, bandwidth_byte_s: float
) -> list[MeasuredChoice]:
    """Return the choices that were timed at operating points of one board, whose bandwidth that is."""
    found = []
    for measured in points:
        if measured.choice_s is not None:
            point, at = measured.point, catalogue.setting(measured.point)
            copied, keys, scored = traffic.choice_byte(at.model, point.context_tokens, point.alpha, point.layout)
            moved = float(copied), float(keys), float(scored)
            n_layers = at.model.n_caching_layers
            found.append(MeasuredChoice(point.policy, at.kv.key, moved, n_layers, bandwidth_byte_s, measured.choice_s))
    return found


def learned(known: ChoiceCost, measured: Sequence[MeasuredChoice]) -> ChoiceCost:
    """Return what choosing costs by the measurements; `known` itself where there are none.

    The `log_sd` returned is the scatter of a new choice with what is left of the terms' uncertainty.
    """
    if not measured:
        return known
    policies, formats = sorted(known.score), sorted({m.kv for m in measured} | set(known.format))
    fitted = robust.fit(*_problem(known, measured, policies, formats))
    left = np.sum(fitted.jacobian @ fitted.cov * fitted.jacobian, axis=1)
    scatter = float(fitted.scale[0]) * robust.NORMAL_SD_PER_SCALE
    grown = np.exp(fitted.mean)
    layer, copy, read, score = grown[:N_TERMS]
    of_policy = dict(zip(policies, grown[N_TERMS:], strict=False))
    of_format = dict(zip(formats, grown[N_TERMS + len(policies) :], strict=True))
    return ChoiceCost(
        layer_s=float(known.layer_s * layer),
        copy=float(known.copy * copy),
        read=float(known.read * read),
        score={policy: float(of * score * of_policy[policy]) for policy, of in known.score.items()},
        log_sd=float(np.hypot(scatter, np.sqrt(np.mean(left)))),
        format={key: float(known.format.get(key, 1.0) * of_format[key]) for key in formats},
    )


def check(known: ChoiceCost, measured: Sequence[MeasuredChoice]) -> CrossCheck | None:
    """Predict each choice from all others; None for too few."""
    if len(measured) < FEWEST:
        return None
    others = [learned(known, [*measured[:i], *measured[i + 1 :]]) for i in range(len(measured))]
    predicted_s = [sum(m.parts_s(cost)) for m, cost in zip(measured, others, strict=True)]
    log_sd = np.array([cost.log_sd for cost in others])
    return of_predictions(np.log([m.duration_s for m in measured]), np.log(predicted_s), log_sd)


def _problem(
    known: ChoiceCost, measured: Sequence[MeasuredChoice], policies: Sequence[str], formats: Sequence[str]
) -> tuple[robust.Model, robust.Observed, robust.Prior]:
    """Parameters: logarithms, relative to `known`, of the four terms, each policy's scores, and each format's copying
    and reading.
    """
    terms = np.array([m.parts_s(known) for m in measured])
    of_policy = np.array([[float(m.policy == policy) for policy in policies] for m in measured])
    of_format = np.array([[float(m.kv == key) for key in formats] for m in measured])

    def model(theta: Floats) -> tuple[Floats, Floats]:
        policy, dearer = theta[N_TERMS : N_TERMS + len(policies)], theta[N_TERMS + len(policies) :]
        grown = terms * np.exp(theta[:N_TERMS])
        grown[:, 1:3] *= np.exp(of_format @ dearer)[:, None]
        grown[:, 3] *= np.exp(of_policy @ policy)
        total = grown.sum(axis=1)
        shares = grown / total[:, None]
        of_both = shares[:, 1:3].sum(axis=1, keepdims=True)
        return np.log(total), np.hstack([shares, shares[:, 3:] * of_policy, of_both * of_format])

    n = len(measured)
    observed = robust.Observed(np.log([m.duration_s for m in measured]), np.zeros(n), np.zeros(n, dtype=np.intp))
    sd = np.array([TERM_LOG_SD] * N_TERMS + [POLICY_LOG_SD] * len(policies) + [FORMAT_LOG_SD] * len(formats))
    scale = np.array([SCATTER_LOG_SD / robust.NORMAL_SD_PER_SCALE])
    return model, observed, robust.Prior(np.zeros(len(sd)), np.diag(np.square(sd)), scale)
